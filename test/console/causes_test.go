package console_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/explain"
)

// cause is how a trigger comes to a code, and what the page says then.
type cause struct {
	code, says string
	cites      string // type of the event that comes first; "state": what the owner knows
	seed       func(s *server, id string)
}

// The codes of gateway/explain that a dev server can be brought to. The one that it cannot,
// restoring, needs an instance whose engine is gone: TestOnKafka.
var seeds = []cause{
	{"scheduled", "Scheduled: it fires ", "trigger.registered", func(s *server, id string) { s.put(id, inAnHour) }},
	{"paused", "(on holiday): it does not fire until it is resumed", "trigger.paused", func(s *server, id string) {
		s.put(id, daily)
		s.call("POST", "/v1/triggers/"+id+":pause", `{"note":"on holiday"}`)
	}},
	{"overdue", "Not sent yet: it was due ", "state", func(*server, string) {}}, // TestCauses does it, last of all
	{"in_flight", " to sends, attempt 1: no receipt", "occurrence.fired", func(s *server, id string) { s.sent(id) }},
	{
		"retrying", "attempt 1 failed at the sends worker: http_503. Attempt 2 goes out ", "delivery.retried",
		answered("retry", "http_503"),
	},
	{"delivered", "Delivered: the sends worker says so of attempt 1", "delivery.delivered", answered("delivered", "")},
	{
		"suppressed", "decided against it: the user has opted out of this channel (opted_out)",
		"delivery.suppressed", answered("suppressed", "opted_out"),
	},
	{
		"postponed", "its breaker is open (breaker_open). It is tried again ", "delivery.postponed",
		answered("postponed", "breaker_open"),
	},
	{
		"failed", "neither the payload nor the preferences have an address (no_address)", "delivery.dead_lettered",
		answered("failed", "no_address"),
	},
	{"cancelled", "before it went out", "trigger.cancelled", func(s *server, id string) {
		s.put(id, inAnHour)
		s.call("DELETE", "/v1/triggers/"+id, "")
	}},
	{"expired", "over its expires_after 10m", "occurrence.expired", func(s *server, id string) {
		s.put(id, fmt.Sprintf(`{"fire_at":%q,"expires_after":"10m","channel":"orders"}`, anHourAgo()))
	}},
	{"skipped", "was left out by a skip", "occurrence.skipped", func(s *server, id string) {
		s.put(id, daily)
		s.call("POST", "/v1/triggers/"+id+":skip", "")
	}},
	{"misfired", "its misfire policy fires nothing that was missed", "occurrence.expired", func(s *server, id string) {
		s.put(id, fmt.Sprintf(`{"fire_at":%q,"misfire":"skip","channel":"orders"}`, anHourAgo()))
	}},
	{"fired", " to waterclock.due.orders, attempt 1.", "occurrence.fired", func(s *server, id string) {
		s.put(id, `{"delay":"0s","channel":"orders"}`)
	}},
	{"rejected", "Never registered: its command was refused ", "command.rejected", func(s *server, id string) {
		s.refused(id, `{"recurrence":"every:1s","channel":"orders"}`)
	}},
	{"erased", "its content is gone", "trigger.erased", func(s *server, id string) {
		s.put(id, inAnHour)
		s.call("POST", "/v1/triggers/"+id+":erase", "")
	}},
	{"unknown", "the history has no event of it", "", func(*server, string) {}},
}

func anHourAgo() string { return time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) }

func (s *server) put(id, body string) {
	s.t.Helper()
	s.call("PUT", "/v1/triggers/"+id, body)
}

// sent is a trigger whose due event is out on a channel with receipts. It returns its ce_id.
func (s *server) sent(id string) (due string) {
	s.t.Helper()
	s.put(id, `{"delay":"0s","channel":"sends","user_id":"u_7"}`)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		live, _ := s.call("GET", "/v1/triggers/"+id, "")["live"].([]any)
		if len(live) > 0 {
			of, _ := live[0].(map[string]any)
			if of["kind"] == "in_flight" {
				return fmt.Sprintf("%s@%s#0", id, of["occurrence"])
			}
		}
	}
	s.t.Fatalf("%s does not fire", id)
	return ""
}

