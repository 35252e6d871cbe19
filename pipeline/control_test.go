package pipeline_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A calendar that is edited moves the triggers that name it, and only those.
func TestCalendarEdit(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 4})
	n := w.Start("a")
	w.AwaitOwners()
	rejected, events := w.Tail(w.Names.Rejected()), w.Tail(w.Names.Events())
	register := `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00","timezone":"Europe/Berlin","calendars":{"names":["holidays"],"on":"skip"}}`
	w.Send("early", register)
	if got := pipelinetest.Header(rejected.Next(), "wc-error-field"); got != "calendars" {
		t.Errorf("an unknown calendar is refused in field %q, want calendars", got)
	}
	w.Setting(topics.EncodeCalendar(topics.Calendar{Name: "holidays", Dates: []string{"2030-05-02"}}))
	w.Eventually("the calendar is known", applied(n, 1)) // every partition follows control on its own
	w.Send("fixed", `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00","timezone":"Europe/Berlin"}`)
	w.Send("rent", register)
	if e := events.Event("rent", trigger.Registered); e.ScheduledAt != "2030-05-01T07:00:00.000Z" {
		t.Fatalf("planned for %s", e.ScheduledAt)
	}
	w.Setting(topics.EncodeCalendar(topics.Calendar{Name: "holidays", Dates: []string{"2030-05-01", "2030-05-02"}}))
	moved := events.Event("rent", trigger.Rescheduled)
	if moved.ScheduledAt != "2030-05-03T07:00:00.000Z" || moved.PreviousScheduled != "2030-05-01T07:00:00.000Z" ||
		moved.Reason != "calendar holidays" {
		b, _ := json.Marshal(moved)
		t.Errorf("rescheduled: %s", b)
	}
	if s, err := n.Get(w.Context(), "fixed"); err != nil || s.Revision != 1 || s.Seq != 1 {
		t.Errorf("a trigger without calendars changed: %+v, %v", s, err)
	}
}

// applied says whether every partition has applied control up to an offset.
func applied(n *pipelinetest.Node, offset int64) func() bool {
	return func() bool {
		for _, s := range n.Partitions() {
			if s.ControlOffset < offset || s.Replanning {
				return false
			}
		}
		return true
	}
}

// A tz release moves exactly the triggers of zones whose rules differ: 2023c
// to 2025c, Almaty lost an hour in March 2024 and New York did not.
func TestTZUpdate(t *testing.T) {
	old, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 4})
	n := w.Start("a")
	w.AwaitOwners()
	w.Release("2023c", old)
	w.Eventually("2023c is in force", applied(n, 1))
	for _, zone := range []string{"Asia/Almaty", "America/New_York"} {
		w.Send(zone[len(zone)-4:], fmt.Sprintf(`{"op":"register","fire_at":"2030-05-01T09:00","timezone":%q}`, zone))
	}
	for _, key := range []string{"maty", "York"} {
		if e := w.Tail(w.Names.Events()).Event(key, trigger.Registered); e.TZData != "2023c" {
			t.Fatalf("%s resolved with %s", key, e.TZData)
		}
	}
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	w.Setting([]byte(topics.ControlTZData), nil, nil) // back to the binary's own, while nobody runs
	n = w.Start("a")
	e := w.Tail(w.Names.Events()).Event("maty", trigger.Rescheduled)
	if e.PreviousScheduled != "2030-05-01T03:00:00.000Z" || e.ScheduledAt != "2030-05-01T04:00:00.000Z" ||
		e.PreviousTZData != "2023c" || e.TZData != "2025c" {
		b, _ := json.Marshal(e)
		t.Errorf("rescheduled: %s", b)
	}
	w.AwaitOwners()
	if s, err := n.Get(w.Context(), "York"); err != nil || s.Seq != 1 {
		t.Errorf("New York moved: %+v, %v", s, err)
	}
}

// A release is in force in every partition or in none, whichever zones its
// triggers use. What it lacks a zone of is paused once it cannot be planned.
func TestTZReleaseWithoutAZoneInUse(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 4})
	n := w.Start("a")
	w.AwaitOwners()
	events := w.Tail(w.Names.Events())
	w.Send("uses", `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00","timezone":"Europe/Berlin"}`)
	events.Event("uses", trigger.Registered)
	w.Release("2099a", without(t, "Europe/Berlin"))
	w.Eventually("2099a is applied", applied(n, 1))
	for i := range 16 {
		key := fmt.Sprint("later-", i)
		w.Send(key, `{"op":"register","fire_at":"2030-05-01T09:00","timezone":"Asia/Tokyo"}`)
		if e := w.Tail(w.Names.Events()).Event(key, trigger.Registered); e.TZData != "2099a" {
			t.Errorf("partition %d resolves with %s, want 2099a", topics.Partition([]byte(key), 4), e.TZData)
		}
	}
	if s, err := n.Get(w.Context(), "uses"); err != nil || s.Seq != 1 {
		t.Errorf("what is planned stays planned: %+v, %v", s, err)
	}
}

// without is the embedded release without a zone.
func without(t *testing.T, zone string) []byte {
	t.Helper()
	blob := calendar.EmbeddedZip()
	in, err := zip.NewReader(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		if f.Name == zone {
			continue
		}
		if err := w.Copy(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestSettingsAreReadOnce: the partitions of a process read topic control once between
// them, and one that comes back later reads what is new.
func TestSettingsAreReadOnce(t *testing.T) {
	old, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 8})
	w.Release("2023c", old)
	control, id := w.Names.Control(), w.Cluster.TopicInfo(w.Names.Control()).TopicID
	var whole, parts atomic.Int32
	w.Cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		w.Cluster.KeepControl()
		for _, rt := range r.(*kmsg.FetchRequest).Topics {
			for _, rp := range rt.Partitions {
				if (rt.Topic == control || rt.TopicID == id) && rp.FetchOffset == 0 {
					whole.Add(1)
				} else if rt.Topic == control || rt.TopicID == id {
					parts.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	a := w.Start("a")
	w.AwaitOwners()
	if n := whole.Load(); n != 1 {
		t.Errorf("8 partitions read the settings %d times from the beginning", n)
	}
	w.Start("b")
	w.AwaitOwners()
	w.Setting(topics.EncodeCalendar(topics.Calendar{Name: "holidays", Dates: []string{"2030-05-01"}}))
	w.Eventually("the calendar is known", applied(a, 2))
	if err := w.Stop("b"); err != nil {
		t.Fatal(err)
	}
	w.AwaitOwners()
	if n := whole.Load(); n > 2 { // b's
		t.Errorf("the settings were read %d times from the beginning", n)
	}
	if parts.Load() == 0 {
		t.Error("nobody read what is new")
	}
	w.SendAll(40, func(i int) (string, string) {
		return fmt.Sprint("t", i), `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00",` +
			`"timezone":"Asia/Almaty","calendars":{"names":["holidays"],"on":"skip"}}`
	})
	events := w.Tail(w.Names.Events())
	for range 40 { // Almaty was at +06:00 before 2024
		e, err := topics.DecodeEvent(events.Next().Value)
		if err != nil {
			t.Fatal(err)
		}
		if e.TZData != "2023c" || e.ScheduledAt != "2030-05-02T03:00:00.000Z" {
			t.Errorf("%s: planned for %s by %s", e.Trigger, e.ScheduledAt, e.TZData)
		}
	}
}
