package sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/embedded"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// attemptAfter is the delay of the retry profile in these tests, which has one retry.
const attemptAfter = 40 * time.Second

// phoneChannels are push, sms and email as in serve, but with another retry profile.
type phoneChannels struct{ pipelinetest.Channels }

func (c phoneChannels) Settings(name string) pipeline.ChannelSettings {
	s := c.Channels.Settings(name)
	if slices.Contains(topics.NotificationChannels, name) {
		s.Receipts, s.HighLane, s.Retry = true, true, []time.Duration{attemptAfter}
	}
	return s
}

// message is one that was sent: for which trigger and step, when and by which channel.
type message struct {
	key     string
	step    int
	channel string
	at      time.Time
}

// dispatch is an engine with the workers of push, SMS and mail, and a store of preferences. The
// workers are real except for the kit and the providers. They have a separate clock for each
// user. So within a few hours every zone has a night with a clock change.
type dispatch struct {
	*sim.World
	t     *testing.T
	start time.Time                // a whole minute, once everything is ready
	ahead map[string]time.Duration // by user: the workers' clock minus ours, in whole minutes
	store *embedded.Store
	gate  preferences.Store // the store as workers see it

	// answer is the provider's answer to a message. report is the time until it reports the
	// delivery; 0 means never.
	answer func(key string, step, attempt int) (outcome worker.Outcome, report time.Duration)

	mu        sync.Mutex
	sent      []message
	emissions map[string]int // number of due events, by trigger
}

// newDispatch makes one. Its workers see the store through wrap, or directly if wrap is nil.
func newDispatch(t *testing.T, seed uint64, wrap func(preferences.Store) preferences.Store) *dispatch {
	t.Helper()
	lanes := slices.Clone(topics.NotificationChannels)
	for _, channel := range topics.NotificationChannels {
		lanes = append(lanes, channel+".high")
	}
	w := sim.New(t, sim.Options{Seed: seed, Channels: lanes, Partitions: 1})
	d := &dispatch{World: w, t: t, ahead: map[string]time.Duration{}, emissions: map[string]int{}}
	d.answer = func(string, int, int) (worker.Outcome, time.Duration) { return worker.OutcomeAccepted, 0 }
	var err error
	if d.store, err = embedded.Open(embedded.Options{Dir: "preferences", FS: vfs.NewMem()}); err != nil {
		t.Fatal(err)
	}
	d.gate = d.store
	if wrap != nil {
		d.gate = wrap(d.store)
	}
	w.Start("a", func(o *pipeline.Options) {
		o.Channels = phoneChannels{pipelinetest.Channels{Names: w.Names}}
		o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
		o.GroupHeartbeat, o.SessionTimeout = 20*time.Second, 5*time.Minute
	})
	w.AwaitOwners()
	var due []string
	for _, channel := range topics.NotificationChannels {
		due = append(due, w.Names.Due(channel), topics.HighLane(w.Names.Due(channel)))
	}
	ctx, cancel := context.WithCancel(context.Background())
	cl, err := w.Producer(ctx, kgo.ConsumeTopics(due...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(time.Minute), kgo.MetadataMaxAge(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		d.serve(ctx, cl)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		cl.Close()
		if err := d.store.Close(); err != nil {
			t.Error(err)
		}
	})
	d.start = time.Now().Truncate(time.Minute).Add(2 * time.Minute)
	d.until(d.start.Add(-time.Minute))
	return d
}

// handler is the worker of a channel without the kit. The kit polls the brokers twice a second,
// so hours without a message would take long. The kit has its own tests.
type handler struct {
	gate   *consent.Gate
	worker *notify.Worker
}

// clocked is a channel with a clock offset. Due events with equal values form one batch.
type clocked struct {
	channel string
	ahead   time.Duration
}

func (d *dispatch) handler(c clocked) *handler {
	now := func() time.Time { return time.Now().Add(c.ahead) }
	h := &handler{gate: consent.New(consent.Options{Store: d.gate, Channel: c.channel, Now: now})}
	var err error
	if h.worker, err = notify.New(notify.Options{
		Channel: c.channel, Providers: []notify.Provider{provider{d, c.channel}}, Book: d.store, Now: now,
		Consent: h.gate, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		d.t.Error(err)
	}
	return h
}

// serve passes the due events of all channels to their workers, batch by batch, and writes the
// receipts.
func (d *dispatch) serve(ctx context.Context, cl *kgo.Client) {
	handlers := map[clocked]*handler{}
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		batches := map[clocked][]*worker.DueEvent{}
		fetches.EachRecord(func(r *kgo.Record) {
			e, err := worker.Decode(r)
			if err != nil {
				d.t.Errorf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
				return
			}
			channel, high := strings.CutSuffix(strings.TrimPrefix(r.Topic, d.Names.Due("")), ".high")
			e.High = high
			c := clocked{channel, d.aheadOf(e.User)}
			batches[c] = append(batches[c], e)
		})
		for c, events := range batches {
			h := handlers[c]
			if h == nil {
				h = d.handler(c)
				handlers[c] = h
			}
			batch := worker.WithBatchValue(ctx, h.gate.OnBatch(ctx, events))
			for _, e := range events {
				d.emitted(e.Key)
				result := worker.Call(batch, h.worker.Handle, e)
				receipt := e.Receipt(c.channel, result, time.Now())
				cl.Produce(ctx, &kgo.Record{
					Topic: d.Names.Receipts(), Partition: d.Home(e.Key), Key: []byte(e.Key), Value: receipt.Append(nil),
				}, func(_ *kgo.Record, err error) {
					if err != nil && ctx.Err() == nil {
						d.t.Errorf("a receipt of %s: %v", e.ID, err)
					}
				})
			}
		}
	}
}

// emitted counts the due events of a trigger, including copies.
func (d *dispatch) emitted(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.emissions[key]++
}

// aheadOf returns how far the workers' clock is ahead for a user.
func (d *dispatch) aheadOf(user string) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ahead[user]
}

