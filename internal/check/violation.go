package check

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Class is a row of the checker's table (docs/checker.md).
type Class string

const (
	LostAck    Class = "C1"  // an acknowledged command is not in the log, or was not decided
	LostFire   Class = "C2"  // what was due did not fire
	Early      Class = "C3"  // fired before its time
	Duplicate  Class = "C4"  // fired twice
	AfterStop  Class = "C5"  // fired after its cancel
	Recurrence Class = "C6"  // occurrences differ from those of the rule and the policies
	Phantom    Class = "C7"  // fired without a register, or with other content
	Illegal    Class = "C8"  // the events are not a path of the state machine, or contradict the commands
	NotTheFold Class = "C9"  // topic state is not the fold of what happened
	Torn       Class = "C10" // a transaction is incomplete, or an aborted one is visible
	Order      Class = "C11" // an owner wrote after its successor
	Stuck      Class = "C12" // a partition makes no progress
	Behind     Class = "C13" // a firing at or before a watermark came after it, or a watermark decreased
)

// Classes lists all classes, with their meanings.
var Classes = []struct {
	Class Class
	Means string
}{
	{LostAck, "lost command"},
	{LostFire, "lost firing"},
	{Early, "early"},
	{Duplicate, "duplicate"},
	{
		AfterStop,
		"fired after cancel",
	},
	{Recurrence, "wrong recurrence"},
	{Phantom, "phantom or mixed up"},
	{Illegal, "illegal history"},
	{
		NotTheFold,
		"state is not the fold",
	},
	{Torn, "torn or aborted transaction"},
	{Order, "two owners at once"},
	{Stuck, "stuck partition"},
	{Behind, "behind a watermark"},
}

// Violation is one breach of the contract.
type Violation struct {
	Class     Class    `json:"class"`
	Trigger   string   `json:"trigger,omitempty"`
	Partition int32    `json:"partition"`
	Records   []string `json:"records,omitempty"` // topic/partition/offset of the evidence
	Sentence  string   `json:"sentence"`
	Timeline  []string `json:"timeline,omitempty"` // all that is known of the trigger, by append time
}

func (v *Violation) String() string {
	s := fmt.Sprintf("%s partition %d", v.Class, v.Partition)
	if v.Trigger != "" {
		s = fmt.Sprintf("%s %s (partition %d)", v.Class, v.Trigger, v.Partition)
	}
	s += ": " + v.Sentence
	if len(v.Records) > 0 {
		s += " [" + strings.Join(v.Records, ", ") + "]"
	}
	return s
}

// Report is the result of Verify.
type Report struct {
	Records    int64            `json:"records"`
	Triggers   int64            `json:"triggers"`
	Live       int64            `json:"live"` // triggers with a pending occurrence at the end
	Fired      int64            `json:"fired"`
	Violations []Violation      `json:"violations"`
	Counts     map[Class]int64  `json:"counts"` // includes those that are not in Violations
	Skipped    map[string]int64 `json:"skipped,omitempty"`
	Trusted    map[string]int64 `json:"trusted,omitempty"` // refusals that the checker cannot judge, by code
	Notes      []string         `json:"notes,omitempty"`
	IndexBytes int64            `json:"index_bytes"`
	Shares     int              `json:"shares"`
	Lateness   Lateness         `json:"lateness_ms"`
	InFaults   Lateness         `json:"lateness_ms_in_faults"` // of firings that waited during one of Options.Faults
	NoFaults   Lateness         `json:"lateness_ms_outside"`   // of all other firings
}

// Lateness is that of first emissions: append time minus nominal time, in milliseconds.
type Lateness struct {
	Count  int64   `json:"count"`
	P50    int64   `json:"p50"`
	P99    int64   `json:"p99"`
	Max    int64   `json:"max"`
	Within []int64 `json:"within,omitempty"` // one count for each of LatenessBounds, and one for the rest
}

// LatenessBounds are the upper bounds of the buckets of Lateness.Within.
var LatenessBounds = []int64{10, 100, 1000, 5000, 10_000, 30_000, 60_000}

