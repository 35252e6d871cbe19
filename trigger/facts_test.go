package trigger

import (
	"strings"
	"testing"
	"time"
)

// collectFacts collects the facts that a world sees.
func collectFacts(w *world) *[]Fact {
	var all []Fact
	w.observe = func(_ Instant, _ *State, out Outcome) { all = append(all, out.Facts...) }
	return &all
}

// last is the newest fact of a type.
func last(t *testing.T, facts *[]Fact, kind FactType) Fact {
	t.Helper()
	for i := len(*facts) - 1; i >= 0; i-- {
		if (*facts)[i].Type == kind {
			return (*facts)[i]
		}
	}
	t.Fatalf("no %s was told", kind)
	return Fact{}
}

// register is a one-shot or a series on a channel, for a user.
func register(w *world, channel, user string, when When) {
	s := &Spec{
		When: when, Channel: channel, UserID: user, CorrelationID: "c-" + user, Payload: []byte(user),
		Priority: Normal,
	}
	w.command(&Command{Op: OpRegister, Key: "k", From: w.origin(), Spec: s, Hash: contentOf(s)})
}

func in(d time.Duration) When { return When{Kind: WhenDelay, DelayText: d.String(), Delay: d} }

// docs/formats/commands.md: occurrences in flight keep what they were fired with; docs/formats/events.md:
// events about an occurrence carry its channel. So do they when the trigger was
// replaced meanwhile, by one for somebody else.
func TestFactsOfAnOccurrenceAreOfItsContent(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", in(time.Minute))
	w.advance(w.now.Add(time.Minute))
	fired := last(t, facts, OccurrenceFired)
	w.advance(w.now.Add(time.Second))
	register(w, "sms", "bob", in(24*time.Hour))
	if f := last(t, facts, Replaced); f.Channel != "sms" || f.UserID != "bob" {
		t.Errorf("%s is for %s by %s", f.Type, f.UserID, f.Channel)
	}
	check := func(kind FactType) {
		t.Helper()
		if f := last(t, facts, kind); f.Channel != "push" || f.UserID != "ann" || f.Corr != "c-ann" {
			t.Errorf("%s is for %s (%s) by %s; it was fired for ann by push", f.Type, f.UserID, f.Corr, f.Channel)
		}
	}
	for attempt := 1; attempt <= 6; attempt++ {
		w.receive("k", &Receipt{
			Occurrence: fired.Occurrence, Outcome: ReceiptRetry, Attempt: attempt, At: w.now,
			RetryAfter: time.Second,
		})
		if attempt < 6 {
			check(DeliveryRetried)
			w.advance(w.now.Add(time.Second))
			check(OccurrenceFired)
		}
	}
	check(DeliveryFailed)
	check(DeadLettered)
}

func at(wall, zone string) When { return When{Kind: WhenLocal, Local: wall, Zone: zone} }

func daily(start, zone string) When {
	return When{Kind: WhenRecurrence, Recurrence: "FREQ=DAILY", Start: start, Zone: zone}
}

// The zone beside a local time is the one whose clocks show it, also when the
// series has moved to another since.
func TestFactsNameTheZoneOfTheirLocalTime(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T00:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", daily("2026-03-02T09:00", "Europe/Berlin"))
	w.advance(instant("2026-03-02T08:00:00Z"))
	fired := last(t, facts, OccurrenceFired)
	w.command(&Command{Op: OpRezone, Key: "k", From: w.origin(), Zone: "Asia/Tokyo"})
	w.receive("k", &Receipt{
		Occurrence: fired.Occurrence, Outcome: ReceiptRetry, Attempt: 1, At: w.now,
		RetryAfter: time.Second,
	})
	w.advance(w.now.Add(time.Second))
	if f := last(t, facts, OccurrenceFired); f.Attempt != 2 || f.Local != "2026-03-02T09:00:00[Europe/Berlin]" ||
		f.Zone != "Europe/Berlin" {
		t.Errorf("attempt %d, local time %s, zone %s", f.Attempt, f.Local, f.Zone)
	}
}

