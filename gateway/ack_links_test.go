package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/acklink"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const ackSecret = "0123456789abcdef"

// follow asks for a link as a browser or a scanner of mails does.
func (w *world) follow(method, url string) (int, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if answer.Header.Get("Referrer-Policy") != "no-referrer" ||
		!strings.Contains(answer.Header.Get("Content-Security-Policy"), "default-src 'none'") {
		w.t.Error(answer.Header)
	}
	w.saysWhen(answer)
	return answer.StatusCode, string(body)
}

// acks are the ack commands that were written, once there are n commands.
func (w *world) acks(n int) (list []string) {
	w.t.Helper()
	for _, r := range w.records(topics.Names{}.Commands(), n) {
		if strings.Contains(string(r.Value), `"op":"ack"`) {
			list = append(list, string(r.Key)+" "+string(r.Value))
		}
	}
	return list
}

func TestAckLink(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AckSecrets = func() []string { return []string{ackSecret} } })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/rent", `{"fire_at":"2060-01-01T09:00","timezone":"UTC"}`)
	link := func(dueID string, good time.Duration, secret string) string {
		return acklink.URL(w.url, []string{secret}, acklink.Link{DueID: dueID, Expires: time.Now().Add(good)})
	}
	const due = "rent@2060-01-01T09:00:00~3-17#1"
	for _, c := range []struct {
		name, method, url string
		status            int
		want              string
	}{
		{"a scanner", "GET", link(due, time.Hour, ackSecret), 200, `<form method="post">`},
		{"the button", "POST", link(due, time.Hour, ackSecret), 200, "needs no confirmation"},
		{"the button, twice", "POST", link(due, time.Hour, ackSecret), 200, "needs no confirmation"},
		{"expired", "GET", link(due, -time.Hour, ackSecret), 410, "has expired"},
		{"expired, the button", "POST", link(due, -time.Hour, ackSecret), 410, "has expired"},
		{"forged", "POST", link("bank/otp@x#0", time.Hour, "another-secret-of-someone"), 404, "is not valid"},
		{"garbage", "GET", w.url + "/a/%3Cscript%3E", 404, "is not valid"},
		{"a line break behind it", "GET", link(due, time.Hour, ackSecret) + "%0a", 404, "is not valid"},
		{"a line break, the button", "POST", link(due, time.Hour, ackSecret) + "%0D", 404, "is not valid"},
		{"padding", "GET", link(due, time.Hour, ackSecret) + "=", 404, "is not valid"},
		{"nobody's", "POST", link("none@2060-01-01T09:00:00#0", time.Hour, ackSecret), 404, "nothing to confirm"},
		{"no due event", "POST", link("none", time.Hour, ackSecret), 404, "is not valid"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := w.on(t).follow(c.method, c.url)
			if status != c.status || !strings.Contains(body, c.want) || strings.Contains(body, "<script>") ||
				strings.Contains(body, "rent") {
				t.Fatal(status, body)
			}
			if form := strings.Contains(body, "<form"); form != (c.method == "GET" && status == 200) {
				t.Fatal("a button:", form)
			}
		})
	}
	acks := w.acks(4) // a register, and three of the buttons
	if all := strings.Join(acks, "\n"); strings.Count(all, "rent {") != 2 || strings.Count(all, "none {") != 1 {
		t.Fatal(all)
	}
	for _, ack := range acks {
		occurrence := "2060-01-01T09:00:00~3-17" // with its life: another life's goes on
		if strings.HasPrefix(ack, "none") {
			occurrence = "2060-01-01T09:00:00"
		}
		if !strings.Contains(ack, `"occurrence":"`+occurrence+`"`) ||
			!strings.Contains(ack, `"actor":"ack link"`) {
			t.Error(ack)
		}
	}
}

// TestAckLinkSaysWhatItDid: the page claims no more than what became of the command.
func TestAckLinkSaysWhatItDid(t *testing.T) {
	fired, stopped := &trigger.State{Status: trigger.Fired}, []trigger.FactType{trigger.EscalationStopped}
	for _, c := range []struct {
		name string
		v    verdict
		want *ackPage
	}{
		{"in flight", verdict{decided: true, state: fired, facts: stopped}, ackDone},
		{"over already", verdict{decided: true, state: fired}, ackEnded},
		{"durable, not decided", verdict{}, ackDone},
		{"unknown", verdict{decided: true}, ackNothing},
	} {
		if got := ackOutcome(c.v, nil); got != c.want {
			t.Errorf("%s: %q", c.name, got.Text)
		}
	}
}

// Whoever has one link does not use up its tenant's rate: the tenant's own commands go on, and
// so do links of other occurrences.
func TestAckLinkOften(t *testing.T) {
	now := time.Date(2059, 12, 31, 0, 0, 0, 0, time.UTC) // stands still
	w := newWorld(t, func(o *Options) {
		o.AckSecrets = func() []string { return []string{ackSecret} }
		o.Rate = func(string) float64 { return 20 }
		o.Now = func() time.Time { return now }
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/rent", `{"fire_at":"2060-01-01T09:00","timezone":"UTC"}`)
	press := func(occurrence string) int {
		status, _ := w.follow("POST", acklink.URL(w.url, []string{ackSecret}, acklink.Link{
			DueID: "rent@" + occurrence + "~3-17#1", Expires: now.Add(time.Hour),
		}))
		return status
	}
	refused := 0
	for range 30 {
		if press("2060-01-01T09:00:00") == http.StatusTooManyRequests {
			refused++
		}
	}
	if refused != 25 {
		t.Errorf("%d of 30 were refused, want 25", refused)
	}
	if status := press("2060-01-02T09:00:00"); status != http.StatusOK {
		t.Errorf("another occurrence: %d", status)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/water", `{"fire_at":"2060-01-01T09:00","timezone":"UTC"}`)
}

func TestAckLinkWithoutSecret(t *testing.T) {
	w := newWorld(t, nil)
	for _, method := range []string{"GET", "POST"} {
		if body := w.must(http.StatusNotFound, method, "/a/x", "").body; !strings.Contains(body, "ack.secret") {
			t.Fatal(body)
		}
	}
}
