package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// causes is a world with a history: what its engine decides becomes events, by the product's own
// encoder. The tests let timers go off, and send receipts, as the rest of a cluster would.
type causes struct {
	*world
	log   *keptEvents
	us    int64
	ahead atomic.Int64 // how much later it is for the gateway than for the engine, ns
	bare  string       // a gateway of the same engine, without a history
}

func newCauses(t *testing.T) *causes {
	t.Helper()
	c := &causes{log: &keptEvents{}}
	clock := func(o *Options) {
		o.Now = func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }
	}
	c.world = newWorld(t, func(o *Options) { clock(o); o.History = c.log })
	_, c.bare = c.gateway(c.engine, clock)
	c.engine.set(func() {
		c.engine.machine.Channel = func(name string) trigger.Channel {
			return trigger.Channel{
				Topic: topics.Names{}.Due(name), Receipts: name != "orders", ReceiptTimeout: time.Hour,
				Retry: []time.Duration{10 * time.Second, 30 * time.Second},
			}
		}
		c.engine.seen = func(r *kgo.Record, facts []trigger.Fact) {
			c.add(trigger.Key(r.Key), trigger.At(time.Now()), topics.Source(r.Topic, r.Partition, r.Offset), facts)
		}
	})
	return c
}

// add writes facts to the history.
func (c *causes) add(key trigger.Key, at trigger.Instant, source string, facts []trigger.Fact) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for i := range facts {
		c.us++
		var e topics.Event
		b := topics.AppendEvent(nil, key, &facts[i], topics.EventEnv{
			Partition: 3, EventUS: firstEventUS + c.us, At: at, Source: source,
		})
		if err := json.Unmarshal(b, &e); err != nil {
			c.t.Errorf("%s: %v", b, err)
		}
		c.log.all = append(c.log.all, e)
	}
}

// fires lets the next timer of a trigger go off, so much later than it should.
func (c *causes) fires(id string, late time.Duration) {
	c.step(id, "", func(m *trigger.Machine, s *trigger.State) (trigger.Outcome, trigger.Instant) {
		timers := s.Timers(nil)
		if len(timers) == 0 {
			c.t.Fatalf("%s has no timer", id)
		}
		slices.SortFunc(timers, func(a, b trigger.Timer) int { return int(a.Due - b.Due) })
		at := timers[0].Due.Add(late)
		return m.Due(s, timers[0], at), at
	})
}

// receipt answers what is in flight.
func (c *causes) receipt(id string, outcome trigger.ReceiptOutcome, code, detail string) {
	c.step(
		id,
		"waterclock.receipts/0/7",
		func(m *trigger.Machine, s *trigger.State) (trigger.Outcome, trigger.Instant) {
			l := &s.Live[len(s.Live)-1]
			at := l.Due.Add(-time.Hour + time.Second)
			return m.Receive(s, &trigger.Receipt{
				Occurrence: l.Occurrence, Step: l.Step, Channel: "sms", Outcome: outcome, Postponed: -1, Code: code,
				Detail: detail, At: at,
			}, at), at
		},
	)
}

// refused is a command that the engine refuses.
func (c *causes) refused(id string, code trigger.Code, text string) {
	c.step(
		id,
		"waterclock.commands/0/9",
		func(m *trigger.Machine, s *trigger.State) (trigger.Outcome, trigger.Instant) {
			return m.Reject(s, &trigger.Error{Code: code, Msg: text}, ""), trigger.At(time.Now())
		},
	)
}

func (c *causes) step(id, source string, f func(*trigger.Machine, *trigger.State) (trigger.Outcome, trigger.Instant)) {
	c.t.Helper()
	c.engine.set(func() {
		key := idKey(id)
		out, at := f(&c.engine.machine, c.engine.states[key])
		if out.State != nil {
			c.engine.states[key] = out.State
		}
		c.add(key, at, source, out.Facts)
	})
}

func (c *causes) put(id, body string) {
	c.t.Helper()
	c.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, body)
}

