package trigger

import (
	"cmp"
	"slices"
)

// ReasonNoReceipts is the reason of a receipt on a channel without receipts:
// nothing waits for it.
const ReasonNoReceipts = "no_receipts"

// Receive takes what a channel says became of a due event. A receipt that
// fits nothing in flight is a fact and changes nothing else.
func (m *Machine) Receive(s *State, r *Receipt, now Instant) Outcome {
	if s == nil {
		f := receiptFact(r)
		f.Reason = "unknown"
		return Outcome{Facts: []Fact{f}}
	}
	d := m.begin(s, now)
	i := s.receivable(r)
	if i < 0 {
		f := receiptFact(r)
		f.Reason = "late"
		if s.Spec.Channel != "" && !m.Channel(s.Spec.Channel).Receipts {
			f.Reason = ReasonNoReceipts
		}
		if s.Status == Erased {
			f.Detail = "" // what a channel says may name the user that was to be forgotten
		}
		d.addFact(f)
		return d.finish()
	}
	d.receive(i, r)
	return d.finish()
}

// receivable finds the occurrence a receipt decides, -1 if it is too late to.
// Good news of any attempt counts as long as the occurrence is open, be it
// between two attempts; other news only of the emission in flight, which the
// attempt and the count of postponements tell apart.
func (s *State) receivable(r *Receipt) int {
	return slices.IndexFunc(s.Live, func(l Live) bool {
		switch {
		case l.Occurrence != r.Occurrence || l.Step != r.Step:
			return false
		case r.good():
			return l.Kind == LiveInFlight || l.Kind == LiveRetry
		}
		return l.Kind == LiveInFlight && (r.Attempt == 0 || r.Attempt == l.Attempt) &&
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
		Reason: r.Code, Detail: r.Detail,
	}
}

// addReceiptFact tells what was said of l; without an attempt it is the one in flight.
func (d *decision) addReceiptFact(l *Live, r *Receipt) *Fact {
	f := receiptFact(r)
	f.Attempt = cmp.Or(r.Attempt, l.Attempt)
	return d.ofContent(l, d.addFact(f))
}

func (d *decision) receive(i int, r *Receipt) {
	s := d.s
	l := s.Live[i]
	s.Live = slices.Delete(slices.Clone(s.Live), i, i+1)
	d.showWaiting()
	d.out.Delivered = d.content(&l).Channel
	switch r.Outcome {
	case ReceiptRetry:
		d.retry(&l, r.RetryAfter, r.At, r.Code, r.Detail)
		d.deriveStatusUnlessEnded()
	case ReceiptPostponed:
		d.postpone(&l, r)
	case ReceiptFailed:
		d.addReceiptFact(&l, r)
		d.deadLetter(&l, r.Code, r.Detail)
		d.endOrDeriveStatus()
	default: // delivered, accepted, suppressed
		ended := d.endsNow()
		if ended && !s.Recurring() {
			d.end(Fired)
		}
		d.addReceiptFact(&l, r)
		d.deriveStatusUnlessEnded()
	}
}

// showWaiting shows a one-shot as PENDING of which an occurrence is yet to fire,
// as deriveStatus will: a run_now adds no fact itself.
func (d *decision) showWaiting() {
	if d.s.Status == InFlight && d.s.waiting() {
		d.s.Status = Pending
	}
}

// endsNow says that nothing is left to wait for.
func (d *decision) endsNow() bool { return d.s.Series.At == 0 && len(d.s.Live) == 0 }

func (d *decision) deriveStatusUnlessEnded() {
	if !d.s.Status.Finished() {
		d.deriveStatus()
	}
}

// endOrDeriveStatus fails a one-shot with nothing else to wait for; a failed
// occurrence never fails a series.
func (d *decision) endOrDeriveStatus() {
	if d.endsNow() && !d.s.Recurring() {
		d.end(Failed)
		d.addFact(Fact{Type: FailedFact})
		return
	}
	d.deriveStatus()
}
