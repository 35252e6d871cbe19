package pipeline

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// newControl makes the reading of a partition that has an empty store, and the log that it
// writes.
func newControl(t *testing.T) (*control, *bytes.Buffer) {
	st := memStore(t)
	log := &bytes.Buffer{}
	o := &Process{Options: Options{}.withDefaults(), reading: make(chan struct{}, 1)}
	o.Machine.Timetable = &trigger.Timetable{Zones: calendar.Embedded()}
	return &control{
		opts: o, log: slog.New(slog.NewTextHandler(log, nil)), store: st, timetable: o.Machine.Timetable.Fork(),
	}, log
}

// holidays is a setting that names one day.
func holidays(t *testing.T, offset int64, name, day string) *kgo.Record {
	key, value, err := topics.EncodeCalendar(topics.Calendar{Name: name, Dates: []string{day}})
	if err != nil {
		t.Fatal(err)
	}
	return &kgo.Record{Topic: "w.control", Offset: offset, Key: key, Value: value}
}

// TestApplySetting: a setting is in force at once, and a replan walks what it concerns. A second
// one on the way makes the walk go over all triggers.
func TestApplySetting(t *testing.T) {
	c, _ := newControl(t)
	before := c.timetable
	work := c.apply(holidays(t, 7, "bank", "2030-05-01"), nil)
	if work == nil || work.next != 8 || work.name != "bank" || work.reason != "calendar bank" {
		t.Fatalf("the replan is %+v", work)
	}
	if c.timetable.Calendars["bank"] == nil || before.Calendars["bank"] != nil {
		t.Errorf("the calendar is not in force, or in the old timetable too")
	}
	if c.opts.Timetable().Calendars["bank"] == nil {
		t.Error("readers do not see the calendar")
	}
	work = c.apply(holidays(t, 8, "school", "2030-07-01"), work)
	if work.next != 9 || work.name != "" || work.zones != nil || work.reason != "settings" {
		t.Errorf("the second replan is %+v", work)
	}
}

// TestApplyUnusableSetting: the old settings stay, and so does the replan under way.
func TestApplyUnusableSetting(t *testing.T) {
	c, log := newControl(t)
	before, under := c.timetable, &replan{next: 3}
	for _, r := range []*kgo.Record{
		{Topic: "w.control", Offset: 9, Key: []byte("no such setting"), Value: []byte("x")},
		{Topic: "w.control", Offset: 10, Key: []byte(topics.ControlTZData), Value: []byte("not a release")},
	} {
		if got := c.apply(r, under); got != under || c.timetable != before {
			t.Errorf("%q: the replan is %+v", r.Key, got)
		}
	}
	if n := strings.Count(log.String(), "the old one stays"); n != 2 {
		t.Errorf("%d warnings:\n%s", n, log)
	}
}

// TestOpenReadsOn: the second partition of a process reads on where the first ended, and has the
// same settings. A topic that was made anew is read from its start.
func TestOpenReadsOn(t *testing.T) {
	first, _ := newControl(t)
	second := *first
	var from []int64
	read := func(_ context.Context, _ string, _ int32, at, to int64, f func(*kgo.Record)) error {
		from = append(from, at)
		if at < 5 && at < to {
			f(holidays(t, 4, "bank", "2030-05-01"))
		}
		return nil
	}
	for _, c := range []*control{first, &second} {
		last, err := c.open(t.Context(), [16]byte{1}, 2, 5, read)
		if err != nil || last != 4 || c.timetable.Calendars["bank"] == nil {
			t.Errorf("the last setting is at %d, %v", last, err)
		}
	}
	second.timetable = second.opts.Machine.Timetable.Fork()
	last, err := second.open(t.Context(), [16]byte{2}, 0, 0, read)
	if err != nil || last != -1 || second.timetable.Calendars["bank"] != nil {
		t.Errorf("of the topic made anew: the last setting is at %d, %v", last, err)
	}
	if want := []int64{2, 5, 0}; !slices.Equal(from, want) {
		t.Errorf("read from %v, want %v", from, want)
	}
}

// TestReleaseWithoutAZone: the release is in force although triggers use a zone that it lacks,
// and the log names the zone.
func TestReleaseWithoutAZone(t *testing.T) {
	c, log := newControl(t)
	s := &trigger.State{Key: "k", Status: trigger.Pending, Revision: 1}
	s.Spec.When.Zone = "Mars/Olympus"
	s.Series.At, s.Series.Occurrence = 2000, "1970-01-01T00:00:02Z"
	value, err := topics.AppendStateAs(nil, s, topics.FormatOf(s))
	if err != nil {
		t.Fatal(err)
	}
	b := c.store.NewBatch()
	b.Put(nil, recovery.Row(s, s.Timers(nil), value))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	zip, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	key, value, headers, err := topics.EncodeTZData(topics.TZData{Label: "2023c", Zip: zip})
	if err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: "w.control", Key: key, Value: value, Headers: kafkarec.Headers(headers)}
	work := c.apply(r, nil)
	if work == nil || c.timetable.Zones.Release() != "2023c" || work.left != nil {
		t.Fatalf("the release is not in force, or not all triggers are walked: %+v", work)
	}
	c.opts.Machine.Timetable = &trigger.Timetable{}
	work = c.apply(&kgo.Record{Topic: "w.control", Key: key}, nil)
	if work == nil || !slices.Contains(work.left, "Asia/Almaty") || slices.Contains(work.left, "Europe/Berlin") {
		t.Fatalf("the next one walks other zones than those that differ: %+v", work)
	}
	if !strings.Contains(log.String(), "Mars/Olympus") {
		t.Errorf("the log does not name the zone:\n%s", log)
	}
}
