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

// attemptAfter is the retry profile of the channels here: one more attempt.
const attemptAfter = 40 * time.Second

// phoneChannels are push, sms and email as serve has them, but for the retry profile.
type phoneChannels struct{ pipelinetest.Channels }

func (c phoneChannels) Settings(name string) pipeline.ChannelSettings {
	s := c.Channels.Settings(name)
	if slices.Contains(notify.Channels, name) {
		s.Receipts, s.HighLane, s.Retry = true, true, []time.Duration{attemptAfter}
	}
	return s
}

// message is one that went out: to whom, when and by which channel.
type message struct {
	key     string
	step    int
	channel string
	at      time.Time // by the clock of the dispatchers
}

// dispatch is an engine with the workers of push, SMS and mail, real but for the kit and the
// providers, and a store of preferences. The workers' clock is ahead of the world's, so that nights
// of any year can be had.
type dispatch struct {
	*sim.World
	t     *testing.T
	ahead time.Duration
	store *embedded.Store
	gate  preferences.Store // as workers see it

	// answer is what a provider says of a message; report is how much later it reports
	// that it was delivered, 0 for never.
	answer func(key string, step, attempt int) (outcome worker.Outcome, report time.Duration)

	mu        sync.Mutex
	sent      []message
	emissions map[string]int // due events, by trigger
}

// newDispatch makes one whose clock shows a moment.
func newDispatch(t *testing.T, seed uint64, at time.Time, wrap func(preferences.Store) preferences.Store) *dispatch {
	t.Helper()
	lanes := slices.Clone(notify.Channels)
	for _, channel := range notify.Channels {
		lanes = append(lanes, channel+".high")
	}
	w := sim.New(t, sim.Options{Seed: seed, Channels: lanes})
	d := &dispatch{World: w, t: t, emissions: map[string]int{}}
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
	handlers := map[string]*handler{}
	for _, channel := range notify.Channels {
		handlers[channel] = d.handler(channel)
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
		d.serve(ctx, cl, handlers)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		cl.Close()
		if err := d.store.Close(); err != nil {
			t.Error(err)
		}
	})
	d.ahead = at.Sub(time.Now())
	return d
}

// handler is the worker of a channel without the kit, which asks the brokers twice a second and
// would make hours without a message long: the kit has tests of its own.
type handler struct {
	channel string
	gate    *consent.Gate
	worker  *notify.Worker
}

func (d *dispatch) handler(channel string) *handler {
	d.t.Helper()
	h := &handler{channel: channel, gate: consent.New(consent.Options{Store: d.gate, Channel: channel, Now: d.now})}
	var err error
	if h.worker, err = notify.New(notify.Options{
		Channel: channel, Providers: []notify.Provider{provider{d, channel}}, Book: d.store, Now: d.now,
		Consent: h.gate, Logger: slog.New(slog.DiscardHandler),
	}); err != nil {
		d.t.Fatal(err)
	}
	return h
}

// serve hands due events of all channels to their workers, a batch after the other, and
// writes the receipts.
func (d *dispatch) serve(ctx context.Context, cl *kgo.Client, handlers map[string]*handler) {
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		batches := map[string][]*worker.DueEvent{}
		fetches.EachRecord(func(r *kgo.Record) {
			e, err := worker.Decode(r)
			if err != nil {
				d.t.Errorf("%s/%d/%d: %v", r.Topic, r.Partition, r.Offset, err)
				return
			}
			channel, high := strings.CutSuffix(strings.TrimPrefix(r.Topic, d.Names.Due("")), ".high")
			e.High = high
			batches[channel] = append(batches[channel], e)
		})
		for channel, events := range batches {
			h := handlers[channel]
			batch := worker.WithBatchValue(ctx, h.gate.OnBatch(ctx, events))
			for _, e := range events {
				d.emitted(e.Key)
				result := worker.Call(batch, h.worker.Handle, e)
				receipt := e.Receipt(channel, result, time.Now())
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

// emitted counts the due events of a trigger, every copy.
func (d *dispatch) emitted(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.emissions[key]++
}

// now is the time by the workers' clock.
func (d *dispatch) now() time.Time { return time.Now().Add(d.ahead) }

// until sleeps until a moment of that clock.
func (d *dispatch) until(at time.Time) { time.Sleep(at.Sub(d.now())) }

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

// messages are those to a trigger's user so far, in their order.
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

// provider sends the messages of one channel to nobody.
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
	d.sent = append(d.sent, message{m.Trigger, step, p.channel, d.now()})
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

// escalationOf is the escalation field of a register.
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

// awayUntil is a store that does not answer before a moment.
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

// TestQuietNightsEscalate: in twelve zones, over both changes of clocks and on an ordinary
// night, all over midnight: what falls due in quiet hours is pushed when they end, at 07:00 of
// the user's clock, and nothing else then. Whoever does not react gets an SMS at 07:05, and
// whoever does gets none. Where push alone is quiet, the SMS waits with it.
func TestQuietNightsEscalate(t *testing.T) {
	for _, night := range nights {
		t.Run(night, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quietNight(t, moment(t, night).Truncate(24*time.Hour)) })
		})
	}
}

