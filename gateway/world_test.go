package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const testPartitions = 4

// engine stands for the engines of a cluster: it decides the commands on a
// real (in-process) log by the product's own state machine, and is the Owner
// of every partition that owns says is its.
type engine struct {
	t       testing.TB
	machine trigger.Machine

	mu      sync.Mutex
	changed *sync.Cond
	states  map[trigger.Key]*trigger.State
	decided map[location]peer.Decision
	late    [testPartitions]*lateness.Recent
	live    [testPartitions]*live.Recent
	expects [testPartitions][2]*forecast.Picture // by place in forecast.Frames
	read    map[int32]int64
	frozen  bool                     // decides nothing
	forgets bool                     // keeps no decision
	behind  map[string]time.Duration // by tenant
	foreign map[int32]bool
	asked   int          // calls of Get, Decision and scans
	control int64        // settings below it are applied
	stale   atomic.Int64 // reads without the read barrier

	seen func(r *kgo.Record, facts []trigger.Fact) // hears what commands have made, if it is there
}

type world struct {
	t       testing.TB
	cluster *kfake.Cluster
	engine  *engine
	server  *Server
	url     string
}

// newWorld is a broker, an engine and a gateway in front of them.
func newWorld(t testing.TB, change func(*Options)) *world {
	t.Helper()
	names := topics.Names{}
	c, err := kfake.NewCluster(kfake.NumBrokers(1),
		kfake.SeedTopics(testPartitions, names.Commands(), names.State(), names.Events(), names.DeadLetter(),
			names.Rejected()),
		kfake.SeedTopics(1, names.Control(), names.Endpoints(), names.Audit()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := &world{t: t, cluster: c, engine: newEngine(t, c.ListenAddrs())}
	w.server, w.url = w.gateway(w.engine, change)
	return w
}

// on is the world in a subtest.
func (w *world) on(t *testing.T) *world {
	sub := *w
	sub.t = t
	return &sub
}

// gateway starts one more gateway of this cluster.
func (w *world) gateway(own peer.Owner, change func(*Options)) (*Server, string) {
	w.t.Helper()
	o := Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers(w.cluster.ListenAddrs()...)}, Partitions: testPartitions, Owner: own,
		Timetable: func() *trigger.Timetable { return &trigger.Timetable{Zones: calendar.Embedded()} },
	}
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	h := httptest.NewUnstartedServer(s.Handler())
	h.Config.ReadHeaderTimeout = headersWithin
	h.Start()
	w.t.Cleanup(h.Close)
	return s, h.URL
}

func newEngine(t testing.TB, brokers []string) *engine {
	e := &engine{
		t: t, states: map[trigger.Key]*trigger.State{}, decided: map[location]peer.Decision{},
		read: map[int32]int64{}, control: math.MaxInt64, foreign: map[int32]bool{},
	}
	e.changed = sync.NewCond(&e.mu)
	for i := range e.late {
		e.late[i], e.live[i] = lateness.NewRecent(), live.NewRecent()
		for j, f := range forecast.Frames {
			e.expects[i][j] = forecast.NewBuilder(f, time.Now().UnixMilli()).Picture()
		}
	}
	e.machine = trigger.Machine{
		Horizon: 24 * time.Hour, MisfireAfter: time.Minute, MaxCatchUp: 1000,
		Timetable: &trigger.Timetable{Zones: calendar.Embedded()},
		Channel: func(name string) trigger.Channel {
			return trigger.Channel{Topic: topics.Names{}.Due(name), Receipts: name == "sms", ReceiptTimeout: time.Hour}
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(topics.Names{}.Commands()),
		kgo.FetchMaxWait(100*time.Millisecond), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(e.decide)
		}
	}()
	t.Cleanup(func() { cancel(); e.thaw(); <-done; cl.Close() })
	return e
}

func (e *engine) decide(r *kgo.Record) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.frozen {
		e.changed.Wait()
	}
	defer e.changed.Broadcast()
	e.read[r.Partition] = r.Offset + 1
	rec := &topics.Record{
		Partition: r.Partition, Offset: r.Offset, Timestamp: trigger.At(r.Timestamp), Key: r.Key,
		Value: r.Value,
	}
	for _, h := range r.Headers {
		rec.Headers = append(rec.Headers, trigger.Header{Key: h.Key, Value: h.Value})
	}
	cmd, err := topics.DecodeCommand(rec, topics.Limits{}, nil)
	key := trigger.Key(r.Key)
	now := max(trigger.At(time.Now()), rec.Timestamp)
	var out trigger.Outcome
	if rejected, ok := err.(*trigger.Error); ok {
		out = e.machine.Reject(e.states[key], rejected, "")
	} else {
		out = e.machine.Apply(e.states[key], cmd, now)
	}
	if out.State != nil {
		e.states[key] = out.State
	}
	if e.seen != nil {
		e.seen(r, out.Facts)
	}
	d := peer.Decision{State: e.states[key], Rejected: out.Rejected}
	for _, f := range out.Facts {
		d.Facts = append(d.Facts, f.Type)
	}
	if slices.ContainsFunc(rec.Headers, func(h trigger.Header) bool { return h.Key == topics.HeaderAsk }) &&
		!e.forgets {
		e.decided[location{partition: r.Partition, offset: r.Offset}] = d
	}
}

