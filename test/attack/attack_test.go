package attack

import (
	"context"
	"slices"
	"testing"
	"time"
)

// attack is what the attacker does until ctx ends. It fails the test where the
// server answers what it must not.
type attack struct {
	name    string
	prepare func(t *testing.T, a *tenant)
	run     func(ctx context.Context, t *testing.T, a *tenant)

	memoryOnly []string // kinds of nodes on which latency is not judged
}

// What no attack may do to another tenant and to the processes.
const (
	mayDelay = 50 * time.Millisecond
	mayGrow  = 200 << 20
	mayLeave = 400 << 20 // all attacks together
)

// How long a phase lasts, in how many rounds that count the victim must be hurt for the test to fail, and how
// many rounds there are at most. A round counts if others had little of the processors.
const (
	calmFor   = 1500 * time.Millisecond
	attackFor = 3 * time.Second
	judgments = 3
	rounds    = 12
)

// mostOthers is what processes beside the test's may have of the processors in a
// round that counts.
const mostOthers = 0.05

func TestDev(t *testing.T)   { suffer(t, newDev(t), attacks()) }
func TestServe(t *testing.T) { suffer(t, newServe(t), attacks()) }

func suffer(t *testing.T, n *node, all []attack) {
	v, a := watch(t, n), n.as("attacker", attackerKey)
	v.phase(t.Context(), time.Second) // the first turns, topics and connections
	first := v.phase(t.Context(), calmFor)
	for _, one := range all {
		t.Run(one.name, func(t *testing.T) {
			if one.prepare != nil {
				one.prepare(t, a)
				pause(t.Context(), time.Second)
			}
			withstand(t, v, func() { one.judged(t, a) }, !slices.Contains(one.memoryOnly, n.kind))
		})
	}
	// What attacks leave behind adds up: a round is compared with the phase before it, this with the beginning.
	last := v.phase(t.Context(), calmFor)
	t.Logf("after %d attacks memory is %d MB, before them it was %d MB", len(all), last.peak>>20, first.peak>>20)
	if grown := last.peak - first.peak; grown > mayLeave {
		t.Errorf("all attacks together left %d MB, may leave %d MB", grown>>20, mayLeave>>20)
	}
}

// judged runs an attack for its time.
func (one *attack) judged(t *testing.T, a *tenant) {
	ctx, cancel := context.WithTimeout(t.Context(), attackFor)
	defer cancel()
	one.run(ctx, t, a)
	<-ctx.Done()
}

// withstand runs an attack behind a calm phase until the victim was not hurt in more rounds than it was hurt, or
// was hurt in as many as must count. If fewer count, the test says nothing of latency, and is skipped.
func withstand(t *testing.T, v *victim, run func(), latency bool) {
	t.Helper()
	var worst time.Duration
	judged, withstood := 0, 0
	for round := range rounds {
		before := v.n.machine(t)
		calm := v.phase(t.Context(), calmFor)
		done := make(chan struct{})
		go func() { defer close(done); run() }()
		hurt := v.phase(t.Context(), attackFor)
		<-done
		t.Logf("round %d:\n calm   %s\n attack %s", round+1, calm, hurt)
		if grown := hurt.peak - calm.peak; grown > mayGrow {
			t.Errorf("memory grew by %d MB, may be %d MB", grown>>20, mayGrow>>20)
		}
		for _, f := range hurt.failed {
			t.Errorf("the victim's PUT was refused: %s", f)
			break
		}
		if !latency && hurt.n > 0 && hurt.fired > 0 {
			return
		}
		worst = max(hurt.puts-calm.puts, hurt.late-calm.late)
		busy := v.n.machine(t).othersSince(before)
		switch {
		case hurt.n > 0 && hurt.fired > 0 && hurt.undecided == 0 && worst <= mayDelay:
			if withstood++; withstood > judged {
				return
			}
		case busy > mostOthers:
			t.Logf("others had %.0f%% of the processors: this round says nothing of latency", 100*busy)
		default:
			if judged++; judged == judgments {
				t.Errorf("in %d rounds that count the victim's p99 moved by over %s, at last by %s; in %d it did not",
					judged, mayDelay, worst, withstood)
				return
			}
		}
		pause(t.Context(), time.Second) // what the attack has left
	}
	t.Skipf("of %d rounds %d hurt and %d did not; the others say nothing, and so nothing is said of latency", rounds,
		judged, withstood)
}
