package barrier

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// answered is a barrier whose inputs, read up to 10, have these ends as of 1000.
func answered(commands, receipts int64) *Barrier {
	b := New(Start{"commands", 10}, Start{"receipts", 10}, 10*time.Second, at(1000))
	r := b.Begin(1000, Demand{InWheel: true, Wheel: 1000})
	r.Ends(1000, commands, receipts)
	for r.Next(at(1000)).Ask != Nothing {
		panic("nothing stands")
	}
	return &b
}

// TestMaxPollWait: a poll is short as long as one of the inputs is not read to its end.
func TestMaxPollWait(t *testing.T) {
	for _, c := range []struct {
		commands, receipts int64
		want               time.Duration
	}{
		{10, 10, 0},
		{11, 10, 2 * time.Millisecond},
		{10, 11, 2 * time.Millisecond},
		{11, 11, 2 * time.Millisecond},
	} {
		if got := answered(c.commands, c.receipts).MaxPollWait(); got != c.want {
			t.Errorf("ends %d and %d: %v, want %v", c.commands, c.receipts, got, c.want)
		}
	}
}

// TestAsksForWhatIsLater: an answer covers what is due up to the instant of its question, and
// no later.
func TestAsksForWhatIsLater(t *testing.T) {
	for _, c := range []struct {
		name string
		now  trigger.Instant
		d    Demand
		want Ask
	}{
		{"in the wheel", 1000, Demand{InWheel: true, Wheel: 1000}, Nothing},
		{"in the wheel, later", 1001, Demand{InWheel: true, Wheel: 1001}, Ends},
		{"in the wheel, not due", 1000, Demand{InWheel: true, Wheel: 1001}, Nothing},
		{"ready", 1000, Demand{Ready: 1000}, Nothing},
		{"ready, later", 1001, Demand{Ready: 1001}, Ends},
		{"expected", 1000, Demand{Expected: 1000}, Nothing},
		{"expected, later", 1001, Demand{Expected: 1001}, Ends},
		{"held", 1000, Demand{Held: 1000}, Nothing},
		{"held, later", 1001, Demand{Held: 1001}, Ends},
	} {
		r := answered(10, 10).Begin(c.now, c.d)
		if got := r.Next(at(int64(c.now))).Ask; got != c.want {
			t.Errorf("%s: asked %d, want %d", c.name, got, c.want)
		}
	}
}

// TestKeepsTheAnswerOfThisInstant: a clock that stands is not set back.
func TestKeepsTheAnswerOfThisInstant(t *testing.T) {
	b := answered(10, 10)
	b.Clock(1000)
	if b.Commands.Through() != 1000 || b.Receipts.Through() != 1000 {
		t.Errorf("through %d and %d", b.Commands.Through(), b.Receipts.Through())
	}
	if b.Clock(999); b.Commands.Through() != 0 || b.Receipts.Through() != 0 {
		t.Errorf("set back: through %d and %d", b.Commands.Through(), b.Receipts.Through())
	}
}

// TestStalls: why an input brings nothing is asked after hiddenAfter, and not a second time
// before that has passed once more.
func TestStalls(t *testing.T) {
	b := answered(11, 10)
	for _, c := range []struct {
		ms   int64
		want Ask
	}{
		{1024, Nothing}, {1025, Stable}, {1049, Nothing}, {1050, Stable}, {1075, Stable},
	} {
		r := b.Begin(1000, Demand{})
		if got := r.Next(at(c.ms)).Ask; got != c.want {
			t.Errorf("at %d: asked %d, want %d", c.ms, got, c.want)
		}
	}
	long := 40 * time.Millisecond
	if b.Commands.Stands(at(1039), long) || !b.Commands.Stands(at(1040), long) || b.Receipts.Stands(at(1040), long) {
		t.Error("commands stand from 1040 on, receipts never")
	}
}

// TestAsksOnceInARound: also if answers take long, and since when an input was held is kept.
func TestAsksOnceInARound(t *testing.T) {
	b := answered(11, 11)
	since := at(1100)
	r := b.Begin(1000, Demand{})
	for _, want := range []string{"commands", "receipts"} {
		if q := r.Next(since); q.Ask != Stable || q.Input.Topic != want {
			t.Fatalf("%+v, want the stable offset of %s", q, want)
		}
		if _, gaveUp := r.Stable(10, since); gaveUp != nil { // a transaction is open
			t.Fatalf("%+v", gaveUp)
		}
	}
	if q := r.Next(at(1200)); q.Ask != Nothing {
		t.Errorf("asked %d", q.Ask)
	}
	b.Read("commands", 10, at(1200))
	r = b.Begin(1000, Demand{})
	if q := r.Next(at(1300)); q.Ask != Stable || q.Input.Topic != "receipts" {
		t.Fatalf("%+v", q)
	}
	r.Stable(10, at(1300))
	if q := r.Next(at(1400)); q.Ask != Nothing {
		t.Errorf("asked %d", q.Ask)
	}
	if got := r.Released(); !got[0].Equal(since) || !got[1].IsZero() {
		t.Errorf("held since %v; want commands since %v", got, since)
	}
}
