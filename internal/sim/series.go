package sim

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Series is the time part of a register in the contract's JSON: the input of preview and of the
// engine.
type Series struct {
	Recurrence string     `json:"recurrence,omitempty"`
	Start      string     `json:"start,omitempty"`
	Timezone   string     `json:"timezone,omitempty"`
	Until      string     `json:"until,omitempty"`
	Count      int        `json:"count,omitempty"`
	Include    []string   `json:"include,omitempty"`
	Exclude    []string   `json:"exclude,omitempty"`
	DST        *DST       `json:"dst,omitempty"`
	Calendars  *Calendars `json:"calendars,omitempty"`

	Jitter time.Duration `json:"-"` // preview shows nominal times
}

// DST is the contract's field dst.
type DST struct {
	Gap     string `json:"gap,omitempty"`
	Overlap string `json:"overlap,omitempty"`
}

// Calendars is the contract's field calendars.
type Calendars struct {
	Names []string `json:"names"`
	On    string   `json:"on"`
}

// promise is a series and what preview returned for it before it began.
type promise struct {
	Series
	want []calendar.PreviewOccurrence
	all  bool // want is the whole series, to its end
}

// RegisterSeries asks preview for the occurrences of a series, then registers it.
func (w *World) RegisterSeries(key string, s Series) {
	w.T.Helper()
	now := time.Now().UTC().Truncate(time.Millisecond)
	p, err := w.preview(s, now)
	if err != nil {
		w.T.Fatalf("preview of %s (%+v): %v", key, s, err)
	}
	w.Send(key, w.registerOf(key, s))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.series[key] = p
}

func (w *World) preview(s Series, now time.Time) (*promise, error) {
	var body map[string]any
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(b, &body)
	}
	if err != nil {
		return nil, err
	}
	body["after"], body["n"] = now.Format(time.RFC3339Nano), w.Previewed
	if s.Start != "" { // an occurrence at the start counts, unless it is before the register
		body["after"] = now.Add(-time.Millisecond).Format(time.RFC3339Nano)
	}
	if b, err = json.Marshal(body); err != nil {
		return nil, err
	}
	resp, refusal := calendar.PreviewWith(calendar.Embedded(), w.calendar, b, now.UnixMilli())
	if refusal != nil {
		return nil, refusal
	}
	return &promise{Series: s, want: resp.Occurrences, all: len(resp.Occurrences) < w.Previewed}, nil
}

func (w *World) registerOf(key string, s Series) string {
	b, err := json.Marshal(struct {
		Op      string `json:"op"`
		Misfire string `json:"misfire"`
		Jitter  string `json:"jitter,omitempty"`
		Payload string `json:"payload"`
		Series
	}{"register", trigger.FireAll.String(), spellJitter(s.Jitter), key, s})
	if err != nil {
		w.T.Fatalf("register %s: %v", key, err)
	}
	return string(b)
}