// explain asks, at an instant so much later than now.
func (c *causes) explain(base, id string, ahead time.Duration) (x Explanation) {
	c.t.Helper()
	c.ahead.Store(int64(ahead))
	a := c.callAt(base, "GET", "/v1/triggers/"+id+"/explain", "")
	if a.status != http.StatusOK {
		c.t.Fatalf("%s: %d %s", id, a.status, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &x); err != nil {
		c.t.Fatal(err)
	}
	return x
}

// found is what a search for a trigger says of it.
func (c *causes) found(base, id string) (code, sentence string) {
	c.t.Helper()
	a := c.callAt(base, "GET", "/v1/search?fresh=false&q="+url.QueryEscape(id), "")
	var found FoundItems
	if err := json.Unmarshal([]byte(a.body), &found); a.status != http.StatusOK || err != nil {
		c.t.Fatalf("%s: %d %s", id, a.status, a.body)
	}
	for _, item := range found.Items {
		code, sentence = item.Code, item.Sentence
	}
	return code, sentence
}

// typeOf is the type of the event that evidence cites.
func (c *causes) typeOf(e EvidenceJSON) string {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for i := range c.log.all {
		if c.log.all[i].EventID == e.EventID {
			return c.log.all[i].Type
		}
	}
	return e.Source
}

// What became of a trigger is found behind many commands that changed nothing, or were refused.
func TestExplainReadsPastWhatChangedNothing(t *testing.T) {
	c := newCauses(t)
	const daily = `{"channel":"sms","recurrence":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0",` +
		`"timezone":"America/New_York"}`
	for _, row := range []struct {
		name, body string
		repeat     func(id string)
	}{
		{"repeats", daily, func(id string) { c.must(http.StatusOK, "PUT", "/v1/triggers/"+id, daily) }},
		{
			"refused", `{"channel":"sms","delay":"1h"}`,
			func(id string) { c.refused(id, trigger.CodeQuotaExceeded, "the tenant's limit") },
		},
	} {
		id := "past-" + row.name
		c.put(id, row.body)
		c.fires(id, 0)
		c.receipt(id, trigger.ReceiptSuppressed, "opted_out", "")
		for range 100 {
			row.repeat(id)
		}
		if got := c.explain(c.url, id, 0); got.Code != string(explain.Suppressed) {
			t.Errorf("%s: %s, %s", row.name, got.Code, got.Sentence)
		}
		if code, sentence := c.found(c.url, id); code != string(explain.Suppressed) {
			t.Errorf("%s, found: %s, %s", row.name, code, sentence)
		}
	}
}

// Each cause for which a customer gets nothing, or gets it, is named, and the event that decided
// is cited first.
func TestExplainNamesTheCause(t *testing.T) {
	c := newCauses(t)
	day := func(n int) string { return time.Now().UTC().AddDate(0, 0, n).Format(time.DateOnly) }
	c.engine.set(func() {
		if err := c.engine.machine.Timetable.PutCalendar("us", []string{day(0), day(1), day(2), day(3)}); err != nil {
			t.Error(err)
		}
	})
	const soon, daily = `"channel":"sms","delay":"1h"`, `"channel":"sms","recurrence":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","timezone":"America/New_York"`
	sent := func(more string) func(string) {
		return func(id string) { c.put(id, `{`+soon+more+`}`); c.fires(id, 0) }
	}
	answered := func(outcome trigger.ReceiptOutcome, code string) func(string) {
		return func(id string) { sent("")(id); c.receipt(id, outcome, code, "") }
	}
	for _, row := range []struct {
		name  string
		cause func(id string)
		ahead time.Duration
		code  explain.Code
		cites string // type of the event
		says  string
		next  bool
		bare  explain.Code // without a history; "": the same
	}{
		{
			"scheduled", func(id string) { c.put(id, `{`+soon+`}`) }, 0, explain.Scheduled, "trigger.registered",
			"Scheduled: it fires ", true, "",
		},
		{
			"superseded", func(id string) {
				c.put(id, `{`+soon+`}`)
				c.must(http.StatusOK, "PUT", "/v1/triggers/"+id, `{"channel":"sms","delay":"2h"}`)
			}, 0, explain.Scheduled, "trigger.replaced", ", since it was replaced ", true, "",
		},
		{
			"paused", func(id string) {
				c.put(id, `{`+daily+`}`)
				c.must(http.StatusOK, "POST", "/v1/triggers/"+id+":pause", `{"note":"on holiday"}`)
			}, 0, explain.Paused, "trigger.paused", "(on holiday): it does not fire until it is resumed.", false, "",
		},
		{
			"overdue", func(id string) { c.put(id, `{`+soon+`}`) }, 2 * time.Hour, explain.Overdue, "state",
			"Not sent yet: it was due ", false, "",
		},
		{
			"in flight", sent(""), 0, explain.InFlight, "occurrence.fired", " to sms, attempt 1: no receipt yet.",
			false, "",
		},
		{
			"retrying", answered(trigger.ReceiptRetry, "http_503"), 0, explain.Retrying, "delivery.retried",
			"attempt 1 failed at the sms worker: the endpoint is unavailable (http_503). Attempt 2 goes out ", true, "",
		},
		{
			"delivered", answered(trigger.ReceiptDelivered, ""), 0, explain.Delivered, "delivery.delivered",
			"Delivered: the sms worker says so of attempt 1", false, explain.Fired,
		},
		{
			"acked", func(id string) { sent("")(id); c.must(http.StatusOK, "POST", "/v1/triggers/"+id+":ack", "") }, 0,
			explain.Delivered, "escalation.stopped", "the user has reacted", false, explain.Fired,
		},
		{
			"opted out", answered(trigger.ReceiptSuppressed, "opted_out"), 0, explain.Suppressed, "delivery.suppressed",
			"Not sent: the sms worker decided against it: the user has opted out of this channel (opted_out)", false,
			explain.Fired,
		},
		{
			"opted out of a series", func(id string) {
				c.put(id, `{`+daily+`}`)
				c.fires(id, 0)
				c.receipt(id, trigger.ReceiptSuppressed, "opted_out", "")
			}, 0, explain.Suppressed, "delivery.suppressed", "09:00 America/New_York.", true, explain.Fired,
		},
		{
			"breaker open", answered(trigger.ReceiptPostponed, "breaker_open"), 0, explain.Postponed,
			"delivery.postponed", "its breaker is open (breaker_open). It is tried again ", true, "",
		},
		{
			"quiet hours", answered(trigger.ReceiptPostponed, "quiet_hours"), 0, explain.Postponed,
			"delivery.postponed", "these are the user's quiet hours", true, "",
		},
		{
			"dead letter", answered(trigger.ReceiptFailed, "no_address"), 0, explain.Failed, "delivery.dead_lettered",
			"given up after attempt 1: neither the payload nor the preferences have an address (no_address)", false, "",
		},
		{
			"cancelled", func(id string) {
				c.put(id, `{`+soon+`}`)
				c.must(http.StatusOK, "DELETE", "/v1/triggers/"+id, "")
			}, 0, explain.Cancelled, "trigger.cancelled", "before it went out", false, "",
		},
		{
			"cancelled too late", func(id string) {
				sent("")(id)
				c.must(http.StatusConflict, "DELETE", "/v1/triggers/"+id, "")
			}, 0, explain.Cancelled, "cancel.too_late", ", too late: occurrence ", false, "",
		},
		{
			"expired", func(id string) {
				c.put(id, `{`+soon+`,"expires_after":"10m"}`)
				c.fires(id, 11*time.Minute)
			}, 0, explain.Expired, "occurrence.expired", "too late by 11 min, over its expires_after 10m0s", false, "",
		},
		{
			"skipped", func(id string) {
				c.put(id, `{`+daily+`}`)
				c.must(http.StatusOK, "POST", "/v1/triggers/"+id+":skip", "")
			}, 0, explain.Skipped, "occurrence.skipped", "was left out by a skip", true, explain.Scheduled,
		},
		{
			"skipped at last", func(id string) {
				c.put(id, `{"channel":"sms","recurrence":"FREQ=DAILY;COUNT=1","start":"`+day(1)+
					`T09:00","timezone":"America/New_York"}`)
				c.must(http.StatusOK, "POST", "/v1/triggers/"+id+":skip", "")
			}, 0, explain.Skipped, "occurrence.skipped", "was left out by a skip", false, "",
		},
		{
			"calendar day", func(id string) { c.put(id, `{`+daily+`,"calendars":{"names":["us"],"on":"skip"}}`) },
			49 * time.Hour, explain.Skipped, "state", "09:00 America/New_York is a day of calendar us, on which", true,
			"",
		},
		{
			"calendar day to come",
			func(id string) { c.put(id, `{`+daily+`,"calendars":{"names":["us"],"on":"next_business_day"}}`) },
			0, explain.Scheduled, "state", "calendar us, so it moves to the next business day", true, "",
		},
		{
			"misfired", func(id string) {
				c.put(id, `{`+soon+`,"misfire":"skip"}`)
				c.fires(id, 2*time.Hour)
			}, 0, explain.Misfired, "occurrence.expired", "missed by 2 h", false, explain.Expired,
		},
		{
			"misfired series", func(id string) {
				c.put(id, `{`+daily+`,"misfire":"skip"}`)
				c.fires(id, 49*time.Hour)
			}, 0, explain.Misfired, "occurrence.misfired", "3 occurrences were missed", true, explain.Scheduled,
		},
		{
			"fired", func(id string) { c.put(id, `{"channel":"orders","delay":"1h"}`); c.fires(id, 0) }, 0,
			explain.Fired, "occurrence.fired", " to waterclock.due.orders, attempt 1.", false, "",
		},
		{
			"accepted", answered(trigger.ReceiptAccepted, ""), 0, explain.Fired, "delivery.accepted",
			"the sms worker accepted attempt 1", false, "",
		},
		{
			"quota", func(id string) { c.refused(id, trigger.CodeQuotaExceeded, "the tenant's limit pending, 10") }, 0,
			explain.Rejected, "command.rejected", "refused ", false, explain.Unknown,
		},
		{
			"erased", func(id string) {
				c.put(id, `{`+soon+`}`)
				c.must(http.StatusOK, "POST", "/v1/triggers/"+id+":erase", "")
			}, 0, explain.Erased, "trigger.erased", "its content is gone", false, "",
		},
		{"unknown", func(string) {}, 0, explain.Unknown, "", "the history has no event of it", false, ""},
		{
			"restoring", func(id string) {
				c.put(id, `{`+soon+`}`)
				c.engine.set(func() { c.engine.foreign[topics.Partition([]byte(idKey(id)), testPartitions)] = true })
			}, 0, explain.Restoring, "trigger.registered", "its partition has no owner that answers", false, "",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			c.t = t
			id := strings.ReplaceAll(row.name, " ", "-")
			row.cause(id)
			x := c.explain(c.url, id, row.ahead)
			cites := ""
			if len(x.Evidence) > 0 {
				cites = c.typeOf(x.Evidence[0])
			}
			if x.Code != string(row.code) || cites != row.cites || !strings.Contains(x.Sentence, row.says) ||
				(x.Next != "") != row.next || !x.History {
				t.Errorf("cites %q, want %s %q %q:\n%+v", cites, row.code, row.cites, row.says, x)
			}
			bare := c.explain(c.bare, id, row.ahead)
			want := row.bare
			if want == "" {
				want = row.code
			}
			if bare.Code != string(want) || bare.History || bare.Sentence == "" {
				t.Errorf("without a history, want %s:\n%+v", want, bare)
			}
			for base, want := range map[string]Explanation{c.url: x, c.bare: bare} {
				switch explain.Code(want.Code) { // of an owner that does not answer, and of what is not found: nothing
				case explain.Restoring, explain.Unknown:
					want = Explanation{}
				case explain.Erased:
					if !want.History {
						want = Explanation{}
					}
				}
				if code, sentence := c.found(base, id); code != want.Code ||
					(base == c.url && code != "" && !strings.Contains(sentence, row.says)) {
					t.Errorf("a search says %q %q, explain %+v", code, sentence, want)
				}
			}
		})
	}
	c.t = t
}

