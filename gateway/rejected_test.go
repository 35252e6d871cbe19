package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// refuse appends refused commands to topic rejected, one second after the other.
func (w *world) refuse(t *testing.T, keys ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for i, key := range keys {
		code := []trigger.Code{trigger.CodeNotFound, trigger.CodeUnknownZone}[i%2]
		k, v, headers := topics.RejectedRecord(&topics.Record{
			Topic: "waterclock.commands", Offset: int64(i), Key: []byte(key), Value: []byte(`{"payload":"only acme knows"}`),
		}, &trigger.Error{Code: code, Field: "timezone", Msg: "write it so"})
		rec := &kgo.Record{
			Topic: topics.Names{}.Rejected(), Key: k, Value: v, Partition: topics.Partition(k, testPartitions),
			Timestamp: time.Unix(1_795_000_000+int64(i), 0),
		}
		for _, h := range headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// refusals are the sources of refused commands over all pages.
func (w *world) refusals(t *testing.T, query string, header ...string) (all []string) {
	t.Helper()
	for cursor := ""; ; {
		a := w.must(http.StatusOK, "GET", "/v1/rejected?"+query+"&cursor="+cursor, "", header...)
		if strings.Contains(a.body, "only acme knows") {
			t.Fatalf("the content is shown: %s", a.body)
		}
		for _, part := range strings.Split(a.body, `"source":"waterclock.commands/0/`)[1:] {
			n, _, _ := strings.Cut(part, `"`)
			all = append(all, n)
		}
		if cursor = a.get(t, "next_cursor"); cursor == "" {
			return all
		}
	}
}

// Refused commands are listed once, the newest first over all partitions, each tenant's to
// itself, whatever the size of pages.
func TestRejected(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if got := w.refusals(t, "", bearer(keyO)...); got != nil {
		t.Errorf("of nothing: %q", got)
	}
	var keys, all, acme, zones, ofK3 []string
	for i := range 600 {
		keys = append(keys, fmt.Sprintf("%s/k%d", []string{"acme", "blue"}[i/3%2], i%7))
	}
	keys = append(keys, "/no key")
	w.refuse(t, keys...)
	for i := range slices.Backward(keys) {
		n := fmt.Sprint(i)
		all = append(all, n)
		if strings.HasPrefix(keys[i], "acme/") {
			acme = append(acme, n)
			if i%2 == 1 {
				zones = append(zones, n)
			}
			if keys[i] == "acme/k3" {
				ofK3 = append(ofK3, n)
			}
		}
	}
	for _, c := range []struct {
		key, query string
		want       []string
	}{
		{keyO, "limit=1000", all},
		{keyO, "limit=37", all},
		{keyR, "limit=37", acme},
		{keyO, "tenant=acme", acme},
		{keyR, "code=unknown_zone&limit=11", zones},
		{keyR, "trigger_id=k3&limit=5", ofK3},
		{keyR, "code=conflict", nil},
	} {
		if got := w.refusals(t, c.query, bearer(c.key)...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %d of %d: %q", c.query, len(got), len(c.want), got)
		}
	}
	a := w.must(http.StatusOK, "GET", "/v1/rejected?limit=1", "", bearer(keyR)...)
	if a.get(t, "next_cursor") == "" || !strings.Contains(a.body, `"field":"timezone","detail":"write it so"`) {
		t.Error(a.body)
	}
	w.must(http.StatusBadRequest, "GET", "/v1/rejected?limit=1&cursor="+a.get(t, "next_cursor"), "", bearer(keyB)...)
	p := w.must(http.StatusForbidden, "GET", "/v1/rejected?tenant=blue", "", bearer(keyR)...)
	if !strings.Contains(p.body, "refused commands of another tenant") {
		t.Errorf("the refusal names something else: %s", p.body)
	}
	w.must(http.StatusBadRequest, "GET", "/v1/rejected?code=", "", bearer(keyR)...)
}
