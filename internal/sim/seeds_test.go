package sim_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/waterclock/waterclock/internal/sim"
)

// live runs a plan, and fails with the story of a life that broke the contract.
func live(t *testing.T, p sim.Plan) (o *sim.Outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { o = sim.Live(t, p) })
	if len(o.Violations) > 0 {
		t.Errorf("waterclock sim %v\n%s", o.Plan, o.Tale())
	}
	return o
}

// TestMain can make this binary the process of one life (see alone).
func TestMain(m *testing.M) {
	if flags, ok := os.LookupEnv("WATERCLOCK_TEST_LIFE"); ok {
		p, err := sim.ParsePlan(flags)
		if err == nil {
			err = sim.Serve(p)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// alone is live in a process of its own. If the life stands still, it runs once more.
func alone(t *testing.T, p sim.Plan) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o, stood, err := sim.Process{Command: func(ctx context.Context, p sim.Plan) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), "WATERCLOCK_TEST_LIFE="+p.String(), "GOGC=400")
		return cmd
	}}.Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if stood > 0 {
		t.Logf("stood still and was lived again: %d times", stood)
	}
	if len(o.Violations) > 0 {
		t.Errorf("waterclock sim %v\n%s", o.Plan, o.Tale())
	}
}

// TestSeeds runs lives of a week with all faults. WATERCLOCK_TEST_SEED is the first seed,
// WATERCLOCK_TEST_SEEDS the number of seeds.
func TestSeeds(t *testing.T) {
	first, n := seeds(200)
	for i := range uint64(n) {
		t.Run(fmt.Sprint("seed ", first+i), func(t *testing.T) {
			t.Parallel()
			alone(t, sim.Plan{Seed: first + i})
		})
	}
}

// TestRegressions runs the plans that once failed.
func TestRegressions(t *testing.T) {
	f, err := os.Open("testdata/regressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		if strings.HasPrefix(line, "#") {
			continue
		}
		p, err := sim.ParsePlan(line)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			live(t, p)
		})
	}
}

// TestWandering runs weeks of series that change zone, calendar, start and dates, with few other triggers.
func TestWandering(t *testing.T) {
	const seeds = 4
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			t.Parallel()
			live(t, sim.Plan{Seed: seed + 1, Triggers: 1, Series: sim.Wandering})
		})
	}
}

// TestEveryFault runs lives of an hour with each fault alone, until the fault strikes. The
// contract must hold.
func TestEveryFault(t *testing.T) {
	for _, f := range sim.Faults {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(10) {
				if o := live(t, sim.Plan{
					Seed: seed, Days: 0.04, Triggers: 40, Partitions: 4,
					Faults: []string{f.Name},
				}); o.Struck[f.Name] > 0 {
					return
				}
			}
			t.Error("it did not happen in ten lives")
		})
	}
}

// TestManyPartitions is a life with 64 partitions, which few seeds choose.
func TestManyPartitions(t *testing.T) {
	live(t, sim.Plan{Seed: 1, Days: 2, Partitions: 64})
}

func TestPlanIsItsFlags(t *testing.T) {
	for _, p := range []sim.Plan{
		{Seed: 17, Days: 0.25, Partitions: 64, Triggers: 9, Faults: []string{"kill", "mute"}},
		{Seed: 1 << 63, Days: 7, Partitions: 1, Triggers: 600, Faults: sim.FaultNames()},
		{Seed: 0, Days: 1, Partitions: 4, Triggers: 1, Faults: []string{}},
		{Seed: 5, Series: sim.Wandering},
	} {
		got, err := sim.ParsePlan(p.String() + " # why")
		if err != nil || got.String() != p.String() {
			t.Errorf("%v came back as %v, %v", p, got, err)
		}
	}
	for _, bad := range []string{"--seed", "--seed x", "--speed 3", "--faults kill,boredom", "--partitions -1"} {
		if _, err := sim.ParsePlan(bad); err == nil {
			t.Errorf("%q is a plan", bad)
		}
	}
}

// TestShrink finds the one fault and the few triggers for which a fake engine fails.
func TestShrink(t *testing.T) {
	fails := func(p sim.Plan) *sim.Outcome {
		o := &sim.Outcome{Plan: p}
		for _, f := range p.Faults {
			if f == "mute" && p.Triggers >= 10 {
				o.Violations = []string{"it broke"}
			}
		}
		return o
	}
	p := sim.Plan{Seed: 1, Days: 7, Partitions: 4, Triggers: 600, Faults: sim.FaultNames()}
	if n := sim.Rate(p, 5, fails); n != 5 {
		t.Errorf("failed %d times of 5", n)
	}
	got := sim.Shrink(fails(p), 1, fails).Plan
	if fmt.Sprint(got.Faults) != "[mute]" || got.Triggers != 37 || got.Days > 0.03 || got.Partitions != 1 {
		t.Errorf("shrunk to %v", got)
	}
}
