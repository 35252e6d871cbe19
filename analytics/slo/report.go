package slo

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/analytics"
)

// Report is what the files say.
type Report struct {
	From      string   `json:"from"`
	Until     string   `json:"until"`
	Percent   float64  `json:"objective_percent"`
	WithinMS  int64    `json:"objective_ms"`
	Newest    string   `json:"newest_event_at,omitempty"` // if before Until, the window is not complete
	Manifest  int      `json:"manifest"`
	NoTail    []int32  `json:"partitions_without_tail,omitempty"` // their newest events are not in the report
	Behind    []Behind `json:"partitions_behind,omitempty"`       // they stand still while others go on
	Gaps      []Gap    `json:"gaps,omitempty"`                    // expired before they were exported
	Begins    string   `json:"begins_at,omitempty"`               // if after From: older events had expired
	Total     Line     `json:"total"`
	Budget    Budget   `json:"budget"`
	Burn      []Burn   `json:"burn"`
	Channels  []Line   `json:"by_channel"`
	Priority  []Line   `json:"by_priority"`
	Tenants   []Line   `json:"by_tenant"`
	Hours     []Line   `json:"by_hour"` // those in which something was due
	Objective string   `json:"-"`
}

// Gap is a part of the log that is not in the export.
type Gap = analytics.Gap

// Line is one group. Percentiles are null if nothing fired.
type Line struct {
	Name         string  `json:"name"`
	Fires        int64   `json:"fires"`
	Late         int64   `json:"late"`    // later than the objective
	Expired      int64   `json:"expired"` // and never went out
	Misfired     int64   `json:"misfired"`
	DeadLettered int64   `json:"dead_lettered"`
	OnTime       float64 `json:"on_time_percent"` // of fires and expired ones
	Percentiles  []Value `json:"percentiles"`
	MaxMS        *int64  `json:"max_ms"`
}

// Value is a percentile of lateness.
type Value struct {
	Percent float64 `json:"percent"`
	MS      *int64  `json:"ms"`
}

// NoData is the verdict where nothing was due in the window.
const NoData = "no_data"

// Budget is how many may be late or expired, and how many were.
type Budget struct {
	Allowed     float64 `json:"allowed"` // of Fires and Expired together
	Spent       int64   `json:"spent"`
	LeftPercent float64 `json:"left_percent"` // negative: overspent
	Met         bool    `json:"met"`          // false where nothing was due
	Verdict     string  `json:"verdict"`      // met, missed or no_data
}

// Overspent reports whether more was late or expired than the objective allows.
func (b *Budget) Overspent() bool { return b.Verdict == "missed" }

// Allowed is a budget as people read it: small ones with more decimals.
func Allowed(occurrences float64) string {
	decimals := 1
	switch {
	case occurrences == 0:
		decimals = 0
	case occurrences < 1:
		decimals = 3
	}
	return strconv.FormatFloat(occurrences, 'f', decimals, 64)
}

// Burn is how fast the budget goes: at 1 it is spent when the window ends.
type Burn struct {
	Window string  `json:"window"` // the last part of the report's window
	Due    int64   `json:"due"`
	Bad    int64   `json:"bad"`
	Rate   float64 `json:"rate"`
}

// Report is made when no further pass is needed.
func (f *Fold) Report() Report {
	o := f.opts.Objective
	r := Report{
		From: utc(f.opts.From), Until: utc(f.opts.Until), Percent: percent(o.Thousandths),
		WithinMS: o.Within.Milliseconds(), Total: f.lineOf("total", f.total), Objective: o.String(),
		Channels: f.lines(f.channel), Priority: f.lines(f.priority), Tenants: f.lines(f.tenant), Hours: []Line{},
	}
	if f.newest > 0 {
		r.Newest = utc(time.UnixMicro(f.newest))
	}
	for _, ms := range slices.Sorted(maps.Keys(f.hour)) {
		r.Hours = append(r.Hours, f.lineOf(time.UnixMilli(ms).UTC().Format("2006-01-02T15:04Z"), f.hour[ms]))
	}
	share := float64(100_000-o.Thousandths) / 100_000
	due, bad := f.total.Fires+f.total.Expired, f.total.Late+f.total.Expired
	r.Budget = Budget{Allowed: float64(due) * share, Spent: bad, LeftPercent: 100}
	if due > 0 {
		r.Budget.LeftPercent = 100 * (1 - float64(bad)/r.Budget.Allowed)
	}
	r.Budget.Met = due > 0 && bad*100_000 <= due*(100_000-o.Thousandths) // in whole numbers: exact
	switch {
	case due == 0:
		r.Budget.Verdict = NoData
	case r.Budget.Met:
		r.Budget.Verdict = "met"
	default:
		r.Budget.Verdict = "missed"
	}
	for _, b := range f.burning {
		line := Burn{Window: short(b.window), Due: b.good + b.bad, Bad: b.bad}
		if line.Due > 0 {
			line.Rate = float64(b.bad) / float64(line.Due) / share
		}
		r.Burn = append(r.Burn, line)
	}
	return r
}

