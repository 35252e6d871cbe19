package slo

import (
	"encoding/json"
	"hash/fnv"
	"strings"
	"time"
)

// Row has the columns of an export that the report is made of.
type Row struct {
	Offset     int64  `parquet:"log_offset"`
	Type       string `parquet:"type"`
	Trigger    string `parquet:"trigger"`
	Tenant     string `parquet:"tenant"`
	EventUS    int64  `parquet:"event_us,timestamp(microsecond)"`
	OccurredAt int64  `parquet:"occurred_at"`
	Scheduled  int64  `parquet:"scheduled_at"`
	FirstFired int64  `parquet:"first_fired_at"`
	First      int64  `parquet:"first"`
	Occurrence string `parquet:"occurrence"`
	Channel    string `parquet:"channel"`
	Step       int32  `parquet:"step"`
	Attempt    int32  `parquet:"attempt"`
	LatenessMS *int64 `parquet:"lateness_ms,optional"`
	Reason     string `parquet:"reason"`
	Count      int32  `parquet:"count"`
	Rule       string `parquet:"rule"`
}

// Options say what is asked.
type Options struct {
	// Objective: at least so many of the fires are at most so late.
	Objective Objective

	// From and Until bound the window: what was due from From on, before Until.
	From, Until time.Time

	// MaxTenants bounds how many tenants have a line of their own, and as many channels. What
	// comes later in the files is together in "(others)". 0 means 1,000.
	MaxTenants int
}

// Objective is how many percent must be at most how late.
type Objective struct {
	Thousandths int64 // of a percent: 99,900 is 99.9 %
	Within      time.Duration
}

const (
	typeFired      = "occurrence.fired"
	typeExpired    = "occurrence.expired"
	typeMisfired   = "occurrence.misfired"
	typeDeadLetter = "delivery.dead_lettered"

	mostLate = 1 << 50 // ms; an event that says more is none of ours

	others     = "(others)"
	maxTenants = 1000
)

// counts are what a line of the report is made of.
type counts struct {
	Fires, Late, Expired, Misfired, DeadLettered int64

	lateness histogram
	targets  []target // as percentiles; nil before the first pass is over
}

// Fold takes in rows, partition by partition, each in the order of the log.
type Fold struct {
	opts     Options
	from     int64 // ms
	until    int64
	total    *counts
	channel  map[string]*counts
	priority map[string]*counts
	tenant   map[string]*counts
	hour     map[int64]*counts // by ms
	burning  []burning

	unusual map[uint64]string // the priority of triggers of this partition, if not normal
	oldest  int64             // event_us; 0: no event
	newest  int64
	refines bool // in a further pass
	arrived arrivals
}

// burning counts what was due in the last part of the window.
type burning struct {
	window time.Duration
	from   int64
	good   int64
	bad    int64
}

// burnWindows are those of the usual alerts on burn rates.
var burnWindows = [...]time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}

// New is a fold that has seen nothing.
func New(o Options) *Fold {
	if o.MaxTenants == 0 {
		o.MaxTenants = maxTenants
	}
	f := &Fold{
		opts: o, from: o.From.UnixMilli(), until: o.Until.UnixMilli(), total: &counts{},
		channel: map[string]*counts{}, priority: map[string]*counts{}, tenant: map[string]*counts{},
		hour: map[int64]*counts{}, unusual: map[uint64]string{},
	}
	length := o.Until.Sub(o.From)
	for _, w := range burnWindows {
		if w < length {
			f.burning = append(f.burning, burning{window: w, from: o.Until.Add(-w).UnixMilli()})
		}
	}
	f.burning = append(f.burning, burning{window: length, from: f.from})
	return f
}

// Partition begins a partition. A trigger is in one only.
func (f *Fold) Partition() { clear(f.unusual) }

// Add takes in a row. Rows that only Plan needs may be given to that instead.
func (f *Fold) Add(r *Row) {
	f.Plan(r.Type, r.Trigger, r.Rule)
	f.newest = max(f.newest, r.EventUS)
	f.since(r.EventUS)
	switch r.Type {
	case typeFired:
		if r.LatenessMS != nil && r.firstOut() {
			f.fired(r, min(max(0, r.lateness()), mostLate))
		}
	case typeExpired:
		if r.neverOut() {
			f.counted(r, r.Scheduled, 0, func(c *counts) { c.Expired++ })
		}
	case typeMisfired:
		f.counted(r, r.First, 0, func(c *counts) { c.Misfired += max(1, int64(r.Count)) })
	case typeDeadLetter:
		f.counted(r, r.Scheduled, 0, func(c *counts) {
			c.DeadLettered++
			if r.neverOut() {
				c.Expired++
			}
		})
	}
}

// since notes that there is an event of that time; 0 is none.
func (f *Fold) since(us int64) {
	if us != 0 && (f.oldest == 0 || us < f.oldest) {
		f.oldest = us
	}
}