// What came after and changed nothing is said, too.
func TestExplainMentions(t *testing.T) {
	c := newCauses(t)
	c.put("late", `{"channel":"orders","delay":"1h"}`)
	c.fires("late", 0)
	c.must(http.StatusConflict, "DELETE", "/v1/triggers/late", "")
	if x := c.explain(c.url, "late", 0); x.Code != "fired" || !strings.Contains(x.Sentence, "A cancel came too late") ||
		c.typeOf(x.Evidence[len(x.Evidence)-1]) != "cancel.too_late" {
		t.Errorf("%+v", x)
	}
	c.put("moved", `{"channel":"sms","delay":"1h"}`)
	c.refused("moved", trigger.CodeSuperseded, "a later command was applied first")
	if x := c.explain(c.url, "moved", 0); x.Code != "scheduled" ||
		!strings.Contains(x.Sentence, "superseded: a later command was applied first") {
		t.Errorf("%+v", x)
	}
}

// A trigger that its owner has forgotten is explained by what the history has.
func TestExplainForgotten(t *testing.T) {
	c := newCauses(t)
	c.put("old", `{"channel":"sms","delay":"1h"}`)
	c.fires("old", 0)
	c.receipt("old", trigger.ReceiptSuppressed, "opted_out", "")
	c.engine.set(func() { delete(c.engine.states, idKey("old")) })
	if x := c.explain(c.url, "old", 0); x.Code != "suppressed" ||
		!strings.Contains(x.Sentence, "Its record is gone since") {
		t.Errorf("%+v", x)
	}
}

