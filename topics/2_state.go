package topics

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waterclock/waterclock/trigger"
)

// lastLiveKind is the highest kind the schema knows.
const lastLiveKind = trigger.LiveEscalating

// AppendState appends the value of a trigger's record on topic state
// (schemas/waterclock/v1/state.proto). The key is not in it. It fails only on a State that a
// Machine cannot have made: an unknown status or enum, or a string that is not UTF-8.
func AppendState(b []byte, s *trigger.State) ([]byte, error) { return AppendStateAs(b, s, Oldest) }

// AppendStateAs is AppendState in another format.
func AppendStateAs(b []byte, s *trigger.State, f Format) ([]byte, error) {
	if err := checkEnums(s); err != nil {
		return b, fmt.Errorf("encode state of %q: %w", s.Key, err)
	}
	w := wire{b: b, format: f}
	w.int(1, int64(f))
	w.state(s)
	if w.err != nil {
		return b, fmt.Errorf("encode state of %q: %w", s.Key, w.err)
	}
	return w.b, nil
}

// stateStart is how every State, Progress and Guard begins: field 1, a number that is never 0.
// Nothing else that the engine writes without headers does.
const stateStart = 1<<3 | byte(protowire.VarintType)

// IsState reports whether a record's value is one that the engine writes to topic state, a
// tombstone included. It does not know the nonce.
func IsState(value []byte) bool { return value == nil || len(value) > 0 && value[0] == stateStart }

