package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/sim"
)

type simFlags struct {
	plan   sim.Plan
	faults string
	seeds  uint64
	jobs   int
	repeat int
	stall  time.Duration
	shrink bool
	story  bool
	serve  bool // --serve: this process runs plans for a parent process
}

func newSim(a *app) *cobra.Command {
	f := &simFlags{}
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run the engine through simulated weeks with faults; exit code 1 if the contract was broken",
		Long: `Simulate days on a virtual clock: the real engine on a real broker, several nodes,
a network and disks in memory, all kinds of commands, and faults. After each run
the history checker (docs/checker.md) checks it, and the simulator checks what its
clients were acknowledged. A run of seven days takes about a second.

The seed decides which commands and faults come when. It does not decide in which
order goroutines run. So a seed that fails may pass the next time: --repeat measures
how often it fails, --shrink searches for fewer faults, triggers and days that fail.

` + faultText() + `
It needs no broker, reads no settings and writes no files.`,
		Example: "  waterclock sim --seed 7\n" +
			"  waterclock sim --seed 1 --seeds 1000 -o json\n" +
			"  waterclock sim --seed 42 --days 1 --partitions 4 --faults kill,lost-answers --repeat 20 --shrink\n" +
			"  waterclock sim --faults list",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.faults == "list" {
				return a.listFaults()
			}
			if err := f.check(); err != nil {
				return err
			}
			if f.serve {
				return sim.Serve(f.plan)
			}
			return a.simulate(cmd.Context(), f)
		},
	}
	fs := cmd.Flags()
	fs.Uint64Var(&f.plan.Seed, "seed", 1, "first seed")
	fs.Uint64Var(&f.seeds, "seeds", 1, "how many seeds, counting up from --seed")
	fs.Float64Var(&f.plan.Days, "days", 7, "simulated days of each run")
	fs.Int32Var(&f.plan.Partitions, "partitions", 0, "partitions; 0: 1, 4 or 64, as the seed has it")
	fs.IntVar(&f.plan.Triggers, "triggers", 1200, "triggers that are registered at the beginning")
	fs.StringVar(&f.faults, "faults", "all", "`names` of faults, separated by commas; all, none, or list to print them")
	fs.StringVar(&f.plan.Series, "series", "",
		"wandering: series also change zone, calendar, start and dates all the time")
	fs.IntVar(&f.jobs, "jobs", 0, "runs side by side; 0: one for each processor")
	fs.IntVar(&f.repeat, "repeat", 0, "repeat a failing seed this many times, and print how often it fails")
	fs.DurationVar(&f.stall, "stall-timeout", 10*time.Minute,
		"end a run that works this long while its simulated time stands still; it counts as failed")
	fs.BoolVar(&f.shrink, "shrink", false,
		"search for a smaller run that also fails: fewer faults, triggers, days, partitions")
	fs.BoolVar(&f.story, "story", false, "also print the faults of runs that passed")
	fs.BoolVar(&f.serve, "serve", false, "run one plan, for the process that started this one")
	_ = fs.MarkHidden("serve")
	return cmd
}

// lives returns a function that runs each plan in its own process. So a run that stands still
// (internal/sim.ErrStoodStill) does not block the others. Such a run is repeated and counted in
// stood.
func lives(ctx context.Context, stall time.Duration, stood *atomic.Int64) (sim.Run, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	process := sim.Process{Stall: stall, Command: func(ctx context.Context, p sim.Plan) *exec.Cmd {
		cmd := exec.CommandContext(ctx, self, append([]string{"sim", "--serve"}, strings.Fields(p.String())...)...)
		cmd.Env = append(os.Environ(), "GOGC=400") // the simulated worlds are small and live shortly
		return cmd
	}}
	return func(p sim.Plan) *sim.Outcome {
		o, n, err := process.Run(ctx, p)
		stood.Add(int64(n))
		if err != nil {
			return &sim.Outcome{Plan: p, Violations: []string{err.Error()}}
		}
		return o
	}, nil
}

// faultText is the table of faults in the help.
func faultText() string {
	text := "Faults:\n"
	for _, f := range sim.Faults {
		text += fmt.Sprintf("  %-21s %s\n", f.Name, f.Means)
	}
	return text
}

