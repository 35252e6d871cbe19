package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/waterclock/waterclock/pipeline"
)

// Outcome is the result of a simulated life.
type Outcome struct {
	Plan       Plan
	Violations []string
	Story      []string       // the faults and actions, in order
	Struck     map[string]int // how often each fault struck

	Records     int64 // in all topics
	Triggers    int64
	Fired       int64
	TriggerDays float64 // simulated days times triggers of the plan
}

// Tale returns the story of the life, and its violations.
func (o *Outcome) Tale() string {
	return strings.Join(append(slices.Clone(o.Story), o.Violations...), "\n")
}

// Live runs a plan and returns its outcome. It must be called in a bubble of its own. Failures of
// the life are in the outcome; they do not fail t.
func Live(t testing.TB, p Plan) *Outcome {
	return LiveWith(t, p, func(string, *pipeline.Options) {})
}

// LiveWith is Live with a last change to the engines' options.
func LiveWith(t testing.TB, p Plan, more func(node string, o *pipeline.Options)) *Outcome {
	return run(t, p, more, func() {})
}

// run is LiveWith. It calls moved for each simulated minute.
func run(t testing.TB, p Plan, more func(node string, o *pipeline.Options), moved func()) *Outcome {
	p = p.withDefaults()
	r := &recorder{TB: t}
	o := &Outcome{Plan: p, Struck: map[string]int{}}
	done := make(chan struct{})
	go func() { // a Fatalf ends this goroutine, not the test
		defer close(done)
		l := newLife(r, p, o, more)
		defer func() { o.Story = l.Story() }()
		go minutes(l.end.Add(24*time.Hour), done, moved)
		l.run()
	}()
	<-done
	o.Violations = append([]string{}, r.said()...)
	return o
}

// minutes calls moved for each simulated minute, until a life is done. After the time until it does
// not: who lives so much longer than planned makes no progress.
func minutes(until time.Time, done <-chan struct{}, moved func()) {
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for time.Now().Before(until) {
		select {
		case <-done:
			return
		case <-minute.C:
			moved()
		}
	}
}

// recorder collects the failures that would fail a test.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	lines []string
}

func (r *recorder) Errorf(format string, args ...any) { r.Error(fmt.Sprintf(format, args...)) }
func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) FailNow()                          { r.Fatal("failed") }
func (r *recorder) Failed() bool                      { return len(r.said()) > 0 }

func (r *recorder) Error(args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprint(args...))
}

func (r *recorder) Fatal(args ...any) {
	r.Error(args...)
	runtime.Goexit()
}

func (r *recorder) said() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines
}

// life is a world that lives through a plan. In visits of half a minute, nodes run, commands
// arrive and faults strike. In the hours or days between them no node runs: an idle engine polls
// its broker every second, so days of that would take minutes.
type life struct {
	*World
	plan    Plan
	out     *Outcome
	rng     *rand.Rand
	words   *rand.Rand            // chooses the free text of receipts
	names   []string              // names of the nodes
	skews   map[string]*skew      // clocks of the nodes
	copies  map[string]*vfs.MemFS // earlier copies of their disks
	begin   time.Time             // of the life
	end     time.Time             // nothing is due after it
	strange []*Node               // nodes of another group
	oneShot int                   // number of the next one
	dated   int                   // number of the next series of dates
	wander  *wandering
	more    func(node string, o *pipeline.Options)
	errors  []*kfake.FaultHandle // injected broker errors that may not have occurred yet
	pace
}

// pace is how long the phases take. With many partitions, each second in which nodes run costs
// more, and so does every start of a node.
type pace struct {
	visits int           // minimum number
	visit  time.Duration // length of one
	gap    int           // longest time between faults, in ms
	soon   int           // longest time until a trigger of a visit is due, in ms
	rest   time.Duration // time at the end; longer than soon
}

var (
	few  = pace{visits: 2, visit: 30 * time.Second, gap: 3000, soon: 20_000, rest: 20 * time.Second}
	lots = pace{visits: 2, visit: 6 * time.Second, gap: 4000, soon: 5000, rest: 6 * time.Second}
)

// longest bounds the time without nodes. At 7 days commands may have been compacted, and the
// engine refuses to open.
const longest = 6 * 24 * time.Hour

const (
	many     = 16 // partitions
	stranger = "stranger"
)

