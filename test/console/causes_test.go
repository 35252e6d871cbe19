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
	name, code, says string
	cites            string // type of the event that comes first; "state": what the owner knows
	seed             func(s *server, id string)
}

// id is the trigger's.
func (c *cause) id() string { return "seed-" + strings.ReplaceAll(c.name, " ", "-") }

// mostPending bounds the pending triggers of a server on which causes are seeded.
const mostPending = 60

// Every cause that a server can be brought to. The one that it cannot, restoring, needs an instance whose engine is
// gone: TestCausesOnKafka.
var seeds = []cause{
	{ // it takes a minute, so it comes first
		"calendar day", "skipped", " is a day of calendar holidays, on which it does not fire", "state",
		func(s *server, id string) {
			today := time.Now().UTC()
			s.call("PUT", "/v1/calendars/holidays", fmt.Sprintf(`{"dates":[%q,%q]}`, today.Format(time.DateOnly),
				today.AddDate(0, 0, 1).Format(time.DateOnly)))
			s.put(id, `{"recurrence":"FREQ=MINUTELY","channel":"orders",`+
				`"calendars":{"names":["holidays"],"on":"skip"}}`)
		},
	},
	{"scheduled", "scheduled", "Scheduled: it fires ", "trigger.registered", pending},
	{"superseded", "scheduled", ", since it was replaced ", "trigger.replaced", func(s *server, id string) {
		s.put(id, inAnHour)
		s.put(id, `{"delay":"2h","channel":"orders"}`)
	}},
	{"paused", "paused", "(on holiday): it does not fire until it is", "trigger.paused", func(s *server, id string) {
		s.put(id, daily)
		s.call("POST", "/v1/triggers/"+id+":pause", `{"note":"on holiday"}`)
	}},
	{"overdue", "overdue", "Not sent yet: it was due ", "state", func(*server, string) {}}, // seeded last of all
	{"in flight", "in_flight", " to sends, attempt 1: no receipt", "occurrence.fired", func(s *server, id string) {
		s.sent(id)
	}},
	{
		"retrying", "retrying",
		"attempt 1 failed at the sends worker: the endpoint is unavailable (http_503). Attempt 2 goes out ",
		"delivery.retried", answered("retry", "http_503"),
	},
	{
		"delivered", "delivered", "Delivered: the sends worker says so of attempt 1", "delivery.delivered",
		answered("delivered", ""),
	},
	{"acknowledged", "delivered", "the user has reacted", "escalation.stopped", func(s *server, id string) {
		s.sent(id)
		s.call("POST", "/v1/triggers/"+id+":ack", "")
	}},
	{
		"opted out", "suppressed", "decided against it: the user has opted out of this channel (opted_out)",
		"delivery.suppressed", answered("suppressed", "opted_out"),
	},
	{
		"breaker open", "postponed", "its breaker is open (breaker_open). It is tried again ", "delivery.postponed",
		answered("postponed", "breaker_open"),
	},
	{
		"quiet hours", "postponed", "these are the user's quiet hours (quiet_hours)", "delivery.postponed",
		answered("postponed", "quiet_hours"),
	},
	{
		"dead letter", "failed", "neither the payload nor the preferences have an address (no_address)",
		"delivery.dead_lettered", answered("failed", "no_address"),
	},
	{"cancelled", "cancelled", "before it went out", "trigger.cancelled", func(s *server, id string) {
		s.put(id, inAnHour)
		s.call("DELETE", "/v1/triggers/"+id, "")
	}},
	{"cancelled too late", "cancelled", ", too late: occurrence ", "cancel.too_late", func(s *server, id string) {
		s.sent(id)
		s.batch(`{"op":"cancel","id":"` + id + `"}`)
	}},
	{"expired", "expired", "over its expires_after 10m", "occurrence.expired", func(s *server, id string) {
		s.put(id, fmt.Sprintf(`{"fire_at":%q,"expires_after":"10m","channel":"orders"}`, anHourAgo()))
	}},
	{"skipped", "skipped", "was left out by a skip", "occurrence.skipped", func(s *server, id string) {
		s.put(id, daily)
		s.call("POST", "/v1/triggers/"+id+":skip", "")
	}},
	{"misfired", "misfired", "fires nothing that was missed", "occurrence.expired", func(s *server, id string) {
		s.put(id, fmt.Sprintf(`{"fire_at":%q,"misfire":"skip","channel":"orders"}`, anHourAgo()))
	}},
	{"fired", "fired", " to waterclock.due.orders, attempt 1.", "occurrence.fired", func(s *server, id string) {
		s.put(id, `{"delay":"0s","channel":"orders"}`)
	}},
	{
		"rejected", "rejected", "Never registered: its command was refused ", "command.rejected",
		func(s *server, id string) { s.refused(id, `{"recurrence":"every:1s","channel":"orders"}`) },
	},
	{
		"quota", "rejected", "is at its limit tenants.default.max_pending, ", "command.rejected",
		func(s *server, id string) {
			var fill, empty []string
			for i := range mostPending {
				fill = append(fill, fmt.Sprintf(`{"op":"register","id":"full-%d",%s`, i, inAnHour[1:]))
				empty = append(empty, fmt.Sprintf(`{"op":"cancel","id":"full-%d"}`, i))
			}
			s.batch(fill...)
			s.refused(id, inAnHour)
			s.batch(empty...)
		},
	},
	{"erased", "erased", "its content is gone", "trigger.erased", func(s *server, id string) {
		s.put(id, inAnHour)
		s.call("POST", "/v1/triggers/"+id+":erase", "")
	}},
	{"unknown", "unknown", "the history has no event of it", "", func(*server, string) {}},
}

