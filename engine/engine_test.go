package engine

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/pipeline"
)

// Failures that piled up during an outage are told at once: the log does not speak of it seconds after its end.
func TestGroupFailuresOfOnePoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logtest.Buffer{}
		e := &Engine{process: &pipeline.Process{Options: pipeline.Options{
			Group: "g", Logger: slog.New(slog.NewTextHandler(log, nil)),
		}}}
		began := time.Now()
		e.groupFailed(t.Context(), nil)
		e.groupFailed(t.Context(), []kgo.FetchError{{Err: errors.New("first")}, {Err: errors.New("refused")}, {
			Err: errors.New("last"),
		}})
		if took := time.Since(began); took != time.Second {
			t.Errorf("it took %v", took)
		}
		if said := log.String(); strings.Count(said, "\n") != 1 || !strings.Contains(said, "last") {
			t.Errorf("the log has\n%s", said)
		}
	})
}

// Partitions that wait for the same share a line of /readyz, and only a restore has a count.
func TestUnreadyPartitions(t *testing.T) {
	said := errors.Join(unready([]pipeline.Status{
		{Partition: 3, Doing: "lost", Restored: 9, RestoreTotal: 9},
		{Partition: 1, Ready: true},
		{Partition: 2, Doing: "lost", Restored: 8, RestoreTotal: 9},
		{Partition: 4, Doing: string(pipeline.StepRestore), Restored: 8, RestoreTotal: 9},
	})...).Error()
	if want := "partition 4: restore, 8 of 9 records\npartitions [2 3]: lost"; said != want {
		t.Errorf("said\n%s\nwant\n%s", said, want)
	}
}

// A wrong clock holds all partitions of a process at once: they are one line of /readyz, which counts them and names
// the first few.
func TestUnreadyHeld(t *testing.T) {
	var parts []pipeline.Status
	for p := range int32(16) {
		off := 5*time.Minute + time.Duration(p)*time.Millisecond
		parts = append(parts, pipeline.Status{Partition: p, Held: true, ClockOffset: off})
	}
	said := errors.Join(unready(parts)...).Error()
	want := "16 partitions (0, 1, 2 and 13 more) hold firing: this node's clock is 5m0s off the broker's, and no " +
		"second broker confirms either"
	if said != want {
		t.Errorf("said\n%s\nwant\n%s", said, want)
	}
	said = errors.Join(unready(parts[3:4])...).Error()
	if want := "partition 3 holds firing: this node's clock is 5m0s off"; !strings.HasPrefix(said, want) {
		t.Errorf("said\n%s\nwant\n%s", said, want)
	}
}