// clock sets the workers' clock for a user so that it shows there when ours shows here.
func (d *dispatch) clock(user string, here, there time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ahead[user] = there.Sub(here)
}

// until sleeps until a moment.
func (d *dispatch) until(at time.Time) { time.Sleep(time.Until(at)) }

// act is an action of a test at a moment.
type act struct {
	at time.Time
	do func()
}

// run runs the actions, each at its moment.
func (d *dispatch) run(acts []act) {
	slices.SortStableFunc(acts, func(a, b act) int { return a.at.Compare(b.at) })
	for _, a := range acts {
		d.until(a.at)
		a.do()
	}
}

// reacts returns the ack, the cancel and the change of a story.
func (d *dispatch) reacts(s story) (acts []act) {
	for op, at := range map[string]time.Time{"ack": s.ack, "cancel": s.cancel} {
		if !at.IsZero() {
			acts = append(acts, act{at, func() { d.SendFree(d.Home(s.key), s.key, `{"op":"`+op+`"}`) }})
		}
	}
	send := func(format string, args ...any) func() {
		return func() { d.SendFree(d.Home(s.key), s.key, fmt.Sprintf(format, args...)) }
	}
	switch s.change {
	case "replace":
		acts = append(acts, act{s.changed, func() { d.register(s, s.newDue, "y") }})
	case "snooze":
		acts = append(acts, act{s.changed, send(`{"op":"snooze","for":"%dms"}`, s.newDue.Sub(s.changed).Milliseconds())})
	case "erase":
		acts = append(acts, act{s.changed, send(`{"op":"erase"}`)})
	}
	return acts
}

func (d *dispatch) put(user, document string) {
	d.t.Helper()
	p, err := preferences.Decode([]byte(document), calendar.Embedded())
	if err == nil {
		err = d.store.Put(context.Background(), preferences.User{Tenant: "default", ID: user}, p)
	}
	if err != nil {
		d.t.Fatalf("%s: %v", document, err)
	}
}

// messages returns the messages of a trigger so far, in their order.
func (d *dispatch) messages(key string) (list []message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.sent {
		if m.key == key {
			list = append(list, m)
		}
	}
	return list
}

// provider records the messages of one channel and sends nothing.
type provider struct {
	d       *dispatch
	channel string
}

func (p provider) Name() string {
	return map[string]string{"push": "fcm", "sms": "twilio", "email": "smtp"}[p.channel]
}
func (p provider) Close() error { return nil }

func (p provider) Send(_ context.Context, m *notify.Message) notify.Answer {
	d := p.d
	step, err := strconv.Atoi(m.ID[strings.LastIndexByte(m.ID, '#')+1:])
	if err != nil {
		d.t.Errorf("the step of %s: %v", m.ID, err)
	}
	d.mu.Lock()
	d.sent = append(d.sent, message{m.Trigger, step, p.channel, time.Now()})
	d.mu.Unlock()
	outcome, report := d.answer(m.Trigger, step, m.Attempt)
	if report > 0 {
		key, receipt := m.Trigger, fmt.Sprintf(`{"due_id":%q,"channel":%q,"outcome":"delivered","attempt":%d}`,
			m.ID, p.channel, m.Attempt)
		time.AfterFunc(report, func() { d.Receipt(key, receipt) })
	}
	switch outcome {
	case worker.OutcomeFailed:
		return notify.Answer{Result: worker.Fail("refused", "by the test")}
	case worker.OutcomeRetry:
		return notify.Answer{Result: worker.Retry(0).WithCode("busy").WithDetail("by the test")}
	}
	return notify.Answer{Result: worker.Accepted()}
}

