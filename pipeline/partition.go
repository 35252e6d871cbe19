package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Partition runs one partition. It has one transactional producer, so each turn is one
// transaction. It has one goroutine, so only View, which readers use, has a lock.
type Partition struct {
	opts     *Process
	id       int32
	log      *slog.Logger
	names    ownNames
	kafka    *session
	consumer consumer // of our inputs
	store    *statestore.Store
	machine  trigger.Machine

	timers  timers // what is due next
	batch   fireBatch
	scratch scratch           // memory of the current turn
	changes *statestore.Batch // what the turn changes in the store; reused

	progress  topics.Progress // as committed
	stateLog  stateLog
	announced bool // progress names us as owner
	forward   *forwarder
	clock     brokerClock
	committed time.Time // when the last turn was
	done      doneRecords
	mender    mender

	dueTopics    *output.Topics
	destinations destinations
	claims       claims
	pace         pace
	control      control
	replan       *replan      // nil: everything is planned by the timetable in force
	quota        *quota.Share // nil: nobody is bounded
	retries      *retryCounts

	watermarks watermarks
	tracer     tracer

	takenOver bool // another member ran it before

	kept *Kept // kept from one opening to the next
	view View  // what readers may see
}

// ownNames are the topics that most records go to, formatted once.
type ownNames struct{ state, events string }

// turn is one transaction under way: its clock, its overlay, its output.
type turn struct {
	now       trigger.Instant
	hand      trigger.Instant // what was due up to here was taken up; 0: nothing was
	micros    int64           // event_us of the last event
	progress  topics.Progress
	overlay   map[trigger.Key]*entry
	order     []*entry // in order of first touch: state is written in this order
	reader    *statestore.DueReader
	states    *statestore.StateReader
	records   int // number of records produced
	commands  int
	fires     int
	firing    firing
	moved     int    // number of triggers that a replan moved
	atOnce    bool   // a timer was armed that is due already
	source    string // where the command or receipt under way comes from
	decisions []decision
	packer    packer // of decisions
	manifest  manifest
	encoded   []byte // progress, encoded

	guard        topics.Guard
	encodedGuard []byte      // nil: unchanged
	ownsApplied  bool        // guard.Applied and progress.Applied are the turn's own, not the committed maps
	firstState   *kgo.Record // first record of topic state

	watermark trigger.Instant // fired_through of the watermark that it writes; 0: none

	overQuota []string // limits that refused a register; reported after the commit, like the next fields
	lost      []lostRange
	delivered []delivery
	timedOut  []string // the channel of each due event that got no receipt
	dead      []deadLetter
	fired     []lateness.Fired
	live      *live.Turn // nil: nobody watches
	traced    traced

	mended mended
}