// A history that is behind is waited for, and one that stays behind is named.
func TestExplainWaitsForTheHistory(t *testing.T) {
	c := newCauses(t)
	c.put("k", `{"channel":"sms","delay":"1h"}`)
	c.fires("k", 0)
	c.receipt("k", trigger.ReceiptSuppressed, "opted_out", "")
	c.log.mu.Lock()
	all := c.log.all
	c.log.all = all[:1]
	c.log.mu.Unlock()
	x := c.explain(c.url, "k", 0)
	if x.Code != "fired" || !strings.Contains(x.Sentence, "it lacks the newest 2 of its events") || !x.History {
		t.Errorf("behind: %+v", x)
	}
	time.AfterFunc(100*time.Millisecond, func() {
		c.log.mu.Lock()
		c.log.all = all
		c.log.mu.Unlock()
	})
	if x := c.explain(c.url, "k", 0); x.Code != "suppressed" {
		t.Errorf("in a moment: %+v", x)
	}
}

// What a user wrote stays text: nothing of it turns the sentence around.
func TestExplainHostileTexts(t *testing.T) {
	c := newCauses(t)
	for _, id := range []string{
		"%E2%80%AEx%3Cscript%3E" + strings.Repeat("a", 100), "x%00", strings.Repeat("b", 255), "a%2Fb", "%3Arun",
	} {
		a := c.call("GET", "/v1/triggers/"+id+"/explain", "")
		hostile := strings.ContainsRune(a.body, 0x202e)
		if a.status != http.StatusOK && a.status != http.StatusNotFound || hostile {
			t.Errorf("%s: %d %q", id, a.status, a.body)
		}
	}
	c.put("k", `{"channel":"sms","delay":"1h"}`)
	c.fires("k", 0)
	c.receipt("k", trigger.ReceiptFailed, "</script>\u202e\u200b", strings.Repeat("x\u202e", 4000))
	a := c.must(http.StatusOK, "GET", "/v1/triggers/k/explain", "")
	if strings.ContainsAny(a.body, "\u202e\u200b<") || len(a.body) > 8000 {
		t.Errorf("%d bytes: %s", len(a.body), a.body)
	}
}

