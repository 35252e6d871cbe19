package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// Plan has everything that is fixed in a simulated life. The same plan makes the same commands,
// nodes and faults at the same simulated times. The runtime chooses the order in which goroutines
// run.
type Plan struct {
	Seed       uint64
	Days       float64  // simulated days; 0 means 7
	Partitions int32    // 0: the seed chooses 1, 4 or 64
	Triggers   int      // registered at the beginning; 0 means 1,200
	Faults     []string // names of Faults; nil means all, empty means none
	Series     string   // Wandering, or "" for series that stay in their zone and calendar
}

// Wandering series change zone, calendar, start and dates all the time, and the checker judges named
// calendars, too (docs/simulator.md).
const Wandering = "wandering"

// withDefaults fills in the defaults.
func (p Plan) withDefaults() Plan {
	if p.Days == 0 {
		p.Days = 7
	}
	if p.Triggers == 0 {
		p.Triggers = 1200
	}
	if p.Faults == nil {
		p.Faults = FaultNames()
	}
	if p.Partitions == 0 {
		p.Partitions = []int32{1, 4}[rand.New(rand.NewPCG(p.Seed, 20)).IntN(2)]
		if p.Seed%20 == 0 {
			p.Partitions = 64
		}
	}
	return p
}

// Validate joins every problem into one error.
func (p Plan) Validate() error {
	var errs []error
	if p.Days < 0 || p.Days > 3650 {
		errs = append(errs, fmt.Errorf("days: %v, must be above 0 and at most 3650", p.Days))
	}
	if p.Partitions < 0 || p.Partitions > 256 {
		errs = append(errs, fmt.Errorf("partitions: %d, must be 1 to 256, or 0 for the seed's choice", p.Partitions))
	}
	if p.Triggers < 0 || p.Triggers > 1_000_000 {
		errs = append(errs, fmt.Errorf("triggers: %d, must be 1 to 1000000", p.Triggers))
	}
	if p.Series != "" && p.Series != Wandering {
		errs = append(errs, fmt.Errorf("series: %q, must be %s or nothing", p.Series, Wandering))
	}
	for _, name := range p.Faults {
		if !slices.Contains(FaultNames(), name) {
			errs = append(errs, fmt.Errorf("there is no fault %q", name))
		}
	}
	return errors.Join(errs...)
}

// has reports whether a fault is part of the plan.
func (p Plan) has(fault string) bool { return slices.Contains(p.Faults, fault) }

// String returns the plan as flags of `waterclock sim`.
func (p Plan) String() string {
	p = p.withDefaults()
	faults := strings.Join(p.Faults, ",")
	switch {
	case slices.Equal(p.Faults, FaultNames()):
		faults = "all"
	case len(p.Faults) == 0:
		faults = "none"
	}
	text := fmt.Sprintf("--seed %d --days %s --partitions %d --triggers %d --faults %s",
		p.Seed, strconv.FormatFloat(p.Days, 'g', 6, 64), p.Partitions, p.Triggers, faults)
	if p.Series != "" {
		text += " --series " + p.Series
	}
	return text
}

// ParseFaults parses names separated by commas, or `all` or `none`.
func ParseFaults(text string) ([]string, error) {
	switch text {
	case "", "all":
		return FaultNames(), nil
	case "none":
		return []string{}, nil
	}
	names := strings.Split(text, ",")
	return names, Plan{Faults: names}.Validate()
}

// ParsePlan parses the output of String. It ignores text after a #.
func ParsePlan(line string) (p Plan, err error) {
	line, _, _ = strings.Cut(line, "#")
	words := strings.Fields(line)
	if len(words)%2 != 0 {
		return p, fmt.Errorf("plan %q: a flag has no value", line)
	}
	for i := 0; i < len(words) && err == nil; i += 2 {
		switch value := words[i+1]; words[i] {
		case "--seed":
			p.Seed, err = strconv.ParseUint(value, 10, 64)
		case "--days":
			p.Days, err = strconv.ParseFloat(value, 64)
		case "--partitions":
			_, err = fmt.Sscan(value, &p.Partitions)
		case "--triggers":
			p.Triggers, err = strconv.Atoi(value)
		case "--series":
			p.Series = value
		case "--faults":
			p.Faults, err = ParseFaults(value)
		default:
			err = fmt.Errorf("there is no %s", words[i])
		}
	}
	if err != nil {
		return p, fmt.Errorf("plan %q: %w", line, err)
	}
	return p, p.Validate()
}
