package trigger

import (
	"bytes"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// redrive sends a dead-lettered occurrence once more, with the same ce_id and the next
// attempt. The command carries the dead letter with its content, because a finished trigger
// has dropped it. If the occurrence is live, or was redriven from this attempt or a later
// one, the command is a duplicate.
func (d *decision) redrive(c *Command) *Error {
	if d.s != nil && (d.s.Status == Erased || d.s.erased(c.Dead)) {
		return &Error{Code: CodeNotFound, Msg: "the trigger and its dead letters were erased"}
	}
	dead := c.Dead
	switch {
	case dead.Nominal > d.now:
		return &Error{
			Code: CodeInvalid, Field: "scheduled_at",
			Msg: "scheduled_at of a dead letter must be in the past",
		}
	case d.s != nil && d.s.knowsRedrive(dead):
		return d.duplicate("redriven")
	case d.s != nil && d.s.yetToFire(dead):
		return d.duplicate("pending")
	}
	if err := d.allowed(c.Key, dead.Spec); err != nil {
		return err // its worker would refuse it, too
	}
	if d.s == nil || d.s.Status.Finished() {
		d.beginRedriven(c)
	}
	l := Live{
		// It is due since its command was appended, so the turn that decides it can also fire it.
		Kind: LiveRetry, Occurrence: dead.Occurrence, Nominal: dead.Nominal, Local: dead.Local,
		Due:  min(c.From.Append, d.now),
		Step: dead.Step, Attempt: dead.Attempt + 1, AttemptsBeforeRedrive: dead.Attempt, Revision: dead.Revision,
	}
	if known := d.s.firstFired(l.Occurrence); known == 0 || dead.FirstFired < known { // known may be that of a redrive
		l.FirstFired = min(dead.FirstFired, d.now) // anybody may write a redrive
	}
	l.Was = d.s.sharedContent(dead.Spec)
	d.keepRedrive(dead)
	d.addLive(l)
	d.deriveStatus()
	d.addFactOf(&l, Fact{Type: Redriven, Scheduled: l.Nominal, Local: l.Local})
	return nil
}

// knowsRedrive reports whether a dead letter's occurrence is live, or was redriven from this
// attempt or a later one.
func (s *State) knowsRedrive(dead *Fire) bool {
	return slices.ContainsFunc(s.Live, func(l Live) bool {
		return l.Occurrence == dead.Occurrence && l.Step == dead.Step
	}) || slices.ContainsFunc(s.Redriven, func(r Redrive) bool {
		return r.Occurrence == dead.Occurrence && r.Step == dead.Step && r.Attempt >= dead.Attempt
	})
}

// erased reports whether a dead letter is of a life that an erase ended. Every life after
// an erase has its place in the names of its occurrences. On the log of the erase, the
// offset tells which came first, also of a life that was forgotten before the erase. On
// another log the revision tells.
func (s *State) erased(dead *Fire) bool {
	e := &s.Erasure
	if e.Revision == 0 {
		return false
	}
	partition, offset, later := lifeOf(dead.Occurrence)
	switch {
	case !later:
		return true
	case partition == e.Partition:
		return offset < e.Offset
	}
	return dead.Revision <= e.Revision
}

// lifeOf returns where the life of an occurrence began. later is false for a first life,
// whose place its names do not have.
func lifeOf(occurrence string) (partition int32, offset int64, later bool) {
	_, mark, _ := strings.Cut(occurrence, "~")
	p, o, _ := strings.Cut(mark, "-")
	n, err := strconv.ParseInt(p, 10, 32)
	if err != nil {
		return 0, 0, false
	}
	offset, err = strconv.ParseInt(o, 10, 64)
	return int32(n), offset, err == nil
}

// erasure is what the next life must know of an erase. What was erased last has the place
// and the revision of its erase.
func (s *State) erasure() Erasure {
	if s.Status != Erased {
		return s.Erasure
	}
	return Erasure{Revision: s.Revision, Partition: s.Life.Partition, Offset: s.Life.Offset}
}

// yetToFire says that an occurrence is still before the series. No dead letter is of
// such a one, unless the key was forgotten since and registered for the same time.
func (s *State) yetToFire(dead *Fire) bool {
	return s.Series.At != 0 && dead.Nominal >= s.Series.At && !offThePlan(dead.Occurrence) &&
		strings.HasSuffix(dead.Occurrence, s.Life.suffix())
}

// beginRedriven revives a finished or unknown trigger for the redriven occurrence alone. Its
// content is from now on the dead letter's, unless the trigger has kept its own for a late
// snooze.
func (d *decision) beginRedriven(c *Command) {
	s := d.s
	if s == nil {
		s = &State{
			Key: c.Key, CreatedAt: c.From.Append,
			Life: Life{Partition: c.From.Partition, Offset: c.From.Offset},
		}
		d.s = s
	}
	if s.Status == Cancelled { // its life is over, and the start of that life is no longer known
		s.Life = Life{Partition: c.From.Partition, Offset: c.From.Offset, Later: true}
	}
	if !s.keepsContent() {
		s.Spec = *c.Dead.Spec
	}
	s.Spec.When = When{Kind: WhenInstant, FireAt: c.Dead.Nominal}
	s.Status, s.Revision = InFlight, max(s.Revision, 1)
	s.Trimmed, s.ForgetAt = false, 0
}

// keepsContent reports whether a finished trigger still has its content, for a late snooze.
func (s *State) keepsContent() bool {
	return (s.Status == Fired || s.Status == Expired) && !s.Trimmed
}

// keepRedrive stores the redrive, so that the same dead letter is not redriven twice.
func (d *decision) keepRedrive(dead *Fire) {
	s := d.s
	keep := make([]Redrive, 0, len(s.Redriven)+1)
	for _, r := range s.Redriven {
		if r.Occurrence != dead.Occurrence || r.Step != dead.Step {
			keep = append(keep, r)
		}
	}
	keep = append(keep, Redrive{Occurrence: dead.Occurrence, Step: dead.Step, Attempt: dead.Attempt})
	s.Redriven = keep[max(0, len(keep)-keepRedrives):]
}

// sharedContent is content, or an equal Spec that s already has. Occurrences share it,
// because 128 copies of a payload would not fit into one record.
func (s *State) sharedContent(content *Spec) *Spec {
	if sameDelivery(&s.Spec, content) {
		return nil
	}
	for i := range s.Live {
		if was := s.Live[i].Was; was != nil && sameDelivery(was, content) {
			return was
		}
	}
	return content
}

// sameDelivery reports whether two Specs make the same due event. It ignores the time fields
// and the misfire policy.
func sameDelivery(a, b *Spec) bool {
	return a.Channel == b.Channel && a.UserID == b.UserID && bytes.Equal(a.Payload, b.Payload) &&
		a.ContentType == b.ContentType && a.TargetKey == b.TargetKey && a.Priority == b.Priority &&
		a.Expires == b.Expires && a.CorrelationID == b.CorrelationID && a.TraceParent == b.TraceParent &&
		slices.Equal(a.Tags, b.Tags) && slices.Equal(a.Escalation, b.Escalation) &&
		reflect.DeepEqual(a.Callback, b.Callback) &&
		slices.EqualFunc(a.Headers, b.Headers, func(x, y Header) bool {
			return x.Key == y.Key && bytes.Equal(x.Value, y.Value)
		})
}