// Plan notes the priority of a trigger, which only events with a rule say.
func (f *Fold) Plan(kind, key, rule string) {
	if rule == "" || !strings.HasPrefix(kind, "trigger.") {
		return
	}
	var fields struct{ Priority string }
	if strings.Contains(rule, `"priority"`) {
		_ = json.Unmarshal([]byte(rule), &fields) // a rule that is none has the default
	}
	switch id := keyed(key); {
	case fields.Priority != "":
		f.unusual[id] = fields.Priority
	case len(f.unusual) > 0:
		delete(f.unusual, id)
	}
}

// firstOut: the first emission of an occurrence of the plan. If due topics refused the steps before, it is of a further
// one.
func (r *Row) firstOut() bool {
	first := r.FirstFired == r.OccurredAt || r.FirstFired == 0 && r.Step == 0
	return first && r.Attempt == 1 && onPlan(r.Occurrence)
}

// lateness of a further step counts from when the occurrence was due: its own is from when the step was.
func (r *Row) lateness() int64 {
	if r.Step == 0 || r.Scheduled == 0 {
		return *r.LatenessMS
	}
	return r.OccurredAt - r.Scheduled
}

// neverOut: the end of an occurrence of the plan that was never emitted. A redrive may end it once
// more, as a further attempt. What the misfire policy of a single occurrence left out counts as
// misfired alone, as that of a recurring one does.
func (r *Row) neverOut() bool {
	ended := r.Type == typeExpired && r.Reason != "misfire" || r.Type == typeDeadLetter
	return ended && r.Attempt <= 1 && r.FirstFired == 0 && onPlan(r.Occurrence)
}

// onPlan says that an occurrence is neither a snooze nor a run_now.
func onPlan(occurrence string) bool {
	return !strings.HasPrefix(occurrence, "snz-") && !strings.HasPrefix(occurrence, "run-")
}

func (f *Fold) fired(r *Row, late int64) {
	over := late > f.opts.Objective.Within.Milliseconds()
	f.counted(r, r.Scheduled, late, func(c *counts) {
		c.Fires++
		if over {
			c.Late++
		}
		c.lateness.add(late)
	})
}

// counted counts a row in each of its lines, if it was due in the window.
func (f *Fold) counted(r *Row, due, late int64, count func(*counts)) {
	if due == 0 {
		due = r.EventUS / 1000
	}
	if due < f.from || due >= f.until {
		return
	}
	lines := [...]*counts{
		f.total, f.line(f.channel, r.Channel), f.line(f.priority, f.priorityOf(r.Trigger)), f.line(f.tenant, r.Tenant),
		hourly(f.hour, due),
	}
	for _, c := range lines {
		switch {
		case !f.refines:
			count(c)
		case r.Type == typeFired:
			for i := range c.targets {
				c.targets[i].add(late)
			}
		}
	}
	if !f.refines {
		f.burn(r, due, late)
	}
}

func (f *Fold) burn(r *Row, due, late int64) {
	never := r.neverOut()
	bad := never || late > f.opts.Objective.Within.Milliseconds()
	for i := range f.burning {
		switch b := &f.burning[i]; {
		case due < b.from || r.Type != typeFired && !never:
		case bad:
			b.bad++
		default:
			b.good++
		}
	}
}

// line is the one of a name; there are not more than the bound.
func (f *Fold) line(lines map[string]*counts, name string) *counts {
	if c := lines[name]; c != nil {
		return c
	}
	if len(lines) >= f.opts.MaxTenants {
		name = others
		if c := lines[name]; c != nil {
			return c
		}
	}
	c := &counts{}
	lines[name] = c
	return c
}

func hourly(lines map[int64]*counts, ms int64) *counts {
	const hour = int64(time.Hour / time.Millisecond)
	c := lines[ms-ms%hour]
	if c == nil {
		c = &counts{}
		lines[ms-ms%hour] = c
	}
	return c
}

func (f *Fold) priorityOf(key string) string {
	if len(f.unusual) > 0 {
		if p := f.unusual[keyed(key)]; p != "" {
			return p
		}
	}
	return "normal"
}

func keyed(key string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key)) // never fails
	return h.Sum64()
}

// Refine ends a pass over all rows. It reports whether another one is needed, of the same
// rows in the same order.
func (f *Fold) Refine() bool {
	f.refines = true
	wide := false
	for c := range f.all() {
		if c.targets == nil {
			for _, p := range f.percentiles() {
				c.targets = append(c.targets, c.lateness.find(p))
			}
			c.lateness.counts = nil
		}
		for i := range c.targets {
			t := &c.targets[i]
			if t.counts != nil {
				t.end()
			}
			if t.width > 1 {
				t.begin()
				wide = true
			}
		}
	}
	return wide
}

// all are the lines of the report.
func (f *Fold) all() func(func(*counts) bool) {
	return func(yield func(*counts) bool) {
		if !yield(f.total) {
			return
		}
		for _, lines := range [...]map[string]*counts{f.channel, f.priority, f.tenant} {
			for _, c := range lines {
				if !yield(c) {
					return
				}
			}
		}
		for _, c := range f.hour {
			if !yield(c) {
				return
			}
		}
	}
}
