package pipeline

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// lanes are channels whose high lanes are topics of their own.
type lanes struct{ Channels }

func (lanes) Settings(name string) ChannelSettings {
	return ChannelSettings{Channel: trigger.Channel{Topic: "w.due." + name}, HighLane: true}
}

// watermarksOff are those of a partition whose process writes none.
func watermarksOff() (*watermarks, *Kept) {
	quiet := slog.New(slog.DiscardHandler)
	o := &Process{Options: Options{Names: topics.Names{Prefix: "w."}, Logger: quiet, Channels: lanes{}}}
	o.due = output.New(output.Config{Names: o.Names, Logger: quiet}, nil)
	kept := o.NewKept(3)
	w := newWatermarks(o, 3, kept)
	w.putOff = putOff{}
	return &w, kept
}

// TestWatermarksWithdrawn: one record withdraws what stands, as soon as the topic takes it.
func TestWatermarksWithdrawn(t *testing.T) {
	w, kept := watermarksOff()
	if r := w.record(&turn{}, reached{}); w.must(100) || r != nil {
		t.Errorf("nothing stands, and a turn writes %v", r)
	}
	w.inForce, w.published = true, 70
	kept.health.Refused(w.topic, kerr.TopicAuthorizationFailed)
	if r := w.record(&turn{}, reached{}); w.must(100) || r != nil {
		t.Errorf("the topic refuses records, and a turn writes %v", r)
	}
	kept.health.Recovered(func(string) bool { return true })
	if !w.must(100) {
		t.Error("a record stands, and no turn withdraws it")
	}
	now := &turn{}
	r := w.record(now, reached{})
	if r == nil || r.Value != nil || r.Topic != w.topic || r.Partition != 3 || len(r.Key) == 0 {
		t.Fatalf("what withdraws is %+v", r)
	}
	w.committed(now)
	if r := w.record(&turn{}, reached{}); w.must(100) || r != nil || w.published != 0 {
		t.Errorf("it was withdrawn, and a turn writes %v", r)
	}
}

// TestWatermarkHeldBack: the first cause that counts is named, and each due topic that put
// something off.
func TestWatermarkHeldBack(t *testing.T) {
	w, _ := watermarksOff()
	w.putOff = putOff{"push": 2, "push" + highMark: 1, "mail": 1}
	lane := []string{"w.due.mail", "w.due.push", topics.HighLane("w.due.push")}
	for _, c := range []struct {
		at    reached
		late  bool
		cause []string
	}{
		{reached{inputs: true, clockHeld: true}, true, []string{topics.HeldClock}},
		{reached{}, true, []string{topics.HeldBarrier}},
		{reached{inputs: true}, true, []string{topics.HeldLag}},
		{reached{inputs: true}, false, nil},
	} {
		want := append(slices.Clone(c.cause), lane...)
		slices.Sort(want)
		if got := w.heldBack(c.at, c.late); !slices.Equal(got, want) {
			t.Errorf("%+v, late %v: held by %q, want %q", c.at, c.late, got, want)
		}
	}
}