// tzdata is the release that the instant beside it was resolved with: neither
// that of the next one, nor any where no wall time was resolved.
func TestFiredNamesTheReleaseOfItsInstant(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T00:00:00Z"))
	w.retime(zones2023c(t))
	facts := collectFacts(w)
	check := func(what, want string) {
		t.Helper()
		if f := last(t, facts, OccurrenceFired); f.TZData != want {
			t.Errorf("%s: tzdata %q, want %q", what, f.TZData, want)
		}
	}
	register(w, "default", "ann", at("2026-03-02T09:00:00", "Europe/Berlin"))
	planned := last(t, facts, Registered).TZData
	w.advance(instant("2026-03-02T08:00:00Z"))
	check("a one-shot", planned)
	register(w, "default", "ann", daily("2026-03-03T09:00", "Europe/Berlin"))
	w.retime(newMachine().Timetable.Zones) // nothing moves, and the next is planned with it
	w.advance(instant("2026-03-03T08:00:00Z"))
	check("a series", planned)
	w.command(&Command{Op: OpRunNow, Key: "k", From: w.origin()})
	w.advance(w.now.Add(time.Second))
	check("a run", "")
}

// lateness_ms counts from when an occurrence should have gone out, also where
// its due topic has put a snooze or a run off since.
func TestLatenessOfWhatWasPutOff(t *testing.T) {
	for _, op := range []Op{OpSnooze, OpRunNow} {
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		facts := collectFacts(w)
		register(w, "default", "ann", daily("2026-03-02T08:00", "UTC"))
		w.refuse = true
		wanted := w.now
		w.command(&Command{Op: op, Key: "k", From: w.origin()})
		w.advance(w.now.Add(5 * time.Minute))
		w.refuse = false
		w.advance(w.now.Add(10 * time.Minute))
		var at Instant
		for _, f := range w.states["k"].Done {
			at = f.At
		}
		if f := last(t, facts, OccurrenceFired); f.Lateness != int64(at-wanted) || f.Lateness < 300_000 {
			t.Errorf("%s: fired %s after it was due, lateness_ms is %d", op, at.Sub(wanted), f.Lateness)
		}
	}
}

// docs/formats/events.md: of a trigger of which nothing is remembered the state is UNKNOWN.
func TestRejectedOfNothingIsUnknown(t *testing.T) {
	out := newMachine().Reject(nil, &Error{Code: CodeNotFound}, "")
	if f := out.Facts[0]; f.State != Unknown || f.Seq != 0 {
		t.Errorf("state %q, seq %d", f.State, f.Seq)
	}
}

// docs/formats/receipts.md: a receipt without an attempt is about the one in
// flight, and its event says which that is.
func TestReceiptWithoutAnAttempt(t *testing.T) {
	for outcome, kind := range receiptFacts {
		if kind == "" || ReceiptOutcome(outcome) == ReceiptRetry {
			continue // it tells the next attempt
		}
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		facts := collectFacts(w)
		register(w, "push", "ann", in(0))
		w.advance(w.now)
		id := last(t, facts, OccurrenceFired).Occurrence
		w.receive("k", &Receipt{Occurrence: id, Outcome: ReceiptRetry, Attempt: 1, At: w.now, RetryAfter: time.Second})
		w.advance(w.now.Add(time.Second))
		w.receive("k", &Receipt{Occurrence: id, Outcome: ReceiptOutcome(outcome), At: w.now})
		if f := last(t, facts, kind); f.Attempt != 2 {
			t.Errorf("%s is about attempt %d, in flight was 2", kind, f.Attempt)
		}
	}
}

// A one-shot of which a run_now waits is PENDING once its own occurrence is
// decided, and the event says so.
func TestReceiptBesideAWaitingRun(t *testing.T) {
	for _, outcome := range []ReceiptOutcome{
		ReceiptDelivered, ReceiptSuppressed, ReceiptRetry, ReceiptPostponed,
		ReceiptFailed,
	} {
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		facts := collectFacts(w)
		register(w, "push", "ann", in(0))
		w.advance(w.now)
		id := last(t, facts, OccurrenceFired).Occurrence
		w.command(&Command{Op: OpRunNow, Key: "k", From: w.origin()})
		w.receive("k", &Receipt{Occurrence: id, Outcome: outcome, Attempt: 1, At: w.now, RetryAfter: time.Second})
		f := last(t, facts, receiptFacts[outcome])
		if is := w.states["k"].Status; f.State != is || f.Previous != InFlight {
			t.Errorf("%s leads from %s to %s, the trigger is %s", f.Type, f.Previous, f.State, is)
		}
	}
}

