package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func TestListDeadLetters(t *testing.T) {
	w := newLetterWorld(t, nil)
	for i := range 10 {
		w.dead(idKey(fmt.Sprintf("k%d", i)), []string{"http_500", "receipt_timeout"}[i%2],
			func(d *trigger.DeadLetter) {
				if i >= 6 {
					d.Fire.Channel, d.Fire.Spec.Channel, d.Fire.Spec.Callback = "sms", "sms", nil
				}
			})
		time.Sleep(2 * time.Millisecond) // the order within a millisecond is that of partitions
	}
	all := []string{"k9", "k8", "k7", "k6", "k5", "k4", "k3", "k2", "k1", "k0"}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"", all},
		{"&tenant=default", all},
		{"&tenant=other", nil},
		{"&code=receipt_timeout", []string{"k9", "k7", "k5", "k3", "k1"}},
		{"&channel=sms", all[:4]},
		{"&endpoint=" + url.QueryEscape("https://hooks.example.com"), all[4:]},
		{"&endpoint=" + url.QueryEscape("HTTPS://Hooks.example.com:443/"), all[4:]},
		{"&status=redriven", nil},
		{"&trigger_id=k3", []string{"k3"}},
		{"&from=2100-01-01T00:00:00Z", nil},
		{"&to=2001-01-01T00:00:00Z", nil},
	} {
		if got := w.ids(c.query); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.query, got, c.want)
		}
	}
	one := w.must(http.StatusOK, http.MethodGet, "/v1/dead-letters?trigger_id=k3", "")
	for _, want := range []string{
		`"code":"receipt_timeout"`, `"detail":"said the endpoint"`, `"attempts":6`, `"failed_at":"`, `"status":"open"`,
		`"endpoint":"https://hooks.example.com"`, `"tenant":"default"`,
	} {
		if !strings.Contains(one.body, want) {
			t.Errorf("no %s in %s", want, one.body)
		}
	}
	by := func(group string) string {
		return w.must(http.StatusOK, http.MethodGet, "/v1/dead-letters?group_by="+group, "").body
	}
	for group, want := range map[string][]string{
		"code":     {`{"value":"http_500","count":5`, `{"value":"receipt_timeout","count":5`},
		"tenant":   {`{"value":"default","count":10`},
		"endpoint": {`{"value":"https://hooks.example.com","count":6`, `{"value":"","count":4`},
	} {
		for _, one := range want {
			if got := by(group); !strings.Contains(got, one) || !strings.Contains(got, `"looked_at":10`) {
				t.Errorf("by %s: no %s in %s", group, one, got)
			}
		}
	}
	waited := w.waited.Load()
	if w.ids("&fresh=false"); w.waited.Load() != waited {
		t.Error("fresh=false waits for the history")
	}
	if w.ids("&fresh=true"); w.waited.Load() == waited {
		t.Error("fresh=true does not wait for the history")
	}
	for path, code := range map[string]string{
		"?group_by=channel": "invalid", "?status=erased": "invalid", "?cursor=x": "invalid", "?limit=0": "invalid",
		"?from=soon": "invalid", "?code=": "invalid", "?fresh=no": "invalid", "?cod=x": "unknown_field",
		"?trigger_id=a/b":             "invalid",
		"?endpoint=hooks.example.com": "invalid", "?endpoint=https://hooks.example.com/hook": "invalid",
	} {
		if a := w.must(http.StatusBadRequest, http.MethodGet, "/v1/dead-letters"+path, ""); a.get(t, "code") != code {
			t.Errorf("%s: %s", path, a.body)
		}
	}
}