// turns runs turns until ctx ends or something fails; the caller opens again.
func (p *Partition) turns(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := p.turn(ctx); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// turn runs the stages in the order of their numbers. It happens entirely or not at all.
func (p *Partition) turn(ctx context.Context) error {
	if err := p.kafka.watcher.Check(&p.kept.dangling, p.committed, p.written); err != nil {
		return err
	}
	in, err := p.poll(ctx) // 1_poll.go     waits until the next due time
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	if in.empty() {
		return nil
	}
	t, err := p.begin(&in) // reads the clock, once per turn
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer t.close()
	err = p.decide(ctx, t, in)
	if err == nil {
		err = p.commit(ctx, t) // 5_commit.go   Kafka, then Pebble
	}
	if err != nil {
		p.giveUp(ctx, t, err)
		return err
	}
	return nil
}

// decide is the middle of the turn. It does not wait, and readers of committed records see
// its work only after commit.
func (p *Partition) decide(ctx context.Context, t *turn, in input) error {
	if err := p.apply(ctx, t, in); err != nil { // 2_apply.go    commands first: a cancel in this turn wins
		return fmt.Errorf("apply: %w", err)
	}
	// 3_advance.go moves the hand to the newest time the barrier has passed
	due := p.advance(t, in)
	if err := p.emit(ctx, t, due); err != nil { // 4_emit.go     re-checks state, encodes due events
		return fmt.Errorf("emit: %w", err)
	}
	if err := p.replanSome(ctx, t); err != nil { // replan.go     after a tz update or a calendar's edit
		return fmt.Errorf("replan: %w", err)
	}
	evicted, err := p.done.forgetUnknown(t)
	if err != nil {
		return fmt.Errorf("forget: %w", err)
	}
	return p.done.forget(t, evicted)
}

func (p *Partition) begin(in *input) (*turn, error) {
	p.step(StepBegin)
	if err := p.kafka.begin(); err != nil {
		return nil, err
	}
	now := p.now() // within a second of the broker's clock
	t := &turn{
		now:      now,
		micros:   max(p.progress.EventUS, 1000*int64(now)-1),
		progress: p.progress,
		guard:    p.stateLog.guard,
		overlay:  map[trigger.Key]*entry{},
		reader:   p.store.NewDueReader(),
		states:   p.store.NewStateReader(),
		live:     p.kept.live.Begin(int64(now)),
	}
	t.progress.Seq++
	t.manifest.reset()
	p.scratch.reset()
	p.pace.begun()
	t.traced.begun = p.pace.start
	p.watermarks.begin(t, in)
	return t, nil
}

func (t *turn) close() {
	t.reader.Close()
	t.states.Close()
}

// giveUp aborts the turn. The partition is opened anew afterwards.
func (p *Partition) giveUp(ctx context.Context, t *turn, err error) {
	p.opts.Listener.Aborted(p.id, abortReason(err))
	t.traced.end(t, abortReason(err))
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	p.kafka.abort(ctx)
}

// applyDecision adds a decision about one trigger to the turn.
func (p *Partition) applyDecision(ctx context.Context, t *turn, e *entry, out *trigger.Outcome) {
	for i := range out.Facts {
		p.recordEvent(ctx, t, e.key, &out.Facts[i])
	}
	for i := range out.Fires {
		p.send(ctx, t, &out.Fires[i])
	}
	for i := range out.Dead {
		p.deadLetter(ctx, t, &out.Dead[i])
	}
	if !out.Changed {
		return
	}
	p.quota.Moved(e.key.Tenant(), e.status(), out.State.Status)
	p.retries.moved(e.state, out.State)
	p.watermarks.putOff.moved(e.state, out.State)
	e.state, e.dirty = out.State, true
	timers := p.scratch.timersOf(out.State)
	for _, tm := range timers {
		if !contains(e.timers, tm) {
			p.timers.arm(e.key, tm, p.paces(out.State, tm, t.now), t.now)
			t.atOnce = t.atOnce || tm.Due <= t.now
		}
	}
	e.timers = timers
}

func contains(timers []trigger.Timer, t trigger.Timer) bool {
	for i := range timers {
		if timers[i] == t {
			return true
		}
	}
	return false
}

// recordEvent writes a fact to topic events.
func (p *Partition) recordEvent(ctx context.Context, t *turn, key trigger.Key, f *trigger.Fact) {
	t.micros++
	r := p.record(p.names.events, key)
	r.Value, _ = p.scratch.encode(func(b []byte) ([]byte, error) {
		return topics.AppendEventWithin(b, key, f, topics.EventEnv{
			Partition: p.id, EventUS: t.micros, At: t.now, Source: t.source, WithPayload: p.opts.EventsPayload,
			EffectiveAt: p.watermarks.effective(f),
		}, p.kafka.sizes.most(p.names.events)), nil
	})
	p.produce(ctx, t, r)
	if f.Type == trigger.Misfired {
		p.opts.Listener.Misfired(f.Reason, f.Count)
	}
	p.watch(t, key, f)
}

// mostWatched bounds a fact as watchers see it, in bytes.
const mostWatched = 4 << 10

// watch shows the event that was just written to those who watch its tenant, once the turn has
// committed: without its payload, and cut where it is large.
func (p *Partition) watch(t *turn, key trigger.Key, f *trigger.Fact) {
	if t.live == nil {
		return
	}
	tenant := key.Tenant()
	if nameless(key, f) { // as the record of a trespass: the caller would learn by it that there is such a tenant
		tenant = live.Nameless // (decision 0012)
	}
	if !t.live.Wants(tenant) {
		return
	}
	data, _ := p.scratch.encode(func(b []byte) ([]byte, error) {
		return topics.AppendEventWithin(b, key, f, topics.EventEnv{
			Partition: p.id, EventUS: t.micros, At: t.now, Source: t.source, EffectiveAt: p.watermarks.effective(f),
		}, mostWatched), nil
	})
	t.live.Keep(tenant, data)
}

// nameless reports whether a fact is of no trigger. The event of a key that is too long has its beginning, which may
// be the key of a trigger.
func nameless(key trigger.Key, f *trigger.Fact) bool {
	if f.Type == trigger.Rejected && f.Reason == string(trigger.CodeInvalidKey) {
		return true
	}
	_, err := trigger.ParseKey([]byte(key))
	return err != nil
}

// state names our partition of topic state.
func (p *Partition) state() kafkapart.TopicPartition {
	return kafkapart.TopicPartition{Topic: p.names.state, Partition: p.id}
}

// record makes a record about a trigger, in the turn's memory.
func (p *Partition) record(topic string, key trigger.Key) *kgo.Record {
	r := p.scratch.record()
	r.Topic, r.Partition, r.Key = topic, p.id, p.scratch.key(key)
	return r
}

func (p *Partition) produce(ctx context.Context, t *turn, r *kgo.Record) {
	t.records++
	if r.Topic == p.names.state {
		t.firstState = cmp.Or(t.firstState, r)
	}
	t.manifest.add(r)
	p.kafka.produce(ctx, r)
}

// View returns what readers may see.
func (p *Partition) View() *View { return &p.view }

// status describes the partition after a turn.
func (p *Partition) status() Status {
	return Status{
		Partition: p.id, Owner: p.opts.Address, Term: p.progress.Term, CommandsOffset: p.progress.NextCommand,
		Pending: p.store.PendingCount(), Done: p.store.DoneCount(), Turns: p.progress.Seq,
		ClockOffset: p.clock.offset, Held: p.clock.held, Ready: !p.clock.held,
		ControlOffset: p.progress.NextControl, Replanning: p.replan != nil, TrimBelow: p.opts.trimBelow(&p.progress),
	}
}