// OK reports whether there are no violations.
func (r *Report) OK() bool { return r.Total() == 0 }

// Total returns the number of violations, including those beyond the limit.
func (r *Report) Total() (n int64) {
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// entryLine is a line of a timeline.
type entryLine struct {
	at   int64
	rank topicKind
	text string
}

// A timeline shows this many lines before and after the violating record.
const (
	linesBefore = 50
	linesBehind = 20
)

func (t *life) timeline() []string {
	var lines []entryLine
	add := func(at int64, kind topicKind, format string, args ...any) {
		lines = append(lines, entryLine{at, kind, fmt.Sprintf(format, args...)})
	}
	for _, c := range append(append([]*command{}, t.commands...), t.strays...) {
		add(c.append, kindCommands, "command  %s %s", c.at, c.describe())
	}
	for i := range t.receipts {
		r := &t.receipts[i]
		add(r.append, kindReceipts, "receipt  %s %s attempt %d", r.at, r.outcome, r.attempt)
	}
	for i := range t.events {
		add(t.events[i].append, kindEvents, "event    %s %s", t.events[i].at, t.events[i].describe())
	}
	for i := range t.dues {
		d := &t.dues[i]
		add(d.append, kindDue, "due      %s/%s %s attempt %d, nominal %s, emitted %s, basis %d.%d.%d", d.topic, d.at,
			d.id, d.attempt,
			spell(d.scheduled), spell(d.fired), d.basis.term, d.basis.turn, d.basis.commands)
	}
	for i := range t.dead {
		add(t.dead[i].append, kindDeadLetter, "dead     %s %s attempt %d %s", t.dead[i].at, t.dead[i].id,
			t.dead[i].attempt, t.dead[i].code)
	}
	for i := range t.refused {
		add(t.refused[i].append, kindRejected, "rejected %s %s of %s", t.refused[i].at, t.refused[i].code,
			t.refused[i].source)
	}
	sort.SliceStable(lines, func(i, j int) bool {
		if lines[i].at != lines[j].at {
			return lines[i].at < lines[j].at
		}
		return lines[i].rank < lines[j].rank
	})
	here := len(lines)
	if t.now != 0 {
		here = sort.Search(len(lines), func(i int) bool { return lines[i].at > t.now })
	}
	from, to := max(0, here-linesBefore), min(len(lines), here+linesBehind)
	var out []string
	if from > 0 {
		out = append(out, fmt.Sprintf("… %d before …", from))
	}
	for _, l := range lines[from:to] {
		out = append(out, time.UnixMilli(l.at).UTC().Format("2006-01-02 15:04:05.000")+"  "+l.text)
	}
	if to < len(lines) {
		out = append(out, fmt.Sprintf("… %d behind …", len(lines)-to))
	}
	return out
}

func (c *command) describe() string {
	s := c.op
	if c.fault != "" {
		return s + " (" + c.fault + ": " + c.hint + ")"
	}
	switch c.when.kind {
	case whenDelay:
		s += " delay " + c.when.delayText
	case whenInstant, whenLocal:
		s += " fire_at " + c.when.fireAt
	case whenSeries:
		s += " " + c.when.recurrence.text
		if c.when.start != "" {
			s += " from " + c.when.start
		}
	}
	if c.when.zone != "" {
		s += " in " + c.when.zone
	}
	if c.claims {
		s += ", first at " + c.first.String()
	}
	return s
}

func (e *event) describe() string {
	s := fmt.Sprintf("%s seq %d revision %d", e.kind, e.seq, e.revision)
	if e.state != "" {
		s += " " + e.state
	}
	if e.occurrence != "" {
		s += " " + e.occurrence
	}
	if e.scheduled != 0 {
		s += " for " + spell(e.scheduled)
	}
	if e.attempt > 1 {
		s += fmt.Sprintf(" attempt %d", e.attempt)
	}
	if e.count > 0 {
		s += fmt.Sprintf(" count %d, %s to %s", e.count, spell(e.first), spell(e.last))
	}
	if e.reason != "" {
		s += " (" + e.reason + ")"
	}
	if e.source != "" {
		s += " by " + e.source
	}
	return s
}