func checkEnums(s *trigger.State) error {
	if s.Status > trigger.Erased {
		return fmt.Errorf("status %d does not exist", s.Status)
	}
	if err := checkSpecEnums(&s.Spec); err != nil {
		return err
	}
	for i := range s.Live {
		l := &s.Live[i]
		if l.Kind > lastLiveKind {
			return fmt.Errorf("live kind %d does not exist", l.Kind)
		}
		if l.Was != nil {
			if err := checkSpecEnums(l.Was); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkSpecEnums(s *trigger.Spec) error {
	switch {
	case s.When.Kind > trigger.WhenRecurrence:
		return fmt.Errorf("time kind %d does not exist", s.When.Kind)
	case s.Priority > trigger.Low:
		return fmt.Errorf("priority %d does not exist", s.Priority)
	case s.Misfire > trigger.SkipMissed:
		return fmt.Errorf("misfire policy %d does not exist", s.Misfire)
	}
	return nil
}

func (w *wire) state(s *trigger.State) {
	w.int(2, int64(s.Status))
	w.int(3, s.Revision)
	w.int(4, s.Seq)
	w.life(5, &s.Life)
	start := len(w.b)
	mark := w.open(6)
	w.spec(&s.Spec)
	w.closeUnlessEmpty(start, mark)
	w.id(7, s.Hash)
	w.series(8, &s.Series)
	for i := range s.Live {
		w.live(9, s.Live, i)
	}
	for i := range s.Keys {
		w.idempotencyKey(10, &s.Keys[i])
	}
	for i := range s.Done {
		w.firing(11, &s.Done[i])
	}
	w.int(12, int64(s.LastAppend))
	w.int(13, int64(s.CreatedAt))
	w.int(14, int64(s.UpdatedAt))
	w.int(15, int64(s.ForgetAt))
	w.str(16, s.Note)
	w.bool(17, s.Trimmed)
	if w.format >= Deliveries {
		for i := range s.Redriven {
			w.redrive(18, &s.Redriven[i])
		}
	}
	if w.format >= Erasures {
		w.erasure(19, &s.Erasure)
	}
}

func (w *wire) life(n protowire.Number, l *trigger.Life) {
	start, mark := len(w.b), w.open(n)
	w.int(1, int64(l.Partition))
	w.int(2, l.Offset)
	w.bool(3, l.Later)
	w.closeUnlessEmpty(start, mark)
}

func (w *wire) series(n protowire.Number, s *trigger.Series) {
	start, mark := len(w.b), w.open(n)
	w.int(1, int64(s.At))
	w.str(2, s.Occurrence)
	w.str(3, s.Local)
	w.str(4, s.Start)
	w.int(5, int64(s.After))
	w.str(6, s.TZData)
	w.strs(7, s.Skip)
	w.int(8, int64(s.Retry))
	w.int(9, s.Jitter)
	w.int(10, int64(s.MissedUntil))
	w.int(11, int64(s.RetryAt))
	if w.format >= DecidedNames {
		w.nameSteps(12, s.Decided)
		w.nameSteps(13, s.Begun)
	}
	w.closeUnlessEmpty(start, mark)
}

func (w *wire) nameSteps(n protowire.Number, steps []trigger.NameStep) {
	for _, s := range steps {
		mark := w.open(n)
		w.int(1, int64(s.Until))
		w.int(2, int64(s.Day))
		w.close(mark)
	}
}

func (w *wire) live(n protowire.Number, all []trigger.Live, i int) {
	l, mark := &all[i], w.open(n)
	w.int(1, int64(l.Kind))
	w.str(2, l.Occurrence)
	w.int(3, int64(l.Nominal))
	w.str(4, l.Local)
	w.int(5, int64(l.Due))
	w.int(6, int64(l.Step))
	w.int(7, int64(l.Attempt))
	w.int(8, l.Revision)
	w.bool(9, l.Accepted)
	first := firstWas(all, i)
	if l.Was != nil && first == i {
		was := w.open(10)
		w.spec(l.Was)
		w.close(was)
	}
	w.int(11, int64(l.EmitRetry))
	if first < i {
		w.int(12, int64(first)+1)
	}
	if w.format >= Deliveries {
		w.int(13, int64(l.Postponed))
		w.int(14, int64(l.FirstSent))
		w.int(15, int64(l.AttemptsBeforeRedrive))
		w.int(16, int64(l.NextStep))
		w.int(17, int64(l.FirstFired))
	}
	if w.format >= RunNotes {
		w.str(18, l.Note)
	}
	w.close(mark)
}

// firstWas is the index of the first occurrence with the same Was as the ith one, or i. All
// occurrences that were in flight when a trigger was replaced share one Spec, and 128 copies
// of it would not fit into a record.
func firstWas(all []trigger.Live, i int) int {
	was := all[i].Was
	if was == nil {
		return i
	}
	for j := range i {
		if all[j].Was == was {
			return j
		}
	}
	return i
}

func (w *wire) idempotencyKey(n protowire.Number, k *trigger.IdempotencyKey) {
	mark := w.open(n)
	w.str(1, k.Key)
	w.id(2, k.Hash)
	w.close(mark)
}

func (w *wire) redrive(n protowire.Number, r *trigger.Redrive) {
	mark := w.open(n)
	w.str(1, r.Occurrence)
	w.int(2, int64(r.Step))
	w.int(3, int64(r.Attempt))
	w.close(mark)
}

func (w *wire) erasure(n protowire.Number, e *trigger.Erasure) {
	start, mark := len(w.b), w.open(n)
	w.int(1, e.Revision)
	w.int(2, int64(e.Partition))
	w.int(3, e.Offset)
	w.closeUnlessEmpty(start, mark)
}

func (w *wire) firing(n protowire.Number, f *trigger.Firing) {
	mark := w.open(n)
	w.str(1, f.Occurrence)
	w.int(2, int64(f.At))
	w.int(3, int64(f.Nominal))
	w.str(4, f.Topic)
	w.int(5, int64(f.Partition))
	w.close(mark)
}

func (w *wire) spec(s *trigger.Spec) {
	w.when(1, &s.When)
	w.str(2, s.Channel)
	w.str(3, s.UserID)
	w.bytes(4, s.Payload)
	w.str(5, s.ContentType)
	w.str(6, s.TargetKey)
	for i := range s.Headers {
		mark := w.open(7)
		w.str(1, s.Headers[i].Key)
		w.bytes(2, s.Headers[i].Value)
		w.close(mark)
	}
	for i := range s.Tags {
		mark := w.open(8)
		w.str(1, s.Tags[i].Key)
		w.str(2, s.Tags[i].Value)
		w.close(mark)
	}
	w.int(9, int64(wirePriority[s.Priority]))
	w.int(10, int64(s.Jitter))
	w.int(11, int64(s.Expires))
	w.int(12, int64(s.Misfire))
	w.bool(13, s.FollowUser)
	if s.Callback != nil {
		w.callback(14, s.Callback)
	}
	w.str(15, s.CorrelationID)
	w.str(16, s.TraceParent)
	if w.format >= Deliveries {
		for i := range s.Escalation {
			mark := w.open(17)
			w.str(1, s.Escalation[i].Channel)
			w.int(2, int64(s.Escalation[i].After))
			w.close(mark)
		}
	}
}

// wirePriority maps trigger.Priority (lower fires first) to the schema's numbers, where 0 is
// the default. The same map is its inverse.
var wirePriority = [...]trigger.Priority{trigger.High: 1, trigger.Normal: 0, trigger.Low: 2}

func (w *wire) when(n protowire.Number, t *trigger.When) {
	start, mark := len(w.b), w.open(n)
	w.int(1, int64(t.Kind))
	w.str(2, t.DelayText)
	w.int(3, int64(t.Delay))
	w.int(4, int64(t.FireAt))
	w.str(5, t.Local)
	w.str(6, t.Zone)
	w.str(7, t.Recurrence)
	w.str(8, t.Start)
	w.strs(9, t.Include)
	w.strs(10, t.Exclude)
	w.str(11, t.Until)
	w.int(12, int64(t.Count))
	w.str(13, t.DST.Gap)
	w.str(14, t.DST.Overlap)
	if t.Calendars != nil {
		cal := w.open(15)
		w.strs(1, t.Calendars.Names)
		w.str(2, t.Calendars.On)
		w.close(cal)
	}
	w.closeUnlessEmpty(start, mark)
}

func (w *wire) callback(n protowire.Number, c *trigger.Callback) {
	mark := w.open(n)
	w.str(1, c.URL)
	w.int(2, int64(c.Timeout))
	w.durations(3, c.Retry)
	w.bool(4, c.Retry != nil && len(c.Retry) == 0)
	if w.format >= Deliveries {
		w.bool(5, c.Raw)
		w.bool(6, c.Recheck)
	}
	w.close(mark)
}

func (w *wire) durations(n protowire.Number, list []time.Duration) {
	start, mark := len(w.b), w.open(n)
	for _, d := range list {
		w.b = protowire.AppendVarint(w.b, uint64(d))
	}
	w.closeUnlessEmpty(start, mark)
}
