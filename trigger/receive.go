package trigger

import (
	"cmp"
	"slices"
)

// The reasons in facts about receipts that decided nothing.
const (
	ReasonLate       = "late"
	ReasonUnknown    = "unknown"     // nothing is known of the trigger
	ReasonNoReceipts = "no_receipts" // the channel has no receipts
)

// Receive applies a receipt. A receipt that fits nothing in flight only adds a fact.
func (m *Machine) Receive(s *State, r *Receipt, now Instant) Outcome {
	if s == nil {
		f := receiptFact(r)
		f.Reason = ReasonUnknown
		return Outcome{Facts: []Fact{f}}
	}
	d := m.begin(s, now)
	i := s.receivable(r)
	if i < 0 {
		f := receiptFact(r)
		f.Reason = ReasonLate
		channel := cmp.Or(r.Channel, s.Spec.ChannelOfStep(r.Step)) // the trigger may have moved to another one since
		if channel != "" && !m.Channel(channel).Receipts {
			f.Reason = ReasonNoReceipts
		}
		if s.Status == Erased {
			f.Detail = "" // the detail may name the user whose data was erased
		}
		late := d.addFact(f)
		late.Channel, late.FirstFired = channel, s.firstFired(r.Occurrence)
		return d.finish()
	}
	d.receive(i, r)
	return d.finish()
}

// receivable is the index of the occurrence that a receipt decides, -1 if there is none.
// Delivered and accepted count for any attempt of any step while the occurrence is open, also
// between two attempts. Other outcomes count only for the emission in flight, which step,
// attempt and the number of postponements identify.
func (s *State) receivable(r *Receipt) int {
	return slices.IndexFunc(s.Live, func(l Live) bool {
		switch {
		case l.Occurrence != r.Occurrence:
			return false
		case r.good():
			return l.open() && r.Step <= l.Step
		}
		return l.Kind == LiveInFlight && l.Step == r.Step && (r.Attempt == 0 || r.Attempt == l.Attempt) &&
			(r.Postponed < 0 || r.Postponed == l.Postponed)
	})
}

func (r *Receipt) good() bool { return r.Outcome == ReceiptDelivered || r.Outcome == ReceiptAccepted }

var receiptFacts = [...]FactType{
	ReceiptDelivered: DeliveryDelivered, ReceiptAccepted: DeliveryAccepted,
	ReceiptFailed: DeliveryFailed, ReceiptRetry: DeliveryRetried, ReceiptPostponed: DeliveryPostponed,
	ReceiptSuppressed: DeliverySuppressed,
}

func receiptFact(r *Receipt) Fact {
	return Fact{
		Type: receiptFacts[r.Outcome], Occurrence: r.Occurrence, Step: r.Step, Attempt: r.Attempt, HasStep: true,
		Reason: r.reason(), Detail: r.Detail,
	}
}

// reason is the code of the worker. A prefix keeps it apart from the engine's own reasons.
func (r *Receipt) reason() string {
	switch r.Code {
	case ReasonLate, ReasonUnknown, ReasonNoReceipts:
		return "worker_" + r.Code
	}
	return r.Code
}

// addReceiptFact adds a receipt's fact, about l's current step or an earlier one. A receipt
// without an attempt is about the one in flight.
func (d *decision) addReceiptFact(l *Live, r *Receipt) *Fact {
	f, of := receiptFact(r), *l
	if f.Attempt = cmp.Or(r.Attempt, l.Attempt); r.Step != l.Step {
		of.Step, f.Attempt = r.Step, max(1, r.Attempt)
	}
	return d.ofContent(&of, d.addFact(f))
}

func (d *decision) receive(i int, r *Receipt) {
	s := d.s
	l := s.Live[i]
	s.Live = slices.Delete(slices.Clone(s.Live), i, i+1)
	d.showStatus()
	d.out.Delivered = d.content(&l).ChannelOfStep(r.Step)
	switch r.Outcome {
	case ReceiptRetry:
		d.retry(&l, r.RetryAfter, r.At, r.reason(), r.Detail)
		d.deriveStatusUnlessEnded()
	case ReceiptPostponed:
		d.postpone(&l, r)
	case ReceiptFailed:
		d.fail(&l, receiptFact(r), r.reason(), r.Detail)
	case ReceiptAccepted:
		d.accept(&l, r)
	case ReceiptSuppressed:
		d.suppress(&l, r)
	default:
		d.deliver(&l, r)
	}
}

// showStatus sets the status that deriveStatus will set later for a one-shot that goes on. So the
// fact shows the right status.
func (d *decision) showStatus() {
	s := d.s
	switch {
	case s.Status == InFlight && s.waiting():
		s.Status = Pending
	case (s.Status == Pending || s.Status == Paused) && !s.Recurring() && s.Series.At == 0 &&
		!s.waiting() && len(s.Live) > 0:
		s.Status = InFlight
	}
}

// endsNow reports whether there is nothing left to wait for.
func (d *decision) endsNow() bool { return d.s.Series.At == 0 && len(d.s.Live) == 0 }

func (d *decision) deriveStatusUnlessEnded() {
	if !d.s.Status.Finished() {
		d.deriveStatus()
	}
}

// endOrDeriveStatus fails a one-shot that has nothing else to wait for. A failed occurrence
// never fails a series.
func (d *decision) endOrDeriveStatus() {
	if d.endsNow() && !d.s.Recurring() {
		d.end(Failed)
		d.addFact(Fact{Type: FailedFact})
		return
	}
	d.deriveStatus()
}
