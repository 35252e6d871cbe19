package pipeline_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestReplanWhileWritten edits a calendar under more triggers than a turn
// re-plans, and lets commands move some of them, in the due index, from where
// the walk has not been to where it was, or out of it: none is left as it was,
// and none is told of twice.
func TestReplanWhileWritten(t *testing.T) {
	const n = 6000
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 9, Partitions: 1})
		var stored, commands atomic.Int64
		stored.Store(-1)
		w.OnStep(func(_ string, _ int32, step string) {
			if step != "stored" || stored.Load() < 0 {
				return
			}
			turn := stored.Add(1)
			if turn > 4 {
				return
			}
			for i := range 40 { // of the last in the due index
				key := fmt.Sprintf("k%04d", n-1-40*int(turn)-i)
				body := []string{`{"op":"snooze","for":"100d"}`, `{"op":"pause"}`, `{"op":"run_now"}`}[i%3]
				w.Send(key, body)
				if i%6 == 1 {
					w.Send(key, `{"op":"resume"}`)
				}
				commands.Add(1)
			}
		})
		a := w.Start("a")
		w.AwaitOwners()
		w.PutCalendar("holidays", []string{"2030-05-02"})
		time.Sleep(5 * time.Second)
		for i := range n {
			w.Send(fmt.Sprintf("k%04d", i),
				fmt.Sprintf(`{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T%02d:%02d","timezone":"Europe/Berlin","calendars":{"names":["holidays"],"on":"skip"}}`, i/300, i/5%60))
		}
		time.Sleep(5 * time.Second)
		stored.Store(0)
		w.PutCalendar("holidays", []string{"2030-05-01", "2030-05-02"})
		time.Sleep(time.Minute)
		if commands.Load() < 100 {
			t.Fatalf("only %d commands: the replan was over", commands.Load())
		}
		err := a.Engine.Scan(t.Context(), 0, true, "", func(s *trigger.State) bool {
			if strings.HasPrefix(s.Series.Occurrence, "2030-05-01") ||
				strings.HasPrefix(s.Series.Occurrence, "2030-05-02") {
				t.Errorf("%s, %s, is planned for %s", s.Key, s.Status, s.Series.Occurrence)
			}
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		onceEach(t, n, w.Dump(w.Names.Events()))
	})
}

// onceEach says that each of n triggers was told of once that it is moved.
func onceEach(t *testing.T, n int, events []*kgo.Record) {
	t.Helper()
	reported := map[string]int{}
	for _, r := range events {
		var e topics.Event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == string(trigger.Rescheduled) {
			reported[string(r.Key)]++
		}
	}
	for key, times := range reported {
		if times != 1 {
			t.Errorf("%s was told of %d times", key, times)
		}
	}
	if len(reported) != n {
		t.Errorf("%d of %d triggers were moved", len(reported), n)
	}
}

// TestFirstRelease: the first release of topic control moves what was planned by another release
// than the one in this binary: by that of an older binary, or by one that the topic has lost.
func TestFirstRelease(t *testing.T) {
	old, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	for _, older := range []bool{true, false} {
		t.Run(fmt.Sprint("older binary ", older), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				zones := calendar.Embedded()
				w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
					o.Machine.Timetable = &trigger.Timetable{Zones: zones}
				}})
				if older {
					if zones, err = calendar.LoadZones(old, "2023c"); err != nil {
						t.Fatal(err)
					}
				} else {
					w.Release("2023c", old)
				}
				w.Start("a")
				w.AwaitOwners()
				w.Send("k", `{"op":"register","fire_at":"2030-05-01T09:00","timezone":"Asia/Almaty"}`)
				time.Sleep(5 * time.Second)
				_ = w.Stop("a")
				zones = calendar.Embedded()
				if !older {
					remake(t, w, w.Names.Control())
				}
				w.Start("a")
				w.AwaitOwners()
				w.Release("2025c", calendar.EmbeddedZip())
				time.Sleep(30 * time.Second)
				s, err := w.Owner(0).Get(w.Context(), "k")
				if err != nil || s.Series.TZData != "2025c" || s.Series.At.String() != "2030-05-01T04:00:00.000Z" {
					t.Errorf("planned for %v by %s, %v", s.Series.At, s.Series.TZData, err)
				}
			})
		})
	}
}

// A tz release that moves more than a few triggers of a zone moves each once,
// though the walk by key is given up on the way, and leaves other zones alone.
func TestTZUpdateOfMany(t *testing.T) {
	const n = 3000
	old, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1, Quiet: true})
	node := w.Start("a")
	w.AwaitOwners()
	w.Release("2023c", old)
	w.Eventually("2023c is in force", applied(node, 1))
	w.SendAll(2*n, func(i int) (string, string) {
		return fmt.Sprintf("k%d", i),
			fmt.Sprintf(`{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T%02d:%02d","timezone":%q}`,
				i%24, i%60, []string{"Asia/Almaty", "America/New_York"}[i%2])
	})
	w.Send("paused", `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00","timezone":"Asia/Almaty"}`)
	w.Send("paused", `{"op":"pause"}`)
	w.Eventually("all are registered", func() bool { return pending(node) == 2*n+1 })
	w.Setting([]byte(topics.ControlTZData), nil, nil)
	w.Eventually("the release is in force", applied(node, 2))
	moved := w.Tail(w.Names.Events())
	reported := map[string]int{}
	for len(reported) < n+1 {
		r := moved.Next()
		var e topics.Event
		if err := json.Unmarshal(r.Value, &e); err != nil {
			t.Fatal(err)
		}
		if e.Type == string(trigger.Rescheduled) {
			if reported[string(r.Key)]++; reported[string(r.Key)] > 1 {
				t.Errorf("%s was told of twice", r.Key)
			}
			if e.TZData != "2025c" || e.PreviousTZData != "2023c" {
				t.Errorf("%s: %s", r.Key, r.Value)
			}
		}
	}
	if reported["paused"] != 1 || reported["k1"] != 0 {
		t.Errorf("paused: %d, New York: %d", reported["paused"], reported["k1"])
	}
}
