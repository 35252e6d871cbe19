package trigger

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// For a soak, or one life again: -lives 100000, -seed 207839282 -lives 1.
var (
	lives = flag.Int("lives", 2000, "random lives to play")
	first = flag.Uint64("seed", 0, "the first seed; 0 is the day's")
)

// TestRandomLives plays random scripts; every step of them is held against the
// invariants of checks_test.go. The seed of a failure is printed.
func TestRandomLives(t *testing.T) {
	for n := range *lives {
		seed := baseSeed() + uint64(n)
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { play(t, randomBytes(seed, 160)) }) {
			return
		}
	}
}

// FuzzLife searches for a script that breaks an invariant.
func FuzzLife(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(randomBytes(seed, 80))
	}
	f.Fuzz(func(t *testing.T, b []byte) { play(t, b[:min(len(b), 400)]) })
}

func play(t *testing.T, b []byte) {
	p := &script{b: b, w: newWorld(t, scriptStart), zones: true}
	p.run()
}

func randomBytes(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// baseSeed differs from run to run by the day only, so that a red run stays red
// while somebody looks at it.
func baseSeed() uint64 {
	if *first != 0 {
		return *first
	}
	return uint64(time.Now().Unix() / 86_400 * 10_000)
}

// TestSeriesAgainstModel runs series through outages and pauses and compares
// what fired with a model that knows the list of occurrences and the misfire
// policy, and nothing of plans, timers or catching up.
func TestSeriesAgainstModel(t *testing.T) {
	for n := range uint64(400) {
		seed := baseSeed() + n
		if !t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { compareSeries(t, rand.New(rand.NewPCG(seed, 2))) }) {
			return
		}
	}
}

// series is what the model test draws.
type modelSeries struct {
	when    When
	jitter  time.Duration
	misfire Misfire
}

func randomSeries(r *rand.Rand) modelSeries {
	when := When{
		Kind: WhenRecurrence,
		Recurrence: oneOf(r, "every:10m", "every:1h", "FREQ=DAILY", "FREQ=DAILY;BYHOUR=1,2,3", "cron:30 1-3 * * *",
			"cron:*/30 * * * *", "FREQ=HOURLY"),
		Zone:  oneOf(r, "UTC", "America/New_York", "Australia/Lord_Howe"),
		Start: oneOf(r, "2026-03-08T01:30:00", "2026-03-08T12:00:00", "2026-03-10T02:30:00"),
		Count: oneOf(r, 0, 0, 0, 7, 40),
		DST:   DST{Gap: oneOf(r, "", "skip"), Overlap: oneOf(r, "", "both")},
	}
	return modelSeries{when, oneOf(r, 0, 0, 5*time.Minute), oneOf(r, FireOnce, FireAll, SkipMissed)}
}

func oneOf[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func compareSeries(t *testing.T, r *rand.Rand) {
	draw := randomSeries(r)
	t.Logf("%+v", draw)
	w := newWorld(t, scriptStart)
	var got []string
	w.observe = func(_ Instant, _ *State, out Outcome) {
		for i := range out.Fires {
			got = append(got, out.Fires[i].Occurrence)
		}
	}
	out := w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: &Spec{
		When: draw.when, Channel: "default",
		Priority: Normal, Jitter: draw.jitter, Misfire: draw.misfire,
	}})
	m := newOracle(t, draw)
	if out.Rejected != nil {
		if out.Rejected.Code != CodeNoOccurrences || len(m.due) > 0 {
			t.Fatalf("%v, with %d occurrences to come", out.Rejected, len(m.due))
		}
		return // all of them lie before the register
	}
	w.advance(w.now)
	m.gap(w.now)
	for range 12 {
		walk(r, w, m)
	}
	if want := m.fired; !slices.Equal(got, want) {
		t.Errorf("fired %d, want %d\n got  %v\n want %v", len(got), len(want), got, want)
	}
}

// walk takes one stretch of time, in one of three ways.
func walk(r *rand.Rand, w *world, m *oracle) {
	until := w.now.Add(time.Duration(r.Int64N(int64(oneOf(r, 5*time.Minute, 3*time.Hour, 30*time.Hour)))))
	switch r.IntN(3) {
	case 0:
		w.advance(until)
		m.live(until)
	case 1:
		w.outage(until)
		m.gap(until)
	case 2:
		w.command(&Command{Op: OpPause, Key: "k", From: w.origin()})
		w.advance(until)
		w.command(&Command{Op: OpResume, Key: "k", From: w.origin()})
		w.advance(until)
		m.gap(until)
	}
}

// oracle knows every occurrence there is, in order, and which are decided.
type oracle struct {
	due     []Instant // nominal time + jitter
	id      []string
	misfire Misfire
	fired   []string
}

func newOracle(t *testing.T, draw modelSeries) *oracle {
	w := draw.when
	dst, err := calendar.ParseDST(w.DST.Gap, w.DST.Overlap)
	if err != nil {
		t.Fatal(err)
	}
	rule, err := calendar.Compile(calendar.Embedded(), calendar.Spec{
		Recurrence: w.Recurrence, Start: w.Start, Zone: w.Zone, Count: w.Count,
		DST: dst, Append: int64(scriptStart),
	})
	if err != nil {
		t.Fatal(err)
	}
	list, err := rule.Between(int64(scriptStart)-1, int64(scriptStart.Add(30*24*time.Hour)), 100_000)
	if err != nil {
		t.Fatal(err)
	}
	m := &oracle{misfire: draw.misfire}
	for _, o := range list {
		m.due = append(m.due, Instant(o.At).Add(calendar.Jitter("k", o.ID(), draw.jitter)))
		m.id = append(m.id, o.ID())
	}
	return m
}

// live fires all that is due, in time.
func (m *oracle) live(until Instant) {
	for len(m.due) > 0 && m.due[0] <= until {
		m.fire(0)
		m.drop(1)
	}
}

// gap decides on what was due while nobody looked.
func (m *oracle) gap(until Instant) {
	missed := 0
	for missed < len(m.due) && until-m.due[missed] > 60_000 {
		missed++
	}
	switch {
	case missed == 0:
	case m.misfire == FireAll:
		for i := max(0, missed-1000); i < missed; i++ {
			m.fire(i)
		}
	case m.misfire == FireOnce:
		m.fire(missed - 1)
	}
	m.drop(missed)
	m.live(until)
}

func (m *oracle) fire(i int) { m.fired = append(m.fired, m.id[i]) }

func (m *oracle) drop(n int) { m.due, m.id = m.due[n:], m.id[n:] }