// escalationOf returns the escalation field of a register.
func escalationOf(steps []step) string {
	var all []map[string]string
	for i, s := range steps {
		one := map[string]string{"channel": s.channel}
		if i > 0 {
			one["after"] = s.after.String()
		}
		all = append(all, one)
	}
	b, err := json.Marshal(all)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// awayUntil is a store that does not answer until back returns true.
type awayUntil struct {
	preferences.Store
	back func() bool
}

func (a awayUntil) Get(ctx context.Context, users []preferences.User) ([]*preferences.Preferences, error) {
	if !a.back() {
		return nil, errors.Join(preferences.ErrAway, errors.New("by the test"))
	}
	return a.Store.Get(ctx, users)
}

// TestQuietNightsEscalate covers twelve zones, both clock changes and an ordinary night. A push
// that is due at 02:30 of the user's clock is sent when the quiet hours end, at 07:00, and
// nothing else is sent then. A user who does not react gets an SMS at 07:05; a user who reacts
// gets none. If only push is quiet, the SMS waits with it.
func TestQuietNightsEscalate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispatch(t, 1, nil)
		due := d.start.Add(10 * time.Minute)
		var acts []act
		var stories []story
		wishes := map[string]wish{}
		for _, name := range dozen {
			z := zone(t, name)
			for i, change := range changesOf(z) {
				for k, channels := range [][]string{nil, {"push"}} {
					q := &quietHours{zone: z, from: 22 * 60, to: 7 * 60, channels: channels}
					s := story{
						key: fmt.Sprintf("%s-%d-%d", strings.ReplaceAll(name, "/", "-"), i, k), due: due,
						steps:   []step{{channel: "push"}, {channel: "sms", after: 5 * time.Minute}},
						answers: make([][2]worker.Outcome, 2), reports: make([]time.Duration, 2),
					}
					for n := range s.answers {
						s.answers[n] = [2]worker.Outcome{worker.OutcomeAccepted, worker.OutcomeAccepted}
					}
					y, m, day := change.In(z).Date()
					midnight := time.Date(y, m, day, 0, 0, 0, 0, time.UTC) // as a local time
					s.user = s.key
					d.clock(s.user, due, q.first(midnight, 2*60+30))
					if i == k { // only some react
						s.ack = q.first(midnight, 7*60+2).Add(-d.ahead[s.user])
					}
					stories = append(stories, s)
					w := wish{from: d.start, addresses: topics.NotificationChannels, quiet: q, ahead: d.ahead[s.user]}
					wishes[s.key] = w
					d.put(s.user, w.document())
					acts = append(append(acts, act{d.start, func() { d.register(s, s.due, "x") }}), d.reacts(s)...)
				}
			}
		}
		d.run(acts)
		d.until(due.Add(6 * time.Hour))
		for _, s := range stories {
			want := []string{"07:00 push", "07:05 sms"}
			if !s.ack.IsZero() {
				want = want[:1]
			}
			if n := d.agrees(s, []wish{wishes[s.key]}, time.Now()); n != len(want) {
				t.Errorf("%s: %d messages, want %d", s.key, n, len(want))
				continue
			}
			for i, m := range d.messages(s.key) {
				w := wishes[s.key]
				if got := m.at.Add(w.ahead).In(w.quiet.zone).Format("15:04 ") + m.channel; got != want[i] {
					t.Errorf("%s: %s, want %s", s.key, got, want[i])
				}
			}
		}
		d.CheckInvariants()
	})
}

// TestPreferencesAwayForAnHour stops the store of preferences for an hour, with messages due at
// its beginning. High priority goes out at once. The other messages are postponed, each at most
// 20 times. Each goes out once the store answers, and not earlier. Nothing is lost.
func TestPreferencesAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // seconds; the store is down until then
		d := newDispatch(t, 1, func(s preferences.Store) preferences.Store {
			return awayUntil{s, func() bool { return time.Now().Unix() >= back.Load() }}
		})
		due := d.start.Add(5 * time.Minute)
		end := due.Add(time.Hour)
		back.Store(end.Unix())
		const n = 200
		d.put("u", `{"addresses":{"push":[{"provider":"fcm","token":"phone"}]}}`)
		send := func(key, priority, to string) {
			d.SendFree(d.Home(key), key, fmt.Sprintf(`{"op":"register","delay":"%dms","channel":"push","user_id":"u",`+
				`"priority":%q,"payload":{"body":"x"%s}}`, time.Until(due).Milliseconds(), priority, to))
		}
		for i := range n {
			send(fmt.Sprintf("t%d", i), "normal", "")
		}
		send("code", "high", `,"to":"fcm:phone"`)
		d.until(end)
		if got := d.messages("code"); len(got) != 1 || got[0].at.Sub(due) > near {
			t.Errorf("high went out %s", shown(got))
		}
		d.mu.Lock()
		most := 0
		for _, emitted := range d.emissions {
			most = max(most, emitted-1)
		}
		d.mu.Unlock()
		if most > 20 || most == 0 {
			t.Errorf("at most %d re-emissions of one message in the hour, want 1 to 20", most)
		}
		t.Logf("at most %d re-emissions of one message in the hour", most)
		time.Sleep(30 * time.Minute)
		for i := range n {
			if got := d.messages(fmt.Sprintf("t%d", i)); len(got) != 1 || got[0].at.Before(end) {
				t.Fatalf("t%d went out %s; want once, after %s", i, shown(got), end)
			}
		}
		d.CheckInvariants()
	})
}
