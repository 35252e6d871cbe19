package embedded

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

var (
	goldenState = sinks.StateRow{
		State:  sinks.Cell[string]{US: 2000, Until: 70, V: "FIRED"},
		Type:   sinks.Cell[string]{US: 2000, Until: 70, V: "occurrence.fired"},
		Reason: sinks.Cell[string]{US: 2000, Until: 70}, Revision: sinks.Cell[int64]{US: 2000, Until: 70, V: 3},
		Seq:         sinks.Cell[int64]{US: 2000, Until: 70, V: 9},
		ScheduledAt: sinks.Cell[trigger.Instant]{US: 1000, Until: 60, V: 1_700_000_000_000},
		UserID:      sinks.Cell[string]{US: 1000, Until: 60, V: "ann"},
		Attempt:     sinks.Cell[int64]{US: 2000, Until: 70, V: -1},
		Tags:        sinks.Cell[map[string]string]{US: 1000, Until: 60, V: map[string]string{"b": "2", "a": "1"}},
		ErasedUS:    sinks.Cell[int64]{US: 500, Until: 50, V: 500},
		Eras: map[int]sinks.Cell[bool]{
			202611: {US: 2000, Until: 70, V: true},
			202610: {US: 1000, Until: 60, V: true},
		},
	}
	goldenMinute = sinks.MinuteRow{
		State:   sinks.Cell[string]{US: 2000, Until: 70, V: "FIRED"},
		Channel: sinks.Cell[string]{US: 1000, Until: 60, V: "push"},
		FiredUS: sinks.Cell[int64]{US: 2000, Until: 70, V: 2000},
	}
)

// TestGoldenRows pins the bytes of formats 2 and 3.
func TestGoldenRows(t *testing.T) {
	for _, c := range []struct {
		name, want string
		row, empty any
	}{
		{"state", goldenStateHex, &goldenState, new(sinks.StateRow)},
		{"minute", goldenMinuteHex, &goldenMinute, new(sinks.MinuteRow)},
		{"notification", hex.EncodeToString([]byte(goldenNotification)), &sinks.NotificationRow{
			User:      sinks.Cell[string]{US: 1000, Until: 60, V: "ann"},
			CreatedAt: sinks.Cell[trigger.Instant]{US: 2000, Until: 60, V: 1},
			Type:      sinks.Cell[string]{US: 1000, Until: 60},
			AckedAt:   sinks.Cell[trigger.Instant]{US: 2000, Until: 60, V: 2},
			Channels: map[string]sinks.Cell[string]{
				"sms": {US: 2000, Until: 60, V: "SENT"}, "push": {US: 1000, Until: 60, V: "FAILED"},
			},
		}, new(sinks.NotificationRow)},
		{"content", hex.EncodeToString([]byte(goldenContent)), &sinks.ContentRow{
			US: 1000, Created: 1, Content: topics.NotificationContent{
				Title: "Take pills", TemplateData: jsontext.Value(`{"a":1,"a":2}`),
			},
		}, new(sinks.ContentRow)},
		{"nothing said", "02", &sinks.MinuteRow{}, new(sinks.MinuteRow)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := hex.EncodeToString(encodeRow(c.row)); got != c.want {
				t.Errorf("encodes as %s\nwant %s", got, c.want)
			}
			b, err := hex.DecodeString(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if err := decodeRow(b, c.empty); err != nil || !reflect.DeepEqual(c.empty, c.row) {
				t.Errorf("decodes as %+v, %v", c.empty, err)
			}
		})
	}
}

const (
	goldenNotification = `{"u":{"u":1000,"e":60,"v":"ann"},"c":{"u":2000,"e":60,"v":1},` +
		`"t":{"u":1000,"e":60,"v":""},"a":{"u":2000,"e":60,"v":2},` +
		`"s":{"push":{"u":1000,"e":60,"v":"FAILED"},"sms":{"u":2000,"e":60,"v":"SENT"}}}`
	goldenContent = `{"u":1000,"c":{"title":"Take pills","template_data":{"a":1,"a":2}},"t":1}`

	goldenStateHex = "02" +
		"a01f8c01bdc004" + "054649524544" + "106f6363757272656e63652e6669726564" + "00" + "06" + "12" + "01" +
		"01f3ae0c" +
		"d00f78c09005" + "80a0abfef962" + "03616e6e" + "020161013101620132" + "01f2ae0c" +
		"e80764808002" + "e807"
	goldenMinuteHex = "02" + "a01f8c0111" + "054649524544" + "a01f" + "d00f7804" + "0470757368"
)

