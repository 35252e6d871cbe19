package pipeline

import (
	"log/slog"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestClaims: what a record says of having been forwarded is believed if it can
// be true.
func TestClaims(t *testing.T) {
	id, now := [16]byte{1}, trigger.At(time.Now())
	c := newClaims(nil, 0, nil, nil, map[string][16]byte{"commands": id})
	c.ends[kafkapart.TopicPartition{Topic: "commands", Partition: 1}] = 100
	c.silent[kafkapart.TopicPartition{Topic: "commands", Partition: 2}] = time.Now()
	for _, row := range []struct {
		name    string
		claim   topics.Forward
		genuine bool
	}{
		{"it can be", topics.Forward{TopicID: id, Partition: 1, Offset: 99, Append: now - 1000}, true},
		{"beyond the source's end", topics.Forward{TopicID: id, Partition: 1, Offset: 100, Append: now - 1000}, false},
		{
			"of a mirrored topic",
			topics.Forward{TopicID: [16]byte{2}, Partition: 1, Offset: 99, Append: now - 1000},
			false,
		},
		{"nobody says how far its source reaches", topics.Forward{
			TopicID: id, Partition: 2, Offset: 1 << 40,
			Append: now,
		}, true},
	} {
		if got := c.genuine("commands", row.claim); got != row.genuine {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}

// TestTimely: a claim may be as old as the compaction lag of commands, and clocks may be wrong by as
// much.
func TestTimely(t *testing.T) {
	now := trigger.At(time.Now())
	for at, want := range map[trigger.Instant]bool{
		now.Add(-maxForwardAge): true, now.Add(-maxForwardAge) - 1: false,
		now.Add(maxForwardAge): true, now.Add(maxForwardAge) + 1: false,
	} {
		if got := timely(topics.Forward{Append: at}, now); got != want {
			t.Errorf("first appended %v before its copy: %v", now.Sub(at), got)
		}
	}
}

// TestWrittenAnew: where a source's log lost its end, what stands there now is
// new; a copy of what was applied is not.
func TestWrittenAnew(t *testing.T) {
	const second = trigger.Instant(1000)
	claims := &claims{log: slog.New(slog.DiscardHandler)}
	tn := &turn{
		progress: topics.Progress{Applied: map[int32]int64{1: 50, 2: 60}},
		guard: topics.Guard{Applied: map[int32]topics.AppliedOrigin{
			1: {Offset: 50, Append: 100 * second},
			2: {Offset: 59, Append: 100 * second},
		}},
	}
	for _, c := range []struct {
		name   string
		source int32
		claim  topics.Forward
		anew   bool
	}{
		{"a copy of the last", 1, topics.Forward{Offset: 50, Append: 100 * second}, false},
		{"of an earlier one", 1, topics.Forward{Offset: 40, Append: 90 * second}, false},
		{"as late as clocks may be apart", 1, topics.Forward{Offset: 50, Append: 101 * second}, false},
		{"later than that", 1, topics.Forward{Offset: 40, Append: 101*second + 1}, true},
		{"where the last is not known", 2, topics.Forward{Offset: 40, Append: 200 * second}, false},
		{"of a source not heard of", 3, topics.Forward{Offset: 0, Append: 200 * second}, false},
	} {
		if got := claims.writtenAnew(tn, c.source, c.claim); got != c.anew {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestOriginOfAClaim: a command that was forwarded is applied once, and its first append is known.
func TestOriginOfAClaim(t *testing.T) {
	id := [16]byte{1}
	o := &Process{Options: Options{Names: topics.Names{Prefix: "w."}, Partitions: 4}}
	c := newClaims(o, 0, slog.New(slog.DiscardHandler), nil, map[string][16]byte{"w.commands": id})
	c.ends[kafkapart.TopicPartition{Topic: "w.commands", Partition: 2}] = 100
	f := topics.Forward{TopicID: id, Partition: 2, Offset: 40, Append: 1000}
	rec := &topics.Record{Topic: "w.commands", Timestamp: 2000, Headers: topics.ForwardHeaders(nil, f)}
	now := &turn{}
	origin, copied := c.origin(now, rec)
	if copied || origin == nil || origin.Partition != 2 || origin.Offset != 40 || origin.Append != 1000 {
		t.Fatalf("the first append is %+v (a copy: %v)", origin, copied)
	}
	if now.progress.Applied[2] != 40 || now.guard.Applied[2].Offset != 40 {
		t.Errorf("applied is %v, guarded %v", now.progress.Applied, now.guard.Applied)
	}
	if origin, copied := c.origin(now, rec); !copied || origin != nil {
		t.Errorf("the copy counts as new: %+v", origin)
	}
	weeks := trigger.Instant(0).Add(2 * maxForwardAge)
	rec.Timestamp += weeks
	if origin, copied := c.origin(now, rec); !copied || origin != nil {
		t.Errorf("a copy that was sent weeks later counts as new: %+v", origin)
	}
	f.Offset = 41
	late := &topics.Record{Topic: "w.commands", Timestamp: 2000 + weeks, Headers: topics.ForwardHeaders(nil, f)}
	for _, want := range []bool{false, true} {
		if origin, copied := c.origin(now, late); copied != want || origin != nil {
			t.Errorf("a command that was forwarded weeks late comes from %+v (a copy: %v)", origin, copied)
		}
	}
	if origin, copied := c.origin(now, &topics.Record{Topic: "w.commands"}); copied || origin != nil {
		t.Errorf("a direct command comes from %+v (a copy: %v)", origin, copied)
	}
}
