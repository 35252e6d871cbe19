package chaos

import (
	"math/rand/v2"
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// settings are what the environment says.
type settings struct {
	budget    time.Duration  // rounds begin so long; WATERCLOCK_TEST_CHAOS
	seed      uint64         // WATERCLOCK_TEST_CHAOS_SEED, else drawn
	only      *regexp.Regexp // faults; WATERCLOCK_TEST_CHAOS_ONLY
	root      bool           // namespaces and small disks; not with WATERCLOCK_TEST_CHAOS_NETWORK=proxy
	cassandra bool           // not with WATERCLOCK_TEST_CHAOS_CASSANDRA=0
	keep      string         // where the evidence of a failure is kept; WATERCLOCK_TEST_KEEP
}

func fromEnvironment(t *testing.T) settings {
	t.Helper()
	s := settings{
		budget: 3 * time.Minute, seed: rand.Uint64N(1_000_000), root: os.Getuid() == 0,
		keep: os.Getenv("WATERCLOCK_TEST_KEEP"),
	}
	var err error
	if v := os.Getenv("WATERCLOCK_TEST_CHAOS"); v != "" {
		if s.budget, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv("WATERCLOCK_TEST_CHAOS_SEED"); v != "" {
		if s.seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	if s.only, err = regexp.Compile(os.Getenv("WATERCLOCK_TEST_CHAOS_ONLY")); err != nil {
		t.Fatal(err)
	}
	s.root = s.root && os.Getenv("WATERCLOCK_TEST_CHAOS_NETWORK") != "proxy"
	s.cassandra = os.Getenv("WATERCLOCK_TEST_CHAOS_CASSANDRA") != "0"
	return s
}

// TestChaos breaks a cluster for three minutes, or for as long as
// WATERCLOCK_TEST_CHAOS says, and holds everything it did against the contract.
func TestChaos(t *testing.T) {
	if testing.Short() {
		t.Skip("needs real brokers, which -short leaves out")
	}
	s := fromEnvironment(t)
	t.Logf("seed %d", s.seed)
	w := newWorld(t, s)
	for begin := time.Now(); time.Since(begin) < s.budget && !t.Failed(); {
		fault, phase := w.deck.next()
		w.round(fault, phase)
	}
	w.rest()
	w.judge()
}

// round lets one fault strike in one phase, heals it, and waits until all has
// recovered.
func (w *world) round(f *fault, p *phase) {
	w.t.Helper()
	// Its own draws: how often the rounds before have drawn depends on timing.
	w.rng = rand.New(rand.NewPCG(w.s.seed, uint64(100+len(w.rounds))))
	r := round{fault: f, phase: p, from: time.Now()}
	end := p.begin(w)
	if !p.outage {
		r.from = time.Now()
	}
	w.t.Logf("%7s  %s: %s", w.at(r.from), p.name, f.name)
	func() {
		heal := f.strike(w)
		if heal == nil {
			return
		}
		defer heal() // however it ends
		time.Sleep(w.between(f.least, f.most))
	}()
	r.healed = time.Now()
	if err := w.recovered(2 * time.Minute); err != nil {
		w.t.Errorf("%s: %s: not recovered two minutes after it was healed: %v", p.name, f.name, err)
	}
	r.to = time.Now()
	w.rounds = append(w.rounds, r)
	end()
}

// deck is which fault comes next, and in which phase: all faults in an order of
// the seed, then all again, each in a phase it has not met.
type deck struct {
	faults []*fault
	phases []*phase
	drawn  int
}

func (d *deck) next() (*fault, *phase) {
	n := len(d.faults)
	pass, i := d.drawn/n, d.drawn%n
	d.drawn++
	return d.faults[i], d.phases[(i+pass)%len(d.phases)]
}
