package sinks_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func record(e topics.Event) sinks.EventRecord {
	return sinks.EventRecord{Event: e, Partition: topics.Partition([]byte(e.Trigger), sinktest.LogPartitions)}
}

// rebuildAgainst fills an old sink from the log, lets a test corrupt it, and rebuilds.
func rebuildAgainst(t *testing.T, l *sinktest.Log, spoil func(old *sink)) *sinks.Report {
	t.Helper()
	old, fresh := newSink(t), newSink(t)
	if _, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{Kafka: l.Kafka(), Into: old}); err != nil {
		t.Fatal(err)
	}
	spoil(old)
	var last sinks.RebuildProgress
	r, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{
		Kafka: l.Kafka(), Into: fresh, Old: old, New: fresh,
		MaxRecords: 70, Progress: func(p sinks.RebuildProgress) { last = p },
	})
	if err != nil {
		t.Fatal(err)
	}
	if int(r.Events) != l.Events || last.Done != last.Records || !last.Comparing {
		t.Errorf("rebuilt %d of %d events; last progress %+v", r.Events, l.Events, last)
	}
	return r
}

// The comparison finds every kind of wrong row, in its table and under the name of its trigger.
// It reports no difference between rows that only appear different.
func TestRebuildCompares(t *testing.T) {
	apply := func(t *testing.T, s *sink, e topics.Event) {
		t.Helper()
		if err := s.Apply(context.Background(), []sinks.EventRecord{record(e)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event)
		want  string // text that the report must have; "" for no difference
	}{
		{"untouched", func(*testing.T, *sinktest.Log, *sink, []topics.Event) {}, ""},
		{"an event too many", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			e := all[30]
			e.EventUS++
			apply(t, old, e)
		}, `"a-10": old 4 rows, new 3`},
		{"an event with another word", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			e := all[30]
			e.Reason = "moon"
			apply(t, old, e)
		}, `"a-10": old 3 rows, new 3`},
		{"a trigger that never was", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			e := all[30]
			e.Trigger = "ghost"
			apply(t, old, e)
		}, `"ghost": old 1 rows, new 0`},
		{"a state that is not the newest", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			e := all[32]
			e.EventUS, e.State = e.EventUS+1, "FAILED"
			apply(t, old, e)
		}, "trigger_state"},
		{"rows from before the log begins", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			e := all[30]
			e.EventUS, e.Trigger = all[0].EventUS-1_000_000, "ancient"
			apply(t, old, e)
		}, ""},
		{"an old sink that has gone on", func(t *testing.T, l *sinktest.Log, old *sink, all []topics.Event) {
			for range 5 {
				apply(t, old, l.Event("a-10", trigger.Rescheduled, trigger.Pending, time.Now().Add(time.Hour)))
			}
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := sinktest.NewLog(t)
			all := l.Lives("a", 40)
			l.Write(kgo.TryCommit, all...)
			r := rebuildAgainst(t, l, func(old *sink) { c.spoil(t, l, old, all) })
			if r.Same() != (c.want == "") || !strings.Contains(r.String(), c.want) {
				t.Errorf("want %q in\n%s", c.want, r)
			}
		})
	}
}

// Rows that expire while two sinks are compared are not differences.
func TestRebuildWhileRowsEnd(t *testing.T) {
	l, old, fresh := sinktest.NewLog(t), newSink(t), newSink(t)
	all := l.Lives("a", 40)
	for i := range all { // they expire, at 90 days, 3 to 15 s from now
		all[i].EventUS -= (90*24*time.Hour - time.Hour - 3*time.Second - time.Duration(i)*100*time.Millisecond).
			Microseconds()
		all[i].EventID = ""
	}
	l.Write(kgo.TryCommit, all...)
	l.Write(kgo.TryCommit, l.Lives("b", 40)...)
	if _, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{Kafka: l.Kafka(), Into: old}); err != nil {
		t.Fatal(err)
	}
	if n := sinktest.Rows(t, old); n != l.Events {
		t.Fatalf("%d of %d events are there", n, l.Events)
	}
	r, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{
		Kafka: l.Kafka(), Into: fresh, Old: old,
		New: slowScan{fresh, 4 * time.Second},
	})
	if err != nil {
		t.Fatal(err)
	}
	if events := r.Tables[0]; !r.Same() || events.Old != 120 || events.New != 120 || events.Ending != 120 {
		t.Errorf("rows that have ended meanwhile are a difference:\n%s", r)
	}
}

// slowScan starts late.
type slowScan struct {
	sinks.Scanner
	after time.Duration
}

func (s slowScan) Scan(ctx context.Context, t sinks.Table, visit func(sinks.Row) error) error {
	time.Sleep(s.after)
	return s.Scanner.Scan(ctx, t, visit)
}

