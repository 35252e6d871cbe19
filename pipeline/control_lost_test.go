package pipeline_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestControlLostItsEnd: a new leader of topic control lacks the last calendar. The log says so,
// the triggers are planned by what is left, and what is written since is read.
func TestControlLostItsEnd(t *testing.T) {
	for _, running := range []bool{true, false} {
		t.Run(fmt.Sprint("an engine runs ", running), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				w := sim.New(t, sim.Options{Partitions: 1, Brokers: 2, Change: func(_ string, o *pipeline.Options) {
					o.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				}})
				w.Start("a")
				w.AwaitOwners()
				planned := func(day string) {
					t.Helper()
					time.Sleep(30 * time.Second)
					w.AwaitOwners()
					s, err := w.Owner(0).Get(w.Context(), "k")
					if err != nil || s.Series.Occurrence != day+"T09:00:00" {
						t.Errorf("planned for %s, %v, want %s", s.Series.Occurrence, err, day)
					}
				}
				w.PutCalendar("holidays", []string{"2030-05-01"})
				time.Sleep(5 * time.Second)
				w.Send("k", `{"op":"register","recurrence":"FREQ=DAILY","start":"2030-05-01T09:00",`+
					`"timezone":"Europe/Berlin","calendars":{"names":["holidays"],"on":"skip"}}`)
				planned("2030-05-02")
				w.PutCalendar("holidays", []string{"2030-05-01", "2030-05-02"})
				planned("2030-05-03")
				if !running {
					_ = w.Stop("a")
				}
				w.Truncate(w.Names.Control(), 0, 1)
				if !running {
					w.Start("a")
				}
				planned("2030-05-02")
				if strings.Count(log.String(), "topic control lost its end") != 1 {
					t.Errorf("the log says:\n%s", &log)
				}
				_ = w.Stop("a")
				w.PutCalendar("holidays", []string{"2030-05-01", "2030-05-02", "2030-05-03"})
				w.Start("a")
				planned("2030-05-04")
			})
		})
	}
}