func (f *Fold) lines(all map[string]*counts) []Line {
	out := make([]Line, 0, len(all))
	for name, c := range all {
		out = append(out, f.lineOf(cmp.Or(name, "(none)"), c))
	}
	slices.SortFunc(out, func(a, b Line) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (f *Fold) lineOf(name string, c *counts) Line {
	l := Line{
		Name: name, Fires: c.Fires, Late: c.Late, Expired: c.Expired, Misfired: c.Misfired,
		DeadLettered: c.DeadLettered, OnTime: 100,
	}
	if due := c.Fires + c.Expired; due > 0 {
		l.OnTime = 100 * float64(c.Fires-c.Late) / float64(due)
	}
	for i, p := range f.percentiles() {
		v := Value{Percent: percent(p)}
		if c.Fires > 0 {
			v.MS = &c.targets[i].low
		}
		l.Percentiles = append(l.Percentiles, v)
	}
	if c.Fires > 0 {
		l.MaxMS = &c.lateness.max
	}
	return l
}

// percentiles are those of the report, in thousandths of a percent.
func (f *Fold) percentiles() []int64 {
	all := []int64{50_000, 90_000, 99_000, 99_900}
	if at, ok := slices.BinarySearch(all, f.opts.Objective.Thousandths); !ok {
		all = slices.Insert(all, at, f.opts.Objective.Thousandths)
	}
	return all
}

func percent(thousandths int64) float64 { return float64(thousandths) / 1000 }

func utc(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// short is a duration as people write it: 28d, 6h.
func short(d time.Duration) string {
	switch {
	case d >= 48*time.Hour && d%(24*time.Hour) == 0:
		return strconv.FormatInt(int64(d/(24*time.Hour)), 10) + "d"
	case d%time.Hour == 0:
		return strconv.FormatInt(int64(d/time.Hour), 10) + "h"
	}
	return d.String()
}

// ParseObjective reads 99.9:1s. parse reads the duration.
func ParseObjective(text string, parse func(string) (time.Duration, error)) (o Objective, err error) {
	share, within, ok := strings.Cut(text, ":")
	if !ok {
		return o, fmt.Errorf("%q is no objective: write a percentage and a duration, such as 99.9:1s", text)
	}
	if o.Within, err = parse(within); err != nil {
		return o, err
	}
	whole, decimals, _ := strings.Cut(share, ".")
	if whole == "" || len(decimals) > 3 {
		return o, fmt.Errorf("%q is no percentage with at most three decimals", share)
	}
	o.Thousandths, err = strconv.ParseInt(whole+(decimals + "000")[:3], 10, 64)
	if err != nil || o.Thousandths <= 0 || o.Thousandths >= 100_000 {
		return o, fmt.Errorf("%q is no percentage between 0 and 100. At 100 there is no budget for errors", share)
	}
	return o, nil
}

func (o Objective) String() string {
	return strconv.FormatFloat(percent(o.Thousandths), 'f', -1, 64) + " % within " + o.Within.String()
}

// Worst are the n lines with the most late and expired ones, and then with the worst
// lateness, in their order.
func Worst(lines []Line, n int) []Line {
	if len(lines) <= n {
		return lines
	}
	by := make([]int, len(lines))
	for i := range by {
		by[i] = i
	}
	worst := func(l *Line) int64 {
		if l.MaxMS == nil {
			return -1
		}
		return *l.MaxMS
	}
	slices.SortStableFunc(by, func(i, j int) int {
		a, b := &lines[i], &lines[j]
		return cmp.Or(cmp.Compare(b.Late+b.Expired, a.Late+a.Expired), cmp.Compare(worst(b), worst(a)))
	})
	by = by[:n]
	slices.Sort(by)
	out := make([]Line, n)
	for i, at := range by {
		out[i] = lines[at]
	}
	return out
}