// What a channel says after an erase may name the user that was to be forgotten.
func TestReceiptAfterAnEraseHasNoDetail(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", in(0))
	w.advance(w.now)
	id := last(t, facts, OccurrenceFired).Occurrence
	w.command(&Command{Op: OpErase, Key: "k", From: w.origin()})
	w.receive("k", &Receipt{
		Occurrence: id, Outcome: ReceiptFailed, Attempt: 1, At: w.now, Code: "550",
		Detail: "no mailbox ann@example.com",
	})
	if f := last(t, facts, DeliveryFailed); f.Detail != "" || f.Reason != "late" {
		t.Errorf("detail %q, reason %q", f.Detail, f.Reason)
	}
}

// cancel.too_late of a one-shot in flight names what is in flight, not a run
// that went out, and arrived, later.
func TestTooLateNamesWhatIsInFlight(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", in(0))
	w.advance(w.now)
	id := last(t, facts, OccurrenceFired).Occurrence
	w.advance(w.now.Add(time.Second))
	w.command(&Command{Op: OpRunNow, Key: "k", From: w.origin()})
	w.advance(w.now)
	w.receive("k", &Receipt{
		Occurrence: last(t, facts, OccurrenceFired).Occurrence, Outcome: ReceiptDelivered,
		At: w.now,
	})
	w.command(&Command{Op: OpCancel, Key: "k", From: w.origin()})
	if f := last(t, facts, CancelTooLate); f.Reason != "in_flight" || f.Occurrence != id {
		t.Errorf("%s names %s, in flight was %s", f.Reason, f.Occurrence, id)
	}
}

// occurrence.snoozed names the occurrence that will come, and when it was to come
// before: also of a one-shot that was rescheduled while a snooze waited.
func TestSnoozedNamesWhatItMoved(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "default", "ann", in(0))
	w.advance(w.now)
	w.command(&Command{Op: OpSnooze, Key: "k", From: w.origin(), For: time.Hour})
	w.command(&Command{Op: OpReschedule, Key: "k", From: w.origin(), Spec: &Spec{When: in(2 * time.Hour)}})
	before := w.states["k"].Series.At
	w.command(&Command{Op: OpSnooze, Key: "k", From: w.origin(), For: 3 * time.Hour})
	f, p := last(t, facts, Snoozed), w.states["k"].Series
	if f.Occurrence != p.Occurrence || f.Scheduled != p.At || f.PreviousScheduled != before {
		t.Errorf("%s at %s, before at %s; planned is %s at %s, before at %s", f.Occurrence, f.Scheduled,
			f.PreviousScheduled, p.Occurrence, p.At, before)
	}
}

// An ack, and a snooze, which is one, says which occurrences it ends: each fact
// folds alone.
func TestAckNamesWhatItEnds(t *testing.T) {
	for _, c := range []Command{
		{Op: OpAck},
		{Op: OpAck, Occurrence: "2026-03-02T09:01:00.000Z"}, // of the life before
		{Op: OpAck, Occurrence: "2026-03-02T09:01:00.000Z~3-103"},
		{Op: OpSnooze, For: time.Hour},
	} {
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		facts := collectFacts(w)
		register(w, "push", "ann", in(0)) // a life that is over, so that the next one's occurrences have a suffix
		w.command(&Command{Op: OpCancel, Key: "k", From: w.origin()})
		register(w, "push", "ann", When{Kind: WhenRecurrence, Recurrence: "every:1m"})
		w.advance(w.now.Add(150 * time.Second))
		want := map[string]bool{}
		for _, l := range w.states["k"].Live {
			want[l.Occurrence] = c.Occurrence == "" || l.Occurrence == c.Occurrence
		}
		if len(want) != 2 || c.Occurrence != "" && want[c.Occurrence] != strings.Contains(c.Occurrence, "~") {
			t.Fatal(want)
		}
		c.Key, c.From = "k", w.origin()
		w.command(&c)
		for _, f := range *facts {
			if f.Type == EscalationStopped && f.Reason == "ack" {
				if !want[f.Occurrence] || f.Attempt != 1 || f.Channel != "push" {
					t.Errorf("%s told that %q, attempt %d, was ended", c.Op, f.Occurrence, f.Attempt)
				}
				delete(want, f.Occurrence)
			}
		}
		for id, ended := range want {
			if ended {
				t.Errorf("%s ended %s, and did not say so", c.Op, id)
			}
		}
	}
}

