package pipeline

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestForwardedIsNoted: an idle partition writes progress once what it has noted is no longer
// true, and not more often than the interval says.
func TestForwardedIsNoted(t *testing.T) {
	o := &Process{Options: Options{Names: topics.Names{Prefix: "w."}, Partitions: 4}}
	f := newForwarder(o, 0, nil, nil)
	defer f.close()
	f.push(&kgo.Record{Topic: "w.commands", Offset: 20}, 2)
	for _, c := range []struct {
		name      string
		forwarded map[int32]int64
		since     time.Duration
		noted     bool
	}{
		{"progress says so", map[int32]int64{2: 19}, time.Hour, true},
		{"progress says less", nil, time.Hour, false},
		{"progress says more", map[int32]int64{1: 7, 2: 19}, forwardInterval, false},
		{"progress was written just now", nil, forwardInterval - 1, true},
	} {
		if got := f.noted(c.forwarded, c.since); got != c.noted {
			t.Errorf("%s: noted %v, want %v", c.name, got, c.noted)
		}
	}
}

// TestUntilNote: while something is owed, the wait ends when the next note is due.
func TestUntilNote(t *testing.T) {
	owed := map[int32]int64{2: 19}
	for _, c := range []struct {
		name              string
		forwarded         map[int32]int64
		since, wait, want time.Duration
	}{
		{"nothing is owed", nil, time.Second, time.Minute, time.Minute},
		{"just written", owed, 0, time.Minute, forwardInterval},
		{"a second later", owed, time.Second, time.Minute, forwardInterval - time.Second},
		{"a timer comes first", owed, time.Second, 3 * time.Millisecond, 3 * time.Millisecond},
		{"in the second interval", owed, forwardInterval + time.Second, time.Minute, forwardInterval - time.Second},
	} {
		if got := untilNote(c.forwarded, c.since, c.wait); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestRejectionOfALostRange: topic rejected names the first and the last offset that is gone.
func TestRejectionOfALostRange(t *testing.T) {
	l := lostRange{route{"w.commands", 3}, offsets{5, 9}}
	rec, refusal := l.rejection(1)
	want := "the log of w.commands/1 no longer holds offsets 5 to 8: its records of the keys of partition 3 were " +
		"not forwarded to it"
	if rec.Topic != "w.commands" || rec.Partition != 1 || rec.Offset != 5 || refusal.Msg != want ||
		refusal.Code != trigger.CodeMisrouted {
		t.Errorf("%+v: %s %q", rec, refusal.Code, refusal.Msg)
	}
}

// TestTrimBelow: what is still to be forwarded, or not yet applied, stays.
func TestTrimBelow(t *testing.T) {
	o := &Options{Names: topics.Names{Prefix: "waterclock."}}
	for _, c := range []struct {
		name      string
		forwarded map[int32]int64
		want      int64
	}{
		{"nothing is owed", nil, 50},
		{"commands are owed", map[int32]int64{1: 20, 2: 30}, 21},
		{"receipts are owed", map[int32]int64{-2: 20}, 50},
	} {
		if got := o.trimBelow(&topics.Progress{NextCommand: 50, Forwarded: c.forwarded}); got != c.want {
			t.Errorf("%s: commands below %d may go, want %d", c.name, got, c.want)
		}
	}
}