// fire lets the next timer of a trigger go as if its time had come.
func (e *engine) fire(key trigger.Key) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.states[key]
	timers := s.Timers(nil)
	if len(timers) == 0 {
		e.t.Fatalf("%s has no timer", key)
	}
	first := slices.MinFunc(timers, func(a, b trigger.Timer) int { return cmp.Compare(a.Due, b.Due) })
	out := e.machine.Due(s, first, first.Due)
	e.states[key] = out.State
}

func (e *engine) freeze() { e.set(func() { e.frozen = true }) }
func (e *engine) thaw()   { e.set(func() { e.frozen = false }) }
func (e *engine) forget() { e.set(func() { e.forgets = true }) }

func (e *engine) set(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f()
	e.changed.Broadcast()
}

func (e *engine) Get(_ context.Context, key trigger.Key) (*trigger.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.foreign[topics.Partition([]byte(key), testPartitions)] {
		return nil, peer.ErrNoOwner
	}
	return e.states[key], nil
}

func (e *engine) Decision(ctx context.Context, key trigger.Key, partition int32, offset int64) (peer.Decision, bool,
	error,
) {
	stop := context.AfterFunc(ctx, func() { e.set(func() {}) })
	defer stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	for e.read[partition] <= offset {
		if e.foreign[partition] {
			return peer.Decision{}, false, peer.ErrNoOwner
		}
		if ctx.Err() != nil {
			return peer.Decision{}, false, ctx.Err()
		}
		e.changed.Wait()
	}
	if e.foreign[partition] {
		return peer.Decision{}, false, peer.ErrNoOwner
	}
	d, ok := e.decided[location{partition: partition, offset: offset}]
	d.Behind = e.behind[key.Tenant()]
	return d, ok, nil
}

func (e *engine) Scan(_ context.Context, partition int32, after trigger.Key, f func(*trigger.State) bool) error {
	list, err := e.of(partition)
	for _, s := range list {
		if s.Key > after && !f(s) {
			break
		}
	}
	return err
}

// Stale counts what reads without the read barrier.
func (e *engine) Stale() peer.Owner {
	e.stale.Add(1)
	return e
}

// Lateness reports what a test has counted.
func (e *engine) Lateness(
	_ context.Context, partition int32, now trigger.Instant, w lateness.Window, tenant string,
) (lateness.Report, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.foreign[partition] {
		return lateness.Report{}, peer.ErrNoOwner
	}
	return e.late[partition].Report(int64(now), w, tenant), nil
}

// Live answers what a test has committed.
func (e *engine) Live(_ context.Context, partition int32, q *peer.LiveQuery) (a peer.LiveAnswer, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.foreign[partition] {
		return a, peer.ErrNoOwner
	}
	a.News = e.live[partition].News(time.Now().UnixMilli(), q.Asked)
	if q.State {
		minute := lateness.Windows[0]
		late := func(tenant string) lateness.Report {
			return e.late[partition].Report(int64(q.Now), minute, tenant)
		}
		all := late("")
		a.State = &peer.LiveState{
			Ready: true, Pending: 10, CommandsLag: 2, OverdueMS: 1500, AllLate: all.All(), LatePartly: all.Incomplete,
		}
		for _, t := range q.Asked {
			own := late(t.Tenant)
			a.State.Late = append(a.State.Late, own.All())
		}
	}
	return a, nil
}

// Forecast answers from the picture that a test has made.
func (e *engine) Forecast(_ context.Context, partition int32, q forecast.Query) (forecast.Answer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	picture := e.expects[partition][q.Frame]
	if e.foreign[partition] || picture == nil {
		return forecast.Answer{}, peer.ErrNoOwner
	}
	return picture.Answer(q), nil
}

// Reconcile finds a leak in partition 1.
func (e *engine) Reconcile(_ context.Context, partition int32, dry bool) (peer.Reconciled, error) {
	r := peer.Reconciled{Triggers: 10, Timers: 12}
	if partition == 1 {
		r.Found, r.Leaks = 1, []peer.Leak{{Kind: "timer_missing", TriggerID: "k", Tenant: "default", Mended: !dry}}
	}
	return r, nil
}