func pending(s *server, id string) { s.put(id, inAnHour) }

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

// overdue is a trigger whose partition may not fire: somebody else's transaction is open in its commands, until end.
func (s *server) overdue(id string) (end func()) {
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
	return func() {
		s.t.Helper()
		if err := cl.EndTransaction(s.t.Context(), kgo.TryAbort); err != nil {
			s.t.Fatal(err)
		}
	}
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
	t.Parallel() // it waits, most of the time
	for _, code := range explain.Codes {
		seeded := slices.ContainsFunc(seeds, func(c cause) bool { return c.code == string(code) })
		if !seeded && code != explain.Restoring {
			t.Errorf("code %s has no seed", code)
		}
	}
	dev(t, "channels.sends.receipts=true", "barrier.max_hold=5m",
		fmt.Sprint("tenants.default.max_pending=", mostPending)).causes(t, seeds)
}

// causes seeds these causes and walks to each.
func (s *server) causes(t *testing.T, seeds []cause) *tab {
	t.Helper()
	for _, c := range seeds {
		c.seed(s, c.id())
	}
	late := slices.IndexFunc(seeds, func(c cause) bool { return c.code == "overdue" })
	end := s.overdue(seeds[late].id()) // the last: its partition stands still from here on
	b := s.open(t, 1200, 900)
	b.visit("")
	slow := slices.IndexFunc(seeds, func(c cause) bool { return c.name == "calendar day" })
	for _, c := range slices.Concat(seeds[slow+1:], seeds[:slow+1]) {
		id := c.id()
		s.explains(id, c.code)
		b.fill("header input", id+kb.Enter)
		b.await("h1", "Found for "+id)
		if c.code == "unknown" {
			b.await("main", "Nothing is named so")
			b.allowed = append(b.allowed, "status of 404")
			b.visit("trigger?id=" + id)
		} else {
			b.await("main table", strings.ToUpper(c.code)+" ")
			b.await("main table", c.says)
			b.click(id)
		}
		b.await("#sentence", c.says)
		b.cites(c.name, c.cites)
	}
	end()
	s.explains(seeds[late].id(), "fired")
	return b
}

// explains waits until the API explains a trigger by a code.
func (s *server) explains(id, code string) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		x := s.call("GET", "/v1/triggers/"+id+"/explain", "")
		if x["code"] == code {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("%s is explained by %v, want %s", id, x, code)
		}
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