func spellJitter(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// PutCalendar writes a named calendar to topic control.
func (w *World) PutCalendar(name string, dates []string) {
	w.T.Helper()
	set, err := calendar.NewDateSet(dates)
	if err != nil {
		w.T.Fatalf("calendar %s: %v", name, err)
	}
	w.Setting(topics.EncodeCalendar(topics.Calendar{Name: name, Dates: dates}))
	w.calendars[name] = set
}

func (w *World) calendar(name string) (calendar.DateSet, bool) {
	set, ok := w.calendars[name]
	return set, ok
}

// promises compares every series with what preview returned: the same occurrences, local times
// and instants, in that order, and nothing else (C6).
func (c *audit) promises(fired map[string][]*kgo.Record) {
	for key, p := range c.w.series {
		for _, v := range p.broken(key, fired[key], time.Now(), c.w.Epsilon) {
			c.violation("%s", v)
		}
	}
}

// broken reports where what fired differs from what was promised until now.
func (p *promise) broken(key string, fired []*kgo.Record, now time.Time, eps time.Duration) (found []string) {
	say := func(format string, args ...any) {
		found = append(found, fmt.Sprintf("series %s (%s %s): ", key, p.Recurrence, p.Timezone)+fmt.Sprintf(format,
			args...))
	}
	due := 0
	for due < len(p.want) && instant(p.want[due].At).Add(p.Jitter).Before(now.Add(-time.Minute)) {
		due++
	}
	if len(fired) < due {
		say("fired %d times, preview has %d until now", len(fired), due)
	}
	for i, r := range fired {
		if i >= len(p.want) {
			say("fired %s after its end", pipelinetest.Header(r, "ce_time"))
			return found
		}
		if got, want := named(r), p.want[i]; got.At != canonical(want.At) || !sameWall(got.Local, want.Local) {
			say("number %d is %s %s, preview has %s %s", i+1, got.At, got.Local, want.At, want.Local)
			return found
		}
		if early := p.earliest(key, i, r).Sub(r.Timestamp); early > eps {
			say("number %d fired %v early", i+1, early)
		}
	}
	return found
}

// earliest returns the earliest time of an occurrence: its nominal time plus its jitter.
func (p *promise) earliest(key string, i int, r *kgo.Record) time.Time {
	id := pipelinetest.Header(r, "ce_id")
	id = id[len(key)+1 : len(id)-len("#0")]
	return instant(p.want[i].At).Add(calendar.Jitter(key, id, p.Jitter).Truncate(time.Millisecond))
}

// named returns the occurrence that a due event names.
func named(r *kgo.Record) calendar.PreviewOccurrence {
	return calendar.PreviewOccurrence{
		At:    pipelinetest.Header(r, "ce_time"),
		Local: pipelinetest.Header(r, "ce_wclocaltime"),
	}
}

func instant(s string) time.Time {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		panic(err)
	}
	return t
}

// canonical formats an instant as due events do.
func canonical(at string) string { return instant(at).UTC().Format("2006-01-02T15:04:05.000Z") }

// sameWall compares the local times of a due event, 2026-03-08T03:30:00[zone], and of a preview,
// 2026-03-08T03:30:00-04:00. Rules of elapsed time have none.
func sameWall(event, preview string) bool {
	const wall = len("2006-01-02T15:04:05")
	return event == "" || (len(event) > wall && len(preview) > wall && event[:wall] == preview[:wall])
}

// CheckUpcoming compares the next occurrences of a series, as its owner lists them, with preview.
// They must be the same on every node and after every restart.
func (w *World) CheckUpcoming(key string, n int) {
	w.T.Helper()
	p := w.series[key]
	owner := w.Owner(w.Home(key))
	if owner == nil {
		w.T.Errorf("nobody owns %s", key)
		return
	}
	s, err := owner.Get(w.Context(), trigger.Key(key))
	if err != nil {
		w.T.Errorf("get %s: %v", key, err)
		return
	}
	var next []trigger.Planned
	if s != nil {
		next = owner.Timetable().Upcoming(s, n, 0)
	}
	i := 0
	for i < len(p.want) && (len(next) == 0 || instant(p.want[i].At).UnixMilli() < int64(next[0].Nominal)) {
		i++
	}
	if left := len(p.want) - i; len(next) < min(n, left) {
		w.T.Errorf("%s: %d upcoming, preview has %d", key, len(next), left)
	}
	for j, o := range next {
		if i+j >= len(p.want) || o.Nominal.String() != canonical(p.want[i+j].At) ||
			!sameWall(o.Local, p.want[i+j].Local) {
			w.T.Errorf("%s (%s %s): upcoming %v is %v %s, not as in preview", key, p.Recurrence, p.Timezone, j,
				o.Nominal, o.Local)
			return
		}
	}
}

// Misfires returns the runs of missed occurrences that events report for a trigger.
func (w *World) Misfires(key string) (runs []topics.Event) {
	w.T.Helper()
	if w.misfires == nil {
		w.misfires = map[string][]topics.Event{}
		for _, r := range w.Dump(w.Names.Events()) {
			e, err := topics.DecodeEvent(r.Value)
			if err != nil {
				w.T.Fatalf("event at %d/%d: %v", r.Partition, r.Offset, err)
			}
			if e.Type == string(trigger.Misfired) {
				w.misfires[e.Trigger] = append(w.misfires[e.Trigger], e)
			}
		}
	}
	return w.misfires[key]
}