func (e *engine) ScanUser(_ context.Context, partition int32, tenant, user string, after peer.UserCursor,
	f func(peer.UserCursor, *trigger.State) bool,
) error {
	list, err := e.of(partition)
	cursor := func(s *trigger.State) peer.UserCursor {
		due := s.Next()
		if s.Status == trigger.Paused || due == 0 {
			due = 1<<63 - 1
		}
		return peer.UserCursor{Due: due, Key: s.Key}
	}
	slices.SortFunc(list, func(a, b *trigger.State) int { return cursor(a).Compare(cursor(b)) })
	for _, s := range list {
		if s.Key.Tenant() == tenant && s.Spec.UserID == user && cursor(s).Compare(after) > 0 && !f(cursor(s), s) {
			break
		}
	}
	return err
}

func (e *engine) ScanTimers(_ context.Context, partition int32, after peer.TimerCursor,
	f func(peer.TimerCursor, func() (*trigger.State, error)) bool,
) error {
	compare := func(a, b peer.TimerCursor) int {
		return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Key, b.Key))
	}
	list, err := e.of(partition)
	timers := map[peer.TimerCursor]*trigger.State{}
	for _, s := range list {
		for _, t := range s.Timers(nil) {
			timers[peer.TimerCursor{Due: t.Due, Priority: t.Priority, Key: s.Key}] = s
		}
	}
	for _, at := range slices.SortedFunc(maps.Keys(timers), compare) {
		if compare(at, after) > 0 && !f(at, func() (*trigger.State, error) { return timers[at], nil }) {
			break
		}
	}
	return err
}

// of is the states of a partition by key.
func (e *engine) of(partition int32) ([]*trigger.State, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.foreign[partition] {
		return nil, peer.ErrNoOwner
	}
	var list []*trigger.State
	for _, key := range slices.Sorted(maps.Keys(e.states)) {
		if topics.Partition([]byte(key), testPartitions) == partition {
			list = append(list, e.states[key])
		}
	}
	return list, nil
}

func (e *engine) Partitions() []peer.PartitionStatus {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []peer.PartitionStatus
	for p := range int32(testPartitions) {
		if !e.foreign[p] {
			list = append(list, peer.PartitionStatus{
				Partition: p, Owner: "here:1", Term: 3, CommandsOffset: e.read[p],
				ControlOffset: e.control, Ready: true, FiredThrough: trigger.At(time.Now()),
				OldestOverdue: 1500 * time.Millisecond,
			})
		}
	}
	return list
}

// answer is a response, read.
type answer struct {
	status int
	header http.Header
	body   string
}

// call sends a request; header values follow their names.
func (w *world) call(method, path, body string, header ...string) answer {
	w.t.Helper()
	return w.callAt(w.url, method, path, body, header...)
}

func (w *world) callAt(base, method, path, body string, header ...string) answer {
	w.t.Helper()
	req, err := http.NewRequest(method, base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "" {
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, string(b)}
	if err := description().conforms(method, path, a); err != nil {
		w.t.Errorf("%s %s answers what /openapi.json does not describe: %v\n%s", method, path, err, a.body)
	}
	w.saysWhen(resp)
	return a
}

// saysWhen requires of each 429 and 503, in all tests, that it says when to come back.
func (w *world) saysWhen(a *http.Response) {
	w.t.Helper()
	later := a.StatusCode == http.StatusTooManyRequests || a.StatusCode == http.StatusServiceUnavailable
	if later && a.Header.Get("Retry-After") == "" {
		w.t.Errorf("%s %s: %d without Retry-After", a.Request.Method, a.Request.URL, a.StatusCode)
	}
}

// must is call for an answer of one status.
func (w *world) must(status int, method, path, body string, header ...string) answer {
	w.t.Helper()
	a := w.call(method, path, body, header...)
	if a.status != status {
		w.t.Fatalf("%s %s: status %d, want %d: %s", method, path, a.status, status, a.body)
	}
	return a
}

// get is a member of a JSON answer as text: objects by a path of dots.
func (a answer) get(t testing.TB, path string) string {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(a.body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatalf("not JSON: %v: %s", err, a.body)
	}
	for _, name := range strings.Split(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	_ = e.Encode(v)
	return strings.TrimSpace(b.String())
}

// state is what the engine has of a trigger.
func (w *world) state(key trigger.Key) *trigger.State {
	w.engine.mu.Lock()
	defer w.engine.mu.Unlock()
	return w.engine.states[key]
}

var calendarRelease = calendar.Embedded().Release()

func idKey(id string) trigger.Key { return trigger.NewKey(trigger.DefaultTenant, id) }

// eventually waits for what comes soon.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	eventuallyNil(t, what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

// eventuallyNil waits as eventually does, until check returns nil. A failure shows its last error. After two
// minutes the test hangs: how long it takes is not judged.
func eventuallyNil(t testing.TB, what string, check func() error) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s: %v", what, err)
		}
	}
}

// records reads a topic from its beginning: n records, or what a minute brings.
func (w *world) records(topic string, n int) (all []*kgo.Record) {
	w.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...), kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		w.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	for len(all) < n && ctx.Err() == nil {
		all = append(all, cl.PollFetches(ctx).Records()...)
	}
	return all
}