// TestFormat1 opens a directory of format 1, with rows in sorted files and in the log, and with
// an erased trigger.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/format1")); err != nil {
		t.Fatal(err)
	}
	open := func() *Store {
		return openTest(t, Options{Dir: dir, SweepEvery: -1, Now: func() time.Time { return start }})
	}
	s := open()
	ctx, due := context.Background(), start.Add(time.Hour)
	if p, err := s.Progress(ctx); err != nil || p[1] != (sinks.Progress{Next: 4, EventUS: start.UnixMicro() + 3}) {
		t.Fatalf("progress %v, %v", p, err)
	}
	late := sinks.EventRecord{Partition: 1, Offset: 1} // a replay of the trigger's state before it was erased
	late.Event = topics.Event{
		Type: "trigger.registered", Trigger: "erased", Tenant: "default", Seq: 2, State: "PENDING",
		EventUS:     start.UnixMicro() + 1,
		ScheduledAt: trigger.At(due).String(), UserID: "ann", Payload: []byte(`{"x":1}`),
	}
	late.Raw = []byte(`{"type":"trigger.registered","user_id":"ann"}`)
	fired := sinks.EventRecord{Partition: 1, Offset: 4}
	fired.Event = topics.Event{
		Type: "occurrence.fired", Trigger: "kept", Tenant: "default", Seq: 3, State: "FIRED", PreviousState: "PENDING",
		EventUS: start.UnixMicro() + 4, ScheduledAt: trigger.At(due).String(),
	}
	apply(t, s, late, fired)
	for range 2 { // once merged by a reader, and once by a compaction
		kept, ok, err := s.Trigger(ctx, "default", "kept")
		if err != nil || !ok || kept.State != "FIRED" || kept.UserID != "ann" || len(kept.Tags) != 2 ||
			kept.Channel != "push" {
			t.Errorf("kept: %+v, %v, %v", kept, ok, err)
		}
		erased, ok, err := s.Trigger(ctx, "default", "erased")
		if err != nil || !ok || erased.State != "ERASED" || erased.UserID != "" || erased.Tags != nil ||
			erased.ErasedUS != start.UnixMicro()+2 {
			t.Errorf("erased: %+v, %v, %v", erased, ok, err)
		}
		page, err := s.Events(ctx, sinks.EventQuery{Tenant: "default", Trigger: "erased"})
		if err != nil || len(page.Events) != 2 || page.Events[0].UserID != "" || page.Events[0].Payload != nil {
			t.Errorf("events of erased: %+v, %v", page.Events, err)
		}
		minutes, err := s.ByMinute(ctx, sinks.MinuteQuery{Minute: sinks.MinuteOf(trigger.At(due))})
		if err != nil || fmt.Sprint(statesOf(minutes.Entries)) != "map[erased:PENDING kept:FIRED moved:PENDING]" {
			t.Errorf("minute: %+v, %v", minutes.Entries, err)
		}
		for _, e := range minutes.Entries {
			if e.Trigger == "erased" && e.UserID != "" {
				t.Errorf("the minute knows %q of the erased trigger", e.UserID)
			}
		}
		if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open()
	}
}

func statesOf(entries []sinks.MinuteEntry) map[string]string {
	states := map[string]string{}
	for _, e := range entries {
		states[e.Trigger] = e.State
	}
	return states
}

// Rows that the store merges equal those of their own Merge, however the updates were spread over
// log, sorted files and compactions.
func TestMergeInStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := newRand(seed)
	s := openTest(t, Options{Dir: t.TempDir(), SweepEvery: -1, Now: func() time.Time { return start }})
	types := []trigger.FactType{
		trigger.Registered, trigger.Rescheduled, trigger.CancelledFact, trigger.OccurrenceFired,
		trigger.ErasedFact, trigger.Duplicate,
	}
	want := map[string]*sinks.StateRow{}
	for n := range 600 {
		key, at := fmt.Sprintf("k%d", rng.IntN(5)), start.Add(-time.Duration(rng.IntN(90*24))*time.Hour).
			Add(time.Duration(n))
		e := topics.Event{
			Type: string(types[rng.IntN(len(types))]), Trigger: key, Tenant: "t", Seq: int64(n), State: "PENDING",
			EventUS:     at.UnixMicro() + int64(n),
			ScheduledAt: trigger.At(start.Add(time.Duration(rng.IntN(5)) * time.Minute)).String(),
		}
		if rng.IntN(2) == 0 {
			e.UserID, e.Tags = fmt.Sprint(n), map[string]string{"n": fmt.Sprint(n)}
		}
		apply(t, s, sinks.EventRecord{Event: e, Offset: int64(n)})
		said := sinks.StateOf(&e, s.retention())
		if want[key] == nil {
			want[key] = &sinks.StateRow{}
		}
		want[key].Merge(&said)
		switch rng.IntN(40) {
		case 0:
			if err := s.db.Flush(); err != nil {
				t.Fatal(err)
			}
		case 1:
			if err := s.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	for key, row := range want {
		var got sinks.StateRow
		if err := s.get(triggerPrefix(tableState, "t", key), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&got, row) {
			t.Errorf("%s:\n got %+v\nwant %+v", key, got, *row)
		}
	}
}

// Invalid rows are an error. Valid rows encode to the same row.
func FuzzRow(f *testing.F) {
	f.Add(encodeRow(&goldenState), true)
	f.Add(encodeRow(&goldenMinute), false)
	f.Add([]byte(`{"State":{"u":1,"e":2,"v":"FIRED"}}`), true)
	f.Fuzz(func(t *testing.T, b []byte, state bool) {
		row, second := any(new(sinks.MinuteRow)), any(new(sinks.MinuteRow))
		if state {
			row, second = new(sinks.StateRow), new(sinks.StateRow)
		}
		if decodeRow(b, row) != nil {
			return
		}
		spelled := encodeRow(row)
		if err := decodeRow(spelled, second); err != nil || !bytes.Equal(encodeRow(second), spelled) {
			t.Fatalf("%+v comes back as %+v, %v", row, second, err)
		}
	})
}