func newLife(t testing.TB, p Plan, o *Outcome, more func(string, *pipeline.Options)) *life {
	l := &life{
		plan: p, out: o, rng: rand.New(rand.NewPCG(p.Seed, 21)), words: rand.New(rand.NewPCG(p.Seed, 25)),
		names: []string{"a", "b", "c"},
		skews: map[string]*skew{}, copies: map[string]*vfs.MemFS{}, more: more, wander: newWandering(p.Seed),
	}
	l.pace = few
	if p.Partitions >= many {
		l.names, l.pace = l.names[:2], lots
	}
	// Clocks change in spring and in autumn, so lives begin shortly before.
	season := []time.Time{
		time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC),
		time.Date(2026, 10, 22, 0, 0, 0, 0, time.UTC),
	}[l.rng.IntN(2)]
	time.Sleep(time.Until(season.Add(time.Duration(l.rng.Int64N(int64(5 * 24 * time.Hour))))))
	for _, name := range append([]string{"last"}, l.names...) {
		l.skews[name] = &skew{}
	}
	l.World = New(t, Options{
		Seed: p.Seed, Partitions: p.Partitions, Brokers: 2, Channels: []string{"r-x", stepChannel},
		Change: l.change,
	})
	l.Disputed = p.Series == Wandering
	l.Epsilon, l.Previewed = time.Second, 40*int(p.Days+1)+100
	l.begin = time.Now()
	l.end = l.begin.Add(time.Duration(p.Days * 24 * float64(time.Hour)))
	return l
}

// change configures a node's engine.
func (l *life) change(name string, o *pipeline.Options) {
	o.Standby = int(l.plan.Seed % 3)
	if l.P >= many {
		o.Standby = int(l.plan.Seed % 2)
	}
	if l.publishes() {
		o.WatermarkInterval = time.Second
	}
	if l.plan.Seed%3 == 1 { // commands come in the middle of a run of missed occurrences
		o.CatchUpRate = 100 * float64(l.P)
	}
	if l.plan.Seed%5 == 2 { // room for fifty timers: the rest is left in the store until some have fired
		o.TimerMemory = 4000
	}
	if name == stranger {
		o.Group = "other"
	}
	if s := l.skews[name]; s != nil {
		o.Now = s.now
	}
	l.more(name, o)
}

// publishes reports whether the nodes write watermarks.
func (l *life) publishes() bool { return l.plan.Seed%2 == 0 }

func (l *life) run() {
	visits := max(l.visits, int(l.plan.Days*24/longest.Hours())+1)
	if l.P < many {
		visits = max(visits, int(l.plan.Days/3)+1)
	}
	l.Note("%d partitions, %d nodes, %d triggers, %v days", l.P, len(l.names), l.plan.Triggers, l.plan.Days)
	for n := range visits {
		l.arrive()
		if n == 0 {
			l.AwaitOwners()
			l.register()
		}
		l.visit()
		if n < visits-1 {
			l.depart(time.Until(l.end) / time.Duration(visits-n))
		}
	}
	l.rest()
	if l.publishes() {
		l.AwaitWatermarks()
	}
	l.judge()
	if l.plan.has("truncated-log") && !l.T.Failed() {
		l.truncated()
	}
}

func (l *life) arrive() {
	for _, name := range l.names {
		if l.Node(name) == nil {
			l.Start(name)
		}
	}
}

// visit sends commands and causes faults, then ends the faults.
func (l *life) visit() {
	span := l.pace.visit
	l.Note("a visit of %v", span)
	var load sync.WaitGroup
	seed := l.rng.Uint64()
	load.Go(func() { l.load(rand.New(rand.NewPCG(seed, 22)), span) })
	load.Go(func() { l.roam(rand.New(rand.NewPCG(seed, 28)), span) })
	load.Go(func() { l.escalate(rand.New(rand.NewPCG(seed, 29)), span) })
	if l.plan.has("foreign-transactions") {
		load.Go(func() { l.foreign(rand.New(rand.NewPCG(seed, 23)), span) })
	}
	for begin := time.Now(); time.Since(begin) < span; {
		time.Sleep(time.Duration(200+l.rng.IntN(l.gap)) * time.Millisecond)
		l.strike()
	}
	load.Wait()
	l.mu.Lock()
	if l.foreigners > 0 {
		l.out.Struck["foreign-transactions"] = l.foreigners
	}
	l.mu.Unlock()
	l.heal()
}