// answered is a trigger whose worker has written a receipt.
func answered(outcome, code string) func(s *server, id string) {
	return func(s *server, id string) {
		s.t.Helper()
		value, _ := json.Marshal(map[string]string{
			"due_id": s.sent(id), "channel": "sends", "outcome": outcome, "code": code, "retry_after": "1h",
		})
		cl := s.client()
		defer cl.Close()
		if err := cl.ProduceSync(s.t.Context(), &kgo.Record{
			Topic: s.prefix + "receipts", Key: []byte(id), Value: value,
		}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// overdue is a trigger whose partition may not fire: somebody else's transaction is open in its commands.
func (s *server) overdue(id string) {
	s.t.Helper()
	s.put(id, `{"delay":"4s","channel":"orders"}`)
	cl := s.client(kgo.TransactionalID("somebody-"+id), kgo.TransactionTimeout(3*time.Minute))
	s.t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		s.t.Fatal(err)
	}
	if err := cl.ProduceSync(s.t.Context(), &kgo.Record{
		Topic: s.prefix + "commands", Key: []byte(id), Value: []byte(`{"op":"cancel"}`),
	}).FirstErr(); err != nil {
		s.t.Fatal(err)
	}
	time.Sleep(7 * time.Second) // later than it may be
}

func (s *server) client(more ...kgo.Opt) *kgo.Client {
	s.t.Helper()
	cl, err := kgo.NewClient(append(more, kgo.SeedBrokers(strings.Split(s.kafka, ",")...))...)
	if err != nil {
		s.t.Fatal(err)
	}
	return cl
}

// Each cause for which a customer gets nothing, or gets it: from the search box the page leads to a sentence
// that names it, and from the sentence to the event that decided.
func TestCauses(t *testing.T) {
	for _, code := range explain.Codes {
		seeded := slices.ContainsFunc(seeds, func(c cause) bool { return c.code == string(code) })
		if !seeded && code != explain.Restoring {
			t.Errorf("code %s has no seed", code)
		}
	}
	dev(t, "channels.sends.receipts=true", "barrier.max_hold=5m").causes(t, seeds)
}

// causes seeds these causes and walks to each.
func (s *server) causes(t *testing.T, seeds []cause) {
	t.Helper()
	idOf := func(code string) string { return "seed-" + code }
	for _, c := range seeds {
		if c.code != "overdue" {
			c.seed(s, idOf(c.code))
		}
	}
	if slices.ContainsFunc(seeds, func(c cause) bool { return c.code == "overdue" }) {
		s.overdue(idOf("overdue")) // the last: its partition stands still from here on
	}
	b := s.open(t, 1200, 900)
	b.visit("")
	for _, c := range seeds {
		id := idOf(c.code)
		b.fill("header input", id+kb.Enter)
		b.await("h1", "Found for "+id)
		if c.code == "unknown" {
			b.await("main", "Nothing is named so")
			b.allowed = append(b.allowed, "status of 404")
			b.visit("trigger?id=" + id)
		} else {
			b.click(id)
		}
		b.await("#sentence", c.says)
		if got := s.call("GET", "/v1/triggers/"+id+"/explain", "")["code"]; got != c.code {
			t.Errorf("%s: the code is %v", c.code, got)
		}
		b.cites(c.code, c.cites)
	}
}

// cites follows the first evidence to its event.
func (b *tab) cites(name, want string) {
	b.t.Helper()
	if want == "" {
		return
	}
	const first = "#evidence li:first-child"
	if want == "state" {
		b.await(first, "state")
		return
	}
	b.await(first+" a", "event ")
	var row string
	b.do(chromedp.Click(first+" a", chromedp.ByQuery), chromedp.WaitVisible("tr:target", chromedp.ByQuery),
		chromedp.Text("tr:target td:nth-child(2)", &row, chromedp.ByQuery))
	if row != want {
		b.t.Errorf("%s: the evidence leads to %q, want %q", name, row, want)
	}
}