// docs/operations/settings.md: receipts on a channel without them are events with reason
// no_receipts.
func TestReceiptOnAChannelWithoutReceipts(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "default", "ann", in(0))
	w.advance(w.now)
	id := last(t, facts, OccurrenceFired).Occurrence
	w.receive("k", &Receipt{Occurrence: id, Outcome: ReceiptRetry, Attempt: 1, At: w.now, Code: "503", Detail: "busy"})
	if f := last(t, facts, DeliveryRetried); f.Reason != "no_receipts" || f.State != Fired {
		t.Errorf("reason %s, state %s", f.Reason, f.State)
	}
	register(w, "push", "ann", in(time.Minute))
	w.advance(w.now.Add(time.Minute))
	id = last(t, facts, OccurrenceFired).Occurrence
	for range 2 {
		w.receive("k", &Receipt{Occurrence: id, Outcome: ReceiptDelivered, Attempt: 1, At: w.now})
	}
	if f := last(t, facts, DeliveryDelivered); f.Reason != "late" {
		t.Errorf("the second receipt: reason %s", f.Reason)
	}
}

// A receipt that is late is of the channel that wrote it, though its trigger has moved to another one since.
func TestLateReceiptOfTheChannelBefore(t *testing.T) {
	for _, c := range []struct{ before, now, says, channel, reason string }{
		{"push", "default", "push", "push", "late"},
		{"default", "push", "default", "default", "no_receipts"},
		{"push", "default", "", "default", "no_receipts"}, // it does not say
	} {
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		facts := collectFacts(w)
		register(w, c.before, "ann", in(0))
		w.advance(w.now)
		r := &Receipt{
			Occurrence: last(t, facts, OccurrenceFired).Occurrence, Outcome: ReceiptDelivered, Attempt: 1, At: w.now,
			Channel: c.says,
		}
		w.receive("k", r)
		register(w, c.now, "ann", in(time.Hour))
		w.receive("k", r)
		if f := last(t, facts, DeliveryDelivered); f.Channel != c.channel || f.Reason != c.reason {
			t.Errorf("%s, now %s, receipt of %q: channel %s, reason %s", c.before, c.now, c.says, f.Channel, f.Reason)
		}
	}
}

// docs/formats/receipts.md: bad news decides only the emission in flight, so none of an
// attempt that never went out.
func TestReceiptOfAnAttemptThatNeverWentOut(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", in(0))
	w.advance(w.now)
	id := last(t, facts, OccurrenceFired).Occurrence
	w.receive("k", &Receipt{Occurrence: id, Outcome: ReceiptFailed, Attempt: 7, At: w.now})
	if f := last(t, facts, DeliveryFailed); f.Reason != "late" || w.states["k"].Status != InFlight {
		t.Errorf("attempt 7 was told as %q and made the trigger %s; attempt 1 is in flight", f.Reason,
			w.states["k"].Status)
	}
}

// TestFactOfWhatIsNeverEmitted: an occurrence goes to its dead letter without ever being emitted,
// while one of the content before is in flight. The event says the status that the trigger has
// afterwards.
func TestFactOfWhatIsNeverEmitted(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", in(time.Minute))
	w.advance(w.now.Add(time.Minute))
	register(w, "push", "bob", in(time.Minute))
	w.refuse = true
	w.advance(w.now.Add(30 * time.Minute))
	if f, s := last(t, facts, DeadLettered), w.states["k"]; f.State != s.Status || s.Status != InFlight {
		t.Errorf("the event says %v, the trigger is %v", f.State, s.Status)
	}
}

// An occurrence that waits for its receipt keeps the time at which it first went out, also when
// more occurrences have gone out since than a state remembers.
func TestFirstEmissionOutlivesTheFiringsThatAreKept(t *testing.T) {
	w := newWorld(t, instant("2026-03-02T09:00:00Z"))
	facts := collectFacts(w)
	register(w, "push", "ann", When{Kind: WhenRecurrence, Recurrence: "every:1m"})
	w.advance(w.now.Add((keepFirings + 2) * time.Minute))
	var fired []Fact
	for _, f := range *facts {
		if f.Type == OccurrenceFired {
			fired = append(fired, f)
		}
	}
	if len(fired) != keepFirings+2 {
		t.Fatalf("%d fired, want %d", len(fired), keepFirings+2)
	}
	for _, f := range fired[:3] {
		w.receive("k", &Receipt{Occurrence: f.Occurrence, Outcome: ReceiptDelivered, Attempt: 1, At: w.now})
		if got := last(t, facts, DeliveryDelivered).FirstFired; got == 0 || got != f.FirstFired {
			t.Errorf("%s first went out at %s, and its receipt says %s", f.Occurrence, f.FirstFired, got)
		}
	}
}

