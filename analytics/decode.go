package analytics

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// fact is an event with what a newer engine may have put into it.
type fact struct {
	topics.Event

	Unknown jsontext.Value `json:",embed"`
}

// decoder makes rows. It is not safe for concurrent use.
type decoder struct {
	hide     *hider
	instants instants
}

// lenient: a payload is the user's JSON, in which a name may stand twice.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// row fills a row. A record that is no event has a row, too, so that rows and records can
// be counted against each other: its type is null, and extra has its size and digest.
func (d *decoder) row(r *kgo.Record, out *Row) {
	*out = Row{Partition: r.Partition, Offset: r.Offset, Appended: r.Timestamp.UnixMilli()}
	f, err := readFact(r.Value)
	if err == nil {
		err = d.fill(&f, out)
	}
	if err != nil {
		sum := sha256.Sum256(r.Value)
		*out = Row{
			Partition: r.Partition, Offset: r.Offset, Appended: r.Timestamp.UnixMilli(),
			Extra: fmt.Sprintf(`{"not_an_event":{"bytes":%d,"sha256":"%s"}}`, len(r.Value), hex.EncodeToString(sum[:])),
		}
	}
}

// mostShared bounds values that the fast reader reads. Its texts share one copy of the value, payload included, which
// waits in memory with the rows of a batch.
const mostShared = 16 << 10

// readFact uses the fast reader where it can. That one reads no event with an unknown field, so the library finds
// these.
func readFact(value []byte) (f fact, err error) {
	if len(value) <= mostShared && topics.ReadEvent(value, &f.Event) {
		return f, nil
	}
	f = fact{}
	return f, json.Unmarshal(value, &f, lenient)
}

// fill makes a row of an event. An error means that it is none.
func (d *decoder) fill(f *fact, out *Row) error {
	e := &f.Event
	if err := e.Check(); err != nil {
		return err
	}
	out.EventID, out.Type, out.Trigger, out.Tenant = e.EventID, e.Type, e.Trigger, e.Tenant
	out.Revision, out.Seq, out.EventUS = e.Revision, e.Seq, e.EventUS
	out.Occurrence, out.LocalTime, out.Timezone = e.Occurrence, e.LocalTime, e.Timezone
	out.TZData, out.PreviousTZ, out.Channel = e.TZData, e.PreviousTZData, e.Channel
	out.State, out.PreviousState, out.LatenessMS = e.State, e.PreviousState, e.LatenessMS
	out.Reason, out.Detail, out.Actor, out.Source = e.Reason, e.Detail, e.Actor, e.Source
	out.DueTopic, out.DuePartition, out.CorrelationID = e.DueTopic, e.DuePartition, e.CorrelationID
	out.Truncated, out.Rule = strings.Join(e.Truncated, ","), string(f.Rule)
	out.UserID, out.Tags = d.hide.user(e.UserID), d.hide.tags(e.Tags)
	if len(f.Unknown) > 0 {
		out.Extra = string(f.Unknown)
	}
	// Check has refused what has more than 32 bits.
	out.Version, out.Attempt, out.Count = int32(e.Version), int32(e.Attempt), int32(e.Count) //nolint:gosec // see above
	if e.Step != nil {
		out.Step = pointerTo(*e.Step)
	}
	return d.times(f, out)
}

// steps are the numbers that nearly all events have. They are never changed.
var steps = [...]int32{0, 1, 2, 3, 4, 5, 6, 7}

func pointerTo(step int) *int32 {
	if 0 <= step && step < len(steps) {
		return &steps[step]
	}
	n := int32(step) //nolint:gosec // Check has refused what has more than 32 bits
	return &n
}

func (d *decoder) times(f *fact, out *Row) error {
	for _, c := range [...]struct {
		text string
		into *int64
	}{
		{f.OccurredAt, &out.OccurredAt},
		{f.ScheduledAt, &out.ScheduledAt},
		{f.NextAt, &out.NextAt},
		{f.EffectiveAt, &out.EffectiveAt},
		{f.FirstFired, &out.FirstFired},
		{f.PreviousScheduled, &out.Previous},
		{f.First, &out.First},
		{f.Last, &out.Last},
	} {
		if c.text == "" {
			continue
		}
		var err error
		if *c.into, err = d.instants.parse(c.text); err != nil {
			return err
		}
	}
	return nil
}

// instants reads instants. It remembers the last day, because most are of one.
type instants struct {
	day      string // 2006-01-02T
	midnight int64
}

// parse reads RFC 3339, rounded down to milliseconds.
func (d *instants) parse(text string) (ms int64, err error) {
	tod, plain := timeOfDay(text)
	if plain && d.day != "" && strings.HasPrefix(text, d.day) {
		return d.midnight + tod, nil
	}
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0, err
	}
	if plain {
		d.day, d.midnight = text[:len("2006-01-02T")], t.UnixMilli()-tod
	}
	return t.UnixMilli(), nil
}

// timeOfDay reads the time of an instant in the form that engines write: 2006-01-02T15:04:05.000Z.
func timeOfDay(text string) (ms int64, ok bool) {
	const form = "2006-01-02T15:04:05.000Z"
	if len(text) != len(form) {
		return 0, false
	}
	for i := len("2006-01-02"); i < len(form); i++ {
		if c := text[i]; form[i] < '0' || form[i] > '9' { // T, Z and what stands between
			ok = c == form[i]
		} else {
			ok = '0' <= c && c <= '9'
		}
		if !ok {
			return 0, false
		}
	}
	two := func(i int) int64 { return int64(text[i]-'0')*10 + int64(text[i+1]-'0') }
	hour, minute, second := two(11), two(14), two(17)
	return ((hour*60+minute)*60+second)*1000 + two(20)*10 + int64(text[22]-'0'), hour < 24 && minute < 60 && second < 60
}

// fields counts the members of an object.
func fields(object jsontext.Value) (n int) {
	var all map[string]jsontext.Value
	if json.Unmarshal(object, &all, lenient) != nil {
		return 1
	}
	return len(all)
}

// day is the UTC day of an event, in days since 1970.
func day(eventUS int64) int64 { return eventUS / (24 * 60 * 60 * 1_000_000) }

// dayName is a day as the directories have it.
func dayName(day int64) string { return time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly) }