func quietNight(t *testing.T, start time.Time) {
	d := newDispatch(t, 1, start, nil)
	type sleeper struct {
		story
		wish
	}
	var sleepers []sleeper
	for _, name := range dozen {
		for i, channels := range [][]string{nil, {"push"}} {
			q := &quietHours{zone: zone(t, name), from: 22 * 60, to: 7 * 60, channels: channels}
			s := sleeper{wish: wish{from: start, addresses: notify.Channels, quiet: q}}
			s.story = story{
				key: fmt.Sprintf("%s-%d", strings.ReplaceAll(name, "/", "-"), i), user: fmt.Sprintf("%s-%d", name, i),
				steps: []step{{channel: "push"}, {channel: "sms", after: 5 * time.Minute}},
				// 02:30, between the two changes of most zones: on the second local morning from now.
				due:     q.first(start.Add(24*time.Hour), 2*60+30),
				answers: make([][2]worker.Outcome, 2), reports: make([]time.Duration, 2),
			}
			for k := range s.answers {
				s.answers[k] = [2]worker.Outcome{worker.OutcomeAccepted, worker.OutcomeAccepted}
			}
			if i == 1 && strings.HasPrefix(name, "A") { // these react
				s.ack = q.first(start.Add(24*time.Hour), 7*60+2)
			}
			sleepers = append(sleepers, s)
			d.put(s.user, s.document())
			d.register(s.story)
		}
	}
	for d.now().Before(start.Add(48 * time.Hour)) {
		time.Sleep(time.Minute)
		for _, s := range sleepers {
			if late := d.now().Sub(s.ack); !s.ack.IsZero() && late >= 0 && late < time.Minute {
				d.SendFree(d.Home(s.key), s.key, `{"op":"ack"}`)
			}
		}
	}
	for _, s := range sleepers {
		if n := d.agrees(s.story, []wish{s.wish}, d.now()); n != 2 && s.ack.IsZero() || n != 1 && !s.ack.IsZero() {
			t.Errorf("%s: %d messages", s.key, n)
		}
		want := []string{"07:00 push", "07:05 sms"}
		for i, m := range d.messages(s.key) {
			if got := m.at.In(s.quiet.zone).Format("15:04 ") + m.channel; got != want[i] {
				t.Errorf("%s: %s, want %s", s.key, got, want[i])
			}
		}
	}
	d.CheckInvariants()
}

// TestPreferencesAwayForAnHour: the store of preferences does not answer for an hour, with
// messages due at its beginning. High goes out at once. The rest comes back, each at most 20
// times, and each goes out once the store answers, none earlier; nothing is lost.
func TestPreferencesAwayForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := moment(t, "2026-06-15T09:00:00Z")
		var d *dispatch
		back := start.Add(65 * time.Minute)
		d = newDispatch(t, 1, start, func(s preferences.Store) preferences.Store {
			return awayUntil{s, func() bool { return d != nil && !d.now().Before(back) }}
		})
		const n = 500
		d.put("u", `{"addresses":{"push":[{"provider":"fcm","token":"phone"}]}}`)
		send := func(key, priority, to string) {
			d.SendFree(d.Home(key), key, fmt.Sprintf(`{"op":"register","delay":"%dms","channel":"push","user_id":"u",`+
				`"priority":%q,"payload":{"body":"x"%s}}`, start.Add(5*time.Minute).Sub(d.now()).Milliseconds(), priority, to))
		}
		for i := range n {
			send(fmt.Sprintf("t%d", i), "normal", "")
		}
		send("code", "high", `,"to":"fcm:phone"`)
		d.until(back)
		if got := d.messages("code"); len(got) != 1 || got[0].at.Sub(start.Add(5*time.Minute)) > near {
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
			if got := d.messages(fmt.Sprintf("t%d", i)); len(got) != 1 || got[0].at.Before(back) {
				t.Fatalf("t%d went out %s; want once, after %s", i, shown(got), back)
			}
		}
		d.CheckInvariants()
	})
}