// A redriven occurrence keeps the time at which it first went out, also when its trigger was forgotten meanwhile. One
// that never went out does so with the redrive.
func TestFirstEmissionOutlivesARedrive(t *testing.T) {
	for _, refused := range []bool{false, true} {
		w := newWorld(t, instant("2026-03-02T09:00:00Z"))
		var facts []Fact
		var dead []DeadLetter
		w.observe = func(_ Instant, _ *State, out Outcome) {
			facts, dead = append(facts, out.Facts...), append(dead, out.Dead...)
		}
		w.refuse = refused
		register(w, "push", "ann", in(time.Minute))
		w.advance(w.now.Add(30 * time.Minute))
		first := Instant(0)
		if !refused {
			f := last(t, &facts, OccurrenceFired)
			first = f.FirstFired
			w.receive("k", &Receipt{Occurrence: f.Occurrence, Outcome: ReceiptFailed, Attempt: 1, At: w.now})
		}
		w.refuse = false
		if len(dead) != 1 || dead[0].Fire.FirstFired != first {
			t.Fatalf("refused %v: %d dead letters; first went out at %s, want %s", refused, len(dead),
				dead[0].Fire.FirstFired, first)
		}
		w.advance(w.now.Add(3 * 24 * time.Hour))
		if w.states["k"] != nil {
			t.Fatal("it is not forgotten")
		}
		f := carried(dead[0].Fire)
		w.command(&Command{Key: "k", Op: OpRedrive, From: w.origin(), Dead: &f})
		w.advance(w.now.Add(time.Minute))
		if refused {
			first = w.now.Add(-time.Minute)
		}
		if got := last(t, &facts, OccurrenceFired).FirstFired; got != first {
			t.Errorf("refused %v: after the redrive it first went out at %s, want %s", refused, got, first)
		}
		redriven := last(t, &facts, OccurrenceFired)
		w.receive("k", &Receipt{
			Occurrence: redriven.Occurrence, Outcome: ReceiptFailed, Attempt: redriven.Attempt, At: w.now,
		})
		if len(dead) != 2 || dead[1].Fire.FirstFired != first {
			t.Fatalf("refused %v: the second dead letter: %+v", refused, dead)
		}
		f = carried(dead[1].Fire)
		w.command(&Command{Key: "k", Op: OpRedrive, From: w.origin(), Dead: &f})
		w.advance(w.now.Add(time.Minute))
		if got := last(t, &facts, OccurrenceFired); got.Attempt != redriven.Attempt+1 || got.FirstFired != first {
			t.Errorf("refused %v: after another redrive attempt %d first went out at %s, want %s", refused, got.Attempt,
				got.FirstFired, first)
		}
	}
}

// docs/formats/receipts.md: a worker's code is never one of the reasons by which the engine says that a receipt
// decided nothing.
func TestWorkersCodeIsNoReasonOfTheEngine(t *testing.T) {
	for _, code := range []string{"late", "unknown", "no_receipts"} {
		for outcome := ReceiptDelivered; outcome <= ReceiptSuppressed; outcome++ {
			w := newWorld(t, instant("2026-03-02T09:00:00Z"))
			facts := collectFacts(w)
			register(w, "push", "ann", in(0))
			w.advance(w.now)
			id := last(t, facts, OccurrenceFired).Occurrence
			w.receive("k", &Receipt{Occurrence: id, Outcome: outcome, Attempt: 1, At: w.now, Code: code})
			if f := last(t, facts, receiptFacts[outcome]); f.Reason != "worker_"+code {
				t.Errorf("%s with code %s decided, with reason %q", outcome, code, f.Reason)
			}
			for _, f := range *facts {
				if f.Reason == code {
					t.Errorf("%s with code %s: %s has it as its reason", outcome, code, f.Type)
				}
			}
		}
	}
}