// A rebuild reports the time from which it is complete: the beginning of the log, if the log ever
// had more.
func TestRebuildSaysSince(t *testing.T) {
	l := sinktest.NewLog(t)
	l.Write(kgo.TryCommit, l.Lives("a", 40)...)
	if r := rebuildAgainst(t, l, func(*sink) {}); !r.Since.IsZero() || !strings.Contains(r.String(), "whole log") {
		t.Errorf("of a log that has lost nothing: %s\n%s", r.Since, r)
	}
	l.Trim()
	later := l.Lives("b", 40)
	l.Write(kgo.TryCommit, later...)
	fresh := newSink(t)
	r, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{Kafka: l.Kafka(), Into: fresh})
	if err != nil {
		t.Fatal(err)
	}
	first, last := time.UnixMicro(later[0].EventUS), time.UnixMicro(later[len(later)-1].EventUS)
	if r.Since.Before(first) || r.Since.After(last) || !strings.Contains(r.String(),
		r.Since.Format("2006-01-02T15:04:05Z")) {
		t.Errorf("since %s, want the first event of %s to %s:\n%s", r.Since, first, last, r)
	}
}

func TestRebuildOfAnEmptyLog(t *testing.T) {
	if r := rebuildAgainst(t, sinktest.NewLog(t), func(*sink) {}); !r.Same() {
		t.Errorf("nothing differs from nothing:\n%s", r)
	}
}

// The report names the end of every partition, also of one that has no events yet.
func TestRebuildSaysItsEnds(t *testing.T) {
	l := sinktest.NewLog(t)
	l.Write(kgo.TryCommit, l.Lives("a", 1)...)
	r := rebuildAgainst(t, l, func(*sink) {})
	if len(r.Ends) != sinktest.LogPartitions {
		t.Errorf("ends %v, want those of %d partitions", r.Ends, sinktest.LogPartitions)
	}
	for partition, end := range r.Ends {
		if want := fmt.Sprintf(" %d:%d", partition, end); !strings.Contains(r.String(), want) {
			t.Errorf("want %q in\n%s", want, r)
		}
	}
}

// The old projector continued during the rebuild, also on partitions that had been empty. After the switch,
// the rebuilt sink gets the events from that time.
func TestSwitch(t *testing.T) {
	const group = "waterclock-history"
	l, old, fresh := sinktest.NewLog(t), newSink(t), newSink(t)
	old.groupOffsets, fresh.groupOffsets = true, true
	l.Write(kgo.TryCommit, l.Lives("a", 1)...)
	_, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{Kafka: l.Kafka(), Into: fresh})
	if err != nil {
		t.Fatal(err)
	}
	at, err := sinks.Positions(t.Context(), fresh, "waterclock.events", "waterclock.dead-letter")
	if err != nil || len(at) != 1 {
		t.Fatalf("positions %v: %v, want that of one partition", at, err)
	}
	l.Write(kgo.TryCommit, l.Lives("meanwhile", 30)...)
	switchWithMembers := error(nil)
	sinktest.Project(t, old, sinks.Options{Kafka: l.Kafka()}, func() bool {
		if at, end := l.Committed(group); at < end {
			return false
		}
		_, switchWithMembers = sinks.Switch(context.Background(), l.Kafka(), group, at)
		return true
	})
	if switchWithMembers == nil || !strings.Contains(switchWithMembers.Error(), "must be stopped") {
		t.Errorf("the offsets of a running group were set: %v", switchWithMembers)
	}
	moved, err := sinks.Switch(context.Background(), l.Kafka(), group, at)
	if err != nil || len(moved) != sinktest.LogPartitions {
		t.Fatalf("moved %v: %v, want %d partitions", moved, err, sinktest.LogPartitions)
	}
	sinktest.Project(t, fresh, sinks.Options{Kafka: l.Kafka()}, func() bool {
		at, end := l.Committed(group)
		return at == end
	})
	if n := sinktest.Rows(t, fresh); n != l.Events {
		t.Errorf("the rebuilt sink has %d of %d events", n, l.Events)
	}
	if moved, err := sinks.Switch(context.Background(), l.Kafka(), group, map[sinks.TopicPartition]int64{
		{Topic: "waterclock.events", Partition: 0}: 1 << 40,
		{Topic: "waterclock.events", Partition: 1}: 1 << 40,
		{Topic: "waterclock.events", Partition: 2}: 1 << 40,
		{Topic: "waterclock.events", Partition: 3}: 1 << 40,
	}); err != nil || len(moved) != 0 {
		t.Errorf("offsets were set forward: %v, %v", moved, err)
	}
}

// A group that never committed reads everything from the beginning: there is nothing to set.
func TestSwitchOfANewGroup(t *testing.T) {
	l := sinktest.NewLog(t)
	if moved, err := sinks.Switch(t.Context(), l.Kafka(), "nobody", nil); err != nil || len(moved) != 0 {
		t.Errorf("%v: %v", moved, err)
	}
}