// Without a history a list is refused, and a trigger's letters are found by
// reading its partition.
func TestDeadLettersWithoutHistory(t *testing.T) {
	w := newLetterWorld(t, func(o *Options) { o.Letters = nil })
	w.dead(idKey("k"), "http_500")
	w.dead(idKey("other"), "http_500")
	a := w.must(http.StatusServiceUnavailable, http.MethodGet, "/v1/dead-letters", "")
	if !strings.Contains(a.get(t, "detail"), "role history") {
		t.Error(a.body)
	}
	w.must(http.StatusServiceUnavailable, http.MethodPost, "/v1/dead-letters:redrive", `{"all":true}`)
	if got, _ := w.redrive(`{"trigger_id":"k"}`); got.Redriven != 1 {
		t.Errorf("%+v", got)
	}
	if got, _ := w.redrive(`{"trigger_id":"k"}`); got.Duplicate != 1 {
		t.Errorf("again: %+v", got)
	}
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"nobody"}`)
	if n := w.redrives(); n != 1 {
		t.Errorf("%d occurrences went out again", n)
	}
}

// A tenant sees its own letters and no others, whatever it asks for; and it
// redrives no others.
func TestDeadLettersOfTenants(t *testing.T) {
	w := newLetterWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	red, blue, op := as(keyA), as(keyB), as(keyO)
	for i := range 4 {
		w.dead(trigger.NewKey("acme", fmt.Sprintf("r%d", i)), "http_500")
		w.dead(trigger.NewKey("blue", fmt.Sprintf("b%d", i)), "http_500")
	}
	if got := w.ids("", red...); len(got) != 4 || !strings.HasPrefix(got[0], "r") {
		t.Errorf("red sees %v", got)
	}
	if got := w.ids("&trigger_id=b1", red...); len(got) != 0 {
		t.Errorf("red sees %v of blue", got)
	}
	w.must(http.StatusForbidden, http.MethodGet, "/v1/dead-letters?tenant=blue", "", red...)
	w.must(http.StatusForbidden, http.MethodPost, "/v1/dead-letters:redrive", `{"tenant":"blue"}`, red...)
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"b1"}`, red...)
	w.must(http.StatusNotFound, http.MethodPost, "/v1/dead-letters:redrive", `{"trigger_id":"blue/b1"}`, red...)
	var first DeadLetters
	page := w.must(http.StatusOK, http.MethodGet, "/v1/dead-letters?limit=1", "", blue...)
	if err := json.Unmarshal([]byte(page.body), &first); err != nil || first.NextCursor == "" {
		t.Fatalf("%v: %s", err, page.body)
	}
	if plain, err := base64.RawURLEncoding.DecodeString(first.NextCursor); err != nil ||
		strings.Contains(string(plain), "blue") {
		t.Errorf("cursor %q is readable: %v", plain, err)
	}
	readable := topics.LetterCursor{Tenant: "acme", FailedAt: 1}.String()
	for _, theirs := range []string{first.NextCursor, readable} {
		refused := w.must(http.StatusBadRequest, http.MethodGet, "/v1/dead-letters?cursor="+theirs, "", red...)
		if !strings.Contains(refused.get(t, "detail"), "begin without one") {
			t.Errorf("a cursor of another's: %s", refused.body)
		}
	}
	w.must(http.StatusBadRequest, http.MethodGet, "/v1/dead-letters?code=x&cursor="+first.NextCursor, "", blue...)
	w.must(http.StatusOK, http.MethodGet, "/v1/dead-letters?limit=1&cursor="+first.NextCursor, "", blue...)
	if got := w.ids("", op...); len(got) != 8 {
		t.Errorf("an operator sees %v", got)
	}
	if got := w.ids("&tenant=blue", op...); len(got) != 4 {
		t.Errorf("an operator sees %v of blue", got)
	}
	if got, _ := w.redrive(`{"all":true,"rate":1000}`, red...); got.Redriven != 4 {
		t.Errorf("red redrives %+v", got)
	}
	if got := w.ids("", blue...); len(got) != 4 {
		t.Errorf("blue has %v left", got)
	}
	if got, _ := w.redrive(`{"trigger_id":"b1","tenant":"blue"}`, op...); got.Redriven != 1 {
		t.Errorf("an operator redrives %+v", got)
	}
	if got, _ := w.redrive(`{"all":true,"rate":1000}`, op...); got.Redriven != 3 {
		t.Errorf("an operator redrives %+v", got)
	}
}

// A dry run of a redrive is a read: it uses up the tenant's rate of reads, by filter and of one trigger, and waits for
// it. A redrive that sends does not.
func TestDryRunIsCostly(t *testing.T) {
	now := time.Now().Add(time.Minute) // later than any letter of the test
	w := newLetterWorld(t, func(o *Options) {
		o.Auth, o.Now = testKeys(t), func() time.Time { return now }
		o.ReadRate = func(tenant string) float64 { return map[string]float64{"acme": 12}[tenant] }
	})
	a := []string{"Authorization", "Bearer " + keyA}
	for i := range 3 {
		w.dead(trigger.NewKey("acme", fmt.Sprintf("r%d", i)), "http_500")
	}
	for _, body := range []string{`{"all":true,"dry_run":true}`, `{"trigger_id":"r1","dry_run":true}`} {
		// 120 at once: the first, of 100 and what it visits, leaves something, and the second nothing.
		for n := range 2 {
			if got, _ := w.redrive(body, a...); got.Matched == 0 || got.Redriven != 0 {
				t.Errorf("%s, %d: %+v", body, n, got)
			}
		}
		refused := w.must(http.StatusTooManyRequests, "POST", "/v1/dead-letters:redrive", body, a...)
		if refused.get(t, "code") != "quota_exceeded" || refused.header.Get("Retry-After") == "" {
			t.Error(refused.body)
		}
		now = now.Add(time.Minute)
	}
	if left := w.server.reads.quota.limiter("acme").TokensAt(now); left != 120 {
		t.Fatalf("%g left after a minute", left)
	}
	if got, _ := w.redrive(`{"all":true}`, a...); got.Redriven != 3 {
		t.Errorf("a redrive: %+v", got)
	}
	if left := w.server.reads.quota.limiter("acme").TokensAt(now); left != 120 {
		t.Errorf("a redrive that sends takes from the reads: %g are left", left)
	}
}

// A redrive that finds nothing to send, or only what has expired, pays for what it visits, and waits for its tenant's
// rate of reads.
func TestRedriveInVainIsCostly(t *testing.T) {
	now := time.Now().Add(time.Minute)
	w := newLetterWorld(t, func(o *Options) {
		o.Auth, o.Now = testKeys(t), func() time.Time { return now }
		o.ReadRate = func(tenant string) float64 { return map[string]float64{"acme": 1}[tenant] }
	})
	for i := range 3 {
		w.dead(trigger.NewKey("acme", fmt.Sprintf("r%d", i)), "http_500")
	}
	quota := w.server.reads.quota.limiter("acme")
	before := quota.TokensAt(now)
	if got, _ := w.redrive(`{"code":"http_410"}`, "Authorization", "Bearer "+keyA); got.Redriven != 0 || !got.Done {
		t.Errorf("%+v", got)
	}
	if paid := before - quota.TokensAt(now); paid < 3 {
		t.Errorf("it visited three letters and paid for %v", paid)
	}
}