// heal ends all current faults.
func (l *life) heal() {
	l.Note("all faults end")
	for _, e := range l.errors {
		e.Remove()
	}
	l.errors = nil
	for _, name := range l.names {
		l.Fill(name, false)
	}
	for _, s := range l.skews {
		s.set(0, 0)
	}
	for _, n := range l.Nodes() {
		n.Thaw()
		n.Heal()
	}
	l.strangersRefused()
}

// depart ends every node, each in a different way, and lets time pass.
func (l *life) depart(leap time.Duration) {
	if l.rng.IntN(2) == 0 {
		l.arrive()
		l.AwaitOwners()
	}
	for _, n := range l.Nodes() {
		switch l.rng.IntN(4) {
		case 0:
			l.Note("%s is stopped", n.Name)
			_ = l.Stop(n.Name)
		case 1:
			l.Note("%s loses its power", n.Name)
			l.PowerLoss(n.Name)
		default:
			l.Note("%s is killed", n.Name)
			l.Kill(n.Name)
		}
	}
	leap = min(leap, longest)
	l.Note("%v pass", leap.Round(time.Minute))
	time.Sleep(leap)
}

// rest lets everything become due. A node with an empty disk may take part.
func (l *life) rest() {
	l.arrive()
	if l.rng.IntN(2) == 0 {
		l.Start("last")
	}
	for time.Until(l.end) > time.Minute { // nodes run in the last minute
		for _, n := range l.Nodes() {
			l.Kill(n.Name)
		}
		time.Sleep(min(time.Until(l.end)-time.Minute, longest))
		l.arrive()
		l.AwaitOwners()
	}
	time.Sleep(time.Until(l.end))
	l.AwaitOwners()
	time.Sleep(l.pace.rest)
	l.AwaitOwners()
}

// judge checks the history against the contract.
func (l *life) judge() {
	found, r := l.violations()
	for _, v := range found {
		l.T.Error(v)
	}
	l.out.Records, l.out.Triggers, l.out.Fired = r.Records, r.Triggers, r.Fired
}

// register sends the triggers of the plan. A tenth are series of every kind; the others are
// one-shots, spread over the days.
func (l *life) register() {
	days := int(l.plan.Days) + 1
	series := min(l.plan.Triggers/10, 60)
	l.moveCalendar()
	l.Fleet(series, Reach{Days: days, Start: max(1, days/3), Jitter: 15 * time.Second})
	span := time.Until(l.end)
	l.FloodOn(-1, l.plan.Triggers-series, func(i int) (string, time.Time) {
		in := time.Duration(l.rng.Int64N(int64(span)))
		l.out.TriggerDays += in.Hours() / 24
		return fmt.Sprint("t", i), time.Now().Add(in)
	})
	for i := range steadies {
		key := fmt.Sprint("r", i)
		l.SendFree(l.Home(key), key,
			`{"op":"register","recurrence":"cron:*/`+fmt.Sprint(7+i)+` * * * *","timezone":"Europe/Berlin"}`)
	}
	l.out.TriggerDays += float64(series+steadies) * l.plan.Days
}

// skew is a clock that can be wrong, and drift.
type skew struct {
	mu    sync.Mutex
	off   time.Duration
	drift float64 // seconds gained per second
	since time.Time
}

func (s *skew) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.off == 0 && s.drift == 0 {
		return now
	}
	return now.Add(s.off + time.Duration(s.drift*float64(now.Sub(s.since))))
}

func (s *skew) set(off time.Duration, drift float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off, s.drift, s.since = off, drift, time.Now()
}

// strangersRefused checks that nodes of another group have ended, and that they named the reason.
func (l *life) strangersRefused() {
	for _, n := range l.strange {
		select {
		case <-n.Done():
			if err := n.Wait(); !isForeign(err) {
				l.T.Errorf("the node of another group ended with: %v", err)
			}
		case <-time.After(2 * time.Minute):
			l.T.Errorf("the node of another group has not refused: %+v", n.Partitions())
		}
		l.Kill(n.Name)
	}
	l.strange = nil
}

// astray chooses the partition for a command: the key's own, or one time in five another.
func (l *life) astray(rng *rand.Rand, key string) int32 {
	home := l.Home(key)
	if l.plan.has("wrong-partition") && rng.IntN(5) == 0 {
		l.struck("wrong-partition")
		return (home + 1 + rng.Int32N(max(l.P-1, 1))) % l.P
	}
	return home
}