func (a *app) listFaults() error {
	type row struct {
		Name  string `json:"name"`
		Means string `json:"means"`
	}
	var items []any
	for _, f := range sim.Faults {
		items = append(items, row{f.Name, f.Means})
	}
	return a.out.list(items, []string{"FAULT", "WHAT HAPPENS"},
		func(i int) []string { return []string{sim.Faults[i].Name, sim.Faults[i].Means} })
}

func (f *simFlags) check() error {
	faults, err := sim.ParseFaults(f.faults)
	if err != nil {
		return usagef("--faults: %v; waterclock sim --faults list prints them", err)
	}
	f.plan.Faults = faults
	if err := f.plan.Validate(); err != nil {
		return usagef("%v", err)
	}
	if f.plan.Days <= 0 || f.plan.Triggers < 1 {
		return usagef("--days and --triggers must be above 0")
	}
	if f.seeds < 1 || f.jobs < 0 || f.repeat < 0 {
		return usagef("--seeds must be at least 1, --jobs and --repeat not negative")
	}
	if f.stall <= 0 {
		return usagef("--stall-timeout must be above 0")
	}
	if f.jobs == 0 {
		f.jobs = runtime.GOMAXPROCS(0)
	}
	return nil
}

// simLife is the JSON form of one simulated run.
type simLife struct {
	Command    string         `json:"command"` // the command that repeats this run
	Seed       uint64         `json:"seed"`
	Partitions int32          `json:"partitions"`
	Faults     map[string]int `json:"faults"` // how often each fault happened
	Violations []string       `json:"violations"`
	Story      []string       `json:"story,omitempty"`
	Repeated   int            `json:"repeated,omitempty"`
	Failed     int            `json:"failed,omitempty"` // how many of the repeated runs failed
	Smaller    *simLife       `json:"smaller,omitempty"`
}

// simSummary is the summary of all runs.
type simSummary struct {
	Seed  uint64 `json:"seed"`
	Seeds uint64 `json:"seeds"` // number of seeds that were run
	// Runs that were repeated because kgo stood still (docs/simulator.md).
	StoodStill  int64          `json:"stood_still"`
	Failed      int            `json:"failed"`
	Partitions  map[string]int `json:"partitions"` // number of runs by partition count
	Faults      map[string]int `json:"faults"`
	Triggers    int64          `json:"triggers"`
	Fired       int64          `json:"fired"`
	Records     int64          `json:"records"`
	TriggerDays float64        `json:"trigger_days"`
	Seconds     float64        `json:"seconds"`
	CPUSeconds  float64        `json:"cpu_seconds"`
	PerCPU      float64        `json:"trigger_days_per_cpu_second"`
	Slowest     float64        `json:"slowest_seconds"`
	Lives       []*simLife     `json:"lives"` // the failed runs; with --story all runs
}

func simLifeOf(o *sim.Outcome) *simLife {
	return &simLife{
		Command: "waterclock sim " + o.Plan.String(), Seed: o.Plan.Seed, Partitions: o.Plan.Partitions,
		Faults:     o.Struck,
		Violations: o.Violations, Story: o.Story,
	}
}

func (a *app) simulate(ctx context.Context, f *simFlags) error {
	s := &simSummary{Seed: f.plan.Seed, Partitions: map[string]int{}, Faults: map[string]int{}, Lives: []*simLife{}}
	shown := a.progress("simulating", int64(f.seeds))
	began, cpu := time.Now(), livesTime()
	var stood atomic.Int64
	live, err := lives(ctx, f.stall, &stood)
	if err == nil {
		err = a.liveAll(ctx, f, s, live, shown)
	}
	shown.end()
	s.StoodStill = stood.Load()
	s.Seconds, s.CPUSeconds = time.Since(began).Seconds(), (livesTime() - cpu).Seconds()
	if s.CPUSeconds > 0 {
		s.PerCPU = s.TriggerDays / s.CPUSeconds
	}
	if err == nil {
		err = a.printSim(s)
	}
	switch {
	case err != nil:
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case s.Failed > 0:
		return failf("the contract was broken: %s", count(int64(s.Failed), "seed"))
	}
	return nil
}