func TestRestoring(t *testing.T) {
	for want, p := range map[string]peer.PartitionStatus{
		"no owner":         {},
		"10 of 20 records": {Restored: 10, RestoreTotal: 20},
		"opened (fence)":   {Doing: "fence"},
		"is refused":       {Refused: "a log gap", RestoreTotal: 3},
	} {
		if got := restoring(p); !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
}

// hasty is an owner whose trigger fires right behind the answer.
type hasty struct {
	*engine
	fire func()
}

func (o *hasty) Get(ctx context.Context, key trigger.Key) (*trigger.State, error) {
	st, err := o.engine.Get(ctx, key)
	if fire := o.fire; fire != nil {
		o.fire = nil
		fire()
	}
	return st, err
}

// A trigger that fires between the read of its state and that of its events is explained from a
// state that has both: it does not say that it fired, and when it will.
func TestExplainWhileItFires(t *testing.T) {
	c := newCauses(t)
	c.put("k", `{"channel":"orders","delay":"1h"}`)
	owner := &hasty{c.engine, func() { c.fires("k", 0) }}
	_, base := c.gateway(owner, func(o *Options) { o.History = c.log })
	x := c.explain(base, "k", 0)
	if x.Code != string(explain.Fired) || x.Next != "" || strings.Contains(x.Sentence, "Next") {
		t.Errorf("%+v", x)
	}
}

// A ce_id names one occurrence of a series. What is said of it is of that one, and not of a later one.
func TestExplainOneOccurrence(t *testing.T) {
	c := newCauses(t)
	c.put("daily", `{"channel":"sms","recurrence":"FREQ=DAILY;BYHOUR=9;BYMINUTE=0;BYSECOND=0","timezone":"UTC"}`)
	for _, outcome := range []trigger.ReceiptOutcome{trigger.ReceiptSuppressed, trigger.ReceiptDelivered} {
		c.fires("daily", 0)
		c.receipt("daily", outcome, map[bool]string{true: "opted_out"}[outcome == trigger.ReceiptSuppressed], "")
	}
	var done []trigger.Firing
	c.engine.set(func() { done = c.engine.states[idKey("daily")].Done })
	if len(done) != 2 {
		t.Fatalf("fired: %+v", done)
	}
	if x := c.explain(c.url, "daily", 0); x.Code != string(explain.Delivered) {
		t.Errorf("of the trigger: %s, %s", x.Code, x.Sentence)
	}
	for i, want := range []explain.Code{explain.Suppressed, explain.Delivered} {
		a := c.callAt(c.url, "GET", "/v1/triggers/daily/explain?occurrence="+url.QueryEscape(done[i].Occurrence), "")
		if !strings.Contains(a.body, `"code":"`+string(want)+`"`) {
			t.Errorf("of occurrence %d: %d %s", i, a.status, a.body)
		}
		id := trigger.DueID(idKey("daily"), done[i].Occurrence, 0)
		a = c.callAt(c.url, "GET", "/v1/search?fresh=false&q="+url.QueryEscape(id), "")
		if !strings.Contains(a.body, `"code":"`+string(want)+`"`) ||
			!strings.Contains(a.body, `"occurrence":"`+done[i].Occurrence+`"`) {
			t.Errorf("found by the ce_id of occurrence %d: %d %s", i, a.status, a.body)
		}
	}
	long := "/v1/triggers/daily/explain?occurrence=" + strings.Repeat("x", 513)
	if a := c.callAt(c.url, "GET", long, ""); a.status != http.StatusBadRequest {
		t.Errorf("a name of 513 bytes: %d %s", a.status, a.body)
	}
}

// record writes what the history has to topic events, too, behind so many events of another trigger of the same
// partition.
func (c *causes) record(id string, others int) {
	c.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		c.t.Fatal(err)
	}
	defer cl.Close()
	key := idKey(id)
	at := func(key trigger.Key, e *topics.Event) *kgo.Record {
		b, err := json.Marshal(e)
		if err != nil {
			c.t.Fatal(err)
		}
		return &kgo.Record{
			Topic: topics.Names{}.Events(), Partition: topics.Partition([]byte(idKey(id)), testPartitions),
			Key: []byte(key), Value: b,
		}
	}
	var all []*kgo.Record
	c.log.mu.Lock()
	for i := range c.log.all {
		if e := &c.log.all[i]; e.Trigger == key.ID() {
			all = append(all, at(key, e))
		}
	}
	c.log.mu.Unlock()
	for range others {
		all = append(all, at("another", &topics.Event{Type: "occurrence.fired", Trigger: "another"}))
	}
	if err := cl.ProduceSync(c.t.Context(), all...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// Without a history the reason stands on topic events, near its end. Further back than one read goes it is not known,
// and nobody says that it was sent.
func TestExplainWithoutHistory(t *testing.T) {
	c := newCauses(t)
	for _, row := range []struct {
		id     string
		cause  func(id string)
		others int
		code   explain.Code
		says   string
	}{
		{
			"suppressed", func(id string) {
				c.put(id, `{"channel":"sms","delay":"1h"}`)
				c.fires(id, 0)
				c.receipt(id, trigger.ReceiptSuppressed, "opted_out", "")
			}, 3000, explain.Suppressed, "the user has opted out of this channel (opted_out)",
		},
		{
			"delivered", func(id string) {
				c.put(id, `{"channel":"sms","delay":"1h"}`)
				c.fires(id, 0)
				c.receipt(id, trigger.ReceiptDelivered, "", "")
			}, 0, explain.Delivered, "Delivered: the sms worker says so",
		},
		{
			"refused", func(id string) { c.refused(id, trigger.CodeQuotaExceeded, "the tenant's limit pending, 10") },
			10, explain.Rejected, "Never registered",
		},
		{
			"long-ago", func(id string) {
				c.put(id, `{"channel":"sms","delay":"1h"}`)
				c.fires(id, 0)
				c.receipt(id, trigger.ReceiptSuppressed, "opted_out", "")
			}, backwardRecords, explain.Fired, "What became of it is not known",
		},
	} {
		row.cause(row.id)
		c.record(row.id, row.others)
		x := c.explain(c.bare, row.id, 0)
		if x.Code != string(row.code) || !strings.Contains(x.Sentence, row.says) || x.History ||
			strings.HasPrefix(x.Sentence, "Sent ") {
			t.Errorf("%s, want %s %q:\n%+v", row.id, row.code, row.says, x)
		}
		code, sentence := c.found(c.bare, row.id)
		if row.code != explain.Rejected && (code != string(row.code) || !strings.Contains(sentence, row.says)) {
			t.Errorf("%s: a search says %q %q", row.id, code, sentence)
		}
	}
}

// Where a request may read no more of topic events, what it has found before stays.
func TestExplainKeepsWhatItHasFound(t *testing.T) {
	of := &read{of: &reads{}, cost: &peer.Budget{}}
	of.back.Store(backwardRecords)
	s := &explanations{events: &eventLog{router: peer.NewRouter(peer.Config{Partitions: 1})}, now: time.Now}
	in := &explain.Input{
		ID: "k", State: &trigger.State{Key: "k", Status: trigger.Fired, Seq: 5}, Scanned: 100,
		Events: []topics.Event{{Type: "delivery.suppressed", Seq: 4}},
	}
	n := s.scan(t.Context(), of, "k", in, false)
	if n != 0 || len(in.Events) != 1 || in.Scanned != 100 || in.Missing != 1 {
		t.Errorf("%d are charged, and it has %+v", n, in)
	}
}

// Large records bound how far back topic events are read, also within a window, and are charged as more than one.
func TestExplainBoundsBytes(t *testing.T) {
	for _, c := range []struct{ each, enough, most int64 }{
		{512, 3 * leastScanned, 3 * leastScanned}, // a record each
		{16 << 10, 1000, backwardBytes / (16 << 10)},
		{1 << 20, 30, backwardBytes/(1<<20) + 1}, // the first window has more
	} {
		value := make([]byte, c.each)
		var asked, records int64
		fake := func(_ context.Context, _ int32, from, until int64, f func(*kgo.Record) error) error {
			asked++
			for at := from; at < until; at++ {
				records++
				if err := f(&kgo.Record{Offset: at, Value: value}); err != nil {
					return err
				}
			}
			return nil
		}
		of := &read{of: &reads{}}
		visits := 0
		p := backward{from: 100_000}
		(&eventLog{}).backOf(t.Context(), of, &p, "k", fake, func([]topics.Event) bool {
			visits++
			return records >= 3*leastScanned && c.each < 1<<10
		})
		if records < c.enough || records > c.most || p.visited != records || visits == 0 {
			t.Errorf("of %d bytes each it reads %d records in %d windows, of which it uses %d, want %d to %d", c.each,
				records, asked, visits, c.enough, c.most)
		}
		if want := max(records, records*c.each>>10); p.cost() != want {
			t.Errorf("%d records of %d bytes each cost %d, want %d", records, c.each, p.cost(), want)
		}
		if second := (backward{from: 100_000}); c.each > 1<<10 {
			(&eventLog{}).backOf(t.Context(), of, &second, "k", fake, func([]topics.Event) bool { return false })
			if second.visited > 0 {
				t.Errorf("another trigger of the same request reads %d more", second.visited)
			}
		}
	}
}