// livesTime returns the CPU time of all child processes that have ended.
func livesTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// liveAll runs every seed, several in parallel.
func (a *app) liveAll(ctx context.Context, f *simFlags, s *simSummary, live sim.Run, shown *bar) error {
	var mu sync.Mutex
	var failed error
	var all sync.WaitGroup
	next := make(chan uint64)
	for range min(uint64(f.jobs), f.seeds) {
		all.Go(func() {
			for seed := range next {
				p := f.plan
				p.Seed = seed
				began := time.Now()
				o := live(p)
				if ctx.Err() != nil {
					continue // the run was interrupted and has no result
				}
				took := time.Since(began)
				life := examine(ctx, f, o, live)
				mu.Lock()
				s.add(o, took, f.story, life)
				shown.done(int64(s.Seeds))
				if (f.story || len(o.Violations) > 0) && failed == nil {
					failed = a.printLife(life)
				}
				mu.Unlock()
			}
		})
	}
feed:
	for i := range f.seeds {
		select {
		case next <- f.plan.Seed + i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	all.Wait()
	return failed
}

// examine measures how often a failed run fails again, and searches for a smaller run that fails.
func examine(ctx context.Context, f *simFlags, o *sim.Outcome, live sim.Run) *simLife {
	life := simLifeOf(o)
	if len(o.Violations) == 0 || ctx.Err() != nil {
		return life
	}
	if f.repeat > 0 {
		life.Repeated, life.Failed = f.repeat, sim.Rate(o.Plan, f.repeat, live)
	}
	if f.shrink {
		const tries = 3
		life.Smaller = simLifeOf(sim.Shrink(o, tries, live))
	}
	return life
}

func (s *simSummary) add(o *sim.Outcome, took time.Duration, all bool, life *simLife) {
	s.Seeds++
	s.Partitions[fmt.Sprint(o.Plan.Partitions)]++
	for name, n := range o.Struck {
		s.Faults[name] += n
	}
	s.Triggers, s.Fired, s.Records = s.Triggers+o.Triggers, s.Fired+o.Fired, s.Records+o.Records
	s.TriggerDays += o.TriggerDays
	s.Slowest = max(s.Slowest, took.Seconds())
	if len(o.Violations) > 0 {
		s.Failed++
	}
	if all || len(o.Violations) > 0 {
		s.Lives = append(s.Lives, life)
	}
}

// printLife prints a run as soon as it has ended. Format json prints all runs at the end instead.
func (a *app) printLife(l *simLife) error {
	switch a.out.format {
	case "json":
		return nil
	case "ndjson":
		return a.out.json(l)
	}
	_, err := fmt.Fprintln(a.out.w, strings.Join(l.tale(), "\n"))
	return err
}

// tale formats a run as a story, line by line.
func (l *simLife) tale() (lines []string) {
	lines = append(lines, l.Command)
	for _, text := range append(slices.Clone(l.Story), l.Violations...) {
		for line := range strings.SplitSeq(text, "\n") {
			lines = append(lines, "  "+clean(line))
		}
	}
	if l.Repeated > 0 {
		lines = append(lines, fmt.Sprintf("  it fails %d times of %d", l.Failed, l.Repeated))
	}
	if l.Smaller != nil {
		lines = append(append(lines, "A smaller life that fails:"), l.Smaller.tale()...)
	}
	return lines
}

func (a *app) printSim(s *simSummary) error {
	if a.out.format == "ndjson" {
		s.Lives = nil // already printed, one line each
	}
	if a.out.format != "table" {
		return a.out.json(s)
	}
	w := a.out.w
	fmt.Fprintf(w, "%s, %d failed: %s, %s, %s\n", count(int64(s.Seeds), "seed"), s.Failed, count(s.Triggers, "trigger"),
		count(s.Fired, "due event"), count(s.Records, "record"))
	if s.StoodStill > 0 {
		fmt.Fprintf(w, "restarted because the Kafka client hung: %s\n", count(s.StoodStill, "time"))
	}
	fmt.Fprintf(w, "%s in %.1f s, %.1f s of CPU: %.0f for a CPU second; the slowest life took %.1f s\n",
		count(int64(s.TriggerDays), "trigger-day"), s.Seconds, s.CPUSeconds, s.PerCPU, s.Slowest)
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		fmt.Fprintf(w, "  %-21s %d\n", name, s.Faults[name])
	}
	return nil
}
