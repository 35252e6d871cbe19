package topics

import (
	"bytes"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// DecodeState reads what AppendState wrote under key, into a State that shares no memory with
// b. Bytes of a newer version give an error that wraps ErrNewer. Unknown fields are not
// skipped, because the next write of the trigger would lose them.
func DecodeState(key trigger.Key, b []byte) (*trigger.State, error) {
	s := new(trigger.State)
	if err := DecodeStateInto(s, key, bytes.Clone(b)); err != nil {
		return nil, err
	}
	return s, nil
}

// DecodeStateInto is DecodeState into the caller's State, which shares memory with b. It is
// for callers that read many states and keep none.
func DecodeStateInto(s *trigger.State, key trigger.Key, b []byte) error {
	*s = trigger.State{Key: key}
	s.Spec.Priority = trigger.Normal // 0 on the wire
	if err := decodeState(b, s); err != nil {
		return fmt.Errorf("decode state of %q: %w", key, err)
	}
	return nil
}

func decodeState(b []byte, s *trigger.State) error {
	format := uint64(0)
	err := fields(b, func(fv fieldValue) error {
		if fv.num == 1 && fv.typ == protowire.VarintType {
			format = fv.v
			return nil
		}
		if fv.typ == protowire.BytesType {
			return decodeStatePart(fv, s)
		}
		return decodeStateNumber(fv, s)
	})
	if err != nil {
		return err
	}
	return checkFormat(format, uint64(Newest))
}

// checkFormat refuses format 0, which nothing ever wrote, and newer ones.
func checkFormat(have, newest uint64) error {
	switch {
	case have > newest:
		return fmt.Errorf("format %d, this version knows up to %d: %w", have, newest, ErrNewer)
	case have == 0:
		return fmt.Errorf("the format is missing")
	}
	return nil
}

func decodeStateNumber(fv fieldValue, s *trigger.State) (err error) {
	if fv.typ != protowire.VarintType {
		return fv.unknown("state")
	}
	switch fv.num {
	case 2:
		var v uint8
		v, err = fv.enum(uint64(trigger.Erased))
		s.Status = trigger.Status(v)
	case 3:
		s.Revision = int64(fv.v)
	case 4:
		s.Seq = int64(fv.v)
	case 12:
		s.LastAppend = trigger.Instant(fv.v)
	case 13:
		s.CreatedAt = trigger.Instant(fv.v)
	case 14:
		s.UpdatedAt = trigger.Instant(fv.v)
	case 15:
		s.ForgetAt = trigger.Instant(fv.v)
	case 17:
		s.Trimmed = fv.v != 0
	default:
		return fv.unknown("state")
	}
	return err
}

func decodeStatePart(fv fieldValue, s *trigger.State) error {
	switch fv.num {
	case 5:
		return decodeLife(fv.p, &s.Life)
	case 6:
		return decodeSpec(fv.p, &s.Spec)
	case 7:
		return fv.id((*[16]byte)(&s.Hash))
	case 8:
		return decodeSeries(fv.p, &s.Series)
	case 9:
		s.Live = append(s.Live, trigger.Live{})
		return decodeLive(fv.p, s.Live)
	case 10:
		s.Keys = append(s.Keys, trigger.IdempotencyKey{})
		return decodeIdempotencyKey(fv.p, &s.Keys[len(s.Keys)-1])
	case 11:
		s.Done = append(s.Done, trigger.Firing{})
		return decodeFiring(fv.p, &s.Done[len(s.Done)-1])
	case 16:
		return fv.text(&s.Note)
	case 18:
		s.Redriven = append(s.Redriven, trigger.Redrive{})
		return decodeRedrive(fv.p, &s.Redriven[len(s.Redriven)-1])
	case 19:
		return decodeErasure(fv.p, &s.Erasure)
	}
	return fv.unknown("state")
}

func decodeLife(b []byte, l *trigger.Life) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			l.Partition = int32(fv.v)
		case number | 2:
			l.Offset = int64(fv.v)
		case number | 3:
			l.Later = fv.v != 0
		default:
			return fv.unknown("life")
		}
		return nil
	})
}

func decodeSeries(b []byte, s *trigger.Series) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			s.At = trigger.Instant(fv.v)
		case data | 2:
			return fv.text(&s.Occurrence)
		case data | 3:
			return fv.text(&s.Local)
		case data | 4:
			return fv.text(&s.Start)
		case number | 5:
			s.After = trigger.Instant(fv.v)
		case data | 6:
			return fv.text(&s.TZData)
		case data | 7:
			return fv.texts(&s.Skip)
		case number | 8:
			s.Retry = int(fv.v)
		case number | 9:
			s.Jitter = int64(fv.v)
		case number | 10:
			s.MissedUntil = trigger.Instant(fv.v)
		case number | 11:
			s.RetryAt = trigger.Instant(fv.v)
		case data | 12:
			return decodeNameStep(fv.p, &s.Decided)
		case data | 13:
			return decodeNameStep(fv.p, &s.Begun)
		default:
			return fv.unknown("series")
		}
		return nil
	})
}

func decodeNameStep(b []byte, all *[]trigger.NameStep) error {
	var s trigger.NameStep
	err := fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			s.Until = calendar.Wall(fv.v)
		case number | 2:
			s.Day = calendar.Date(fv.v)
		default:
			return fv.unknown("name step")
		}
		return nil
	})
	*all = append(*all, s)
	return err
}

// decodeLive reads the last occurrence of all. Those before it are complete.
func decodeLive(b []byte, all []trigger.Live) error {
	before, l := all[:len(all)-1], &all[len(all)-1]
	return fields(b, func(fv fieldValue) (err error) {
		switch fv.key() {
		case number | 1:
			var v uint8
			v, err = fv.enum(uint64(lastLiveKind))
			l.Kind = trigger.LiveKind(v)
		case data | 2:
			err = fv.text(&l.Occurrence)
		case number | 3:
			l.Nominal = trigger.Instant(fv.v)
		case data | 4:
			err = fv.text(&l.Local)
		case number | 5:
			l.Due = trigger.Instant(fv.v)
		case number | 6:
			l.Step = int(fv.v)
		case number | 7:
			l.Attempt = int(fv.v)
		case number | 8:
			l.Revision = int64(fv.v)
		case number | 9:
			l.Accepted = fv.v != 0
		case data | 10:
			if l.Was == nil {
				l.Was = &trigger.Spec{Priority: trigger.Normal}
			}
			err = decodeSpec(fv.p, l.Was)
		case number | 11:
			l.EmitRetry = int(fv.v)
		case number | 12:
			if fv.v == 0 || fv.v > uint64(len(before)) || before[fv.v-1].Was == nil {
				return fmt.Errorf("live refers to the content of occurrence %d, which has none", fv.v)
			}
			l.Was = before[fv.v-1].Was
		case number | 13:
			l.Postponed = int(fv.v)
		case number | 14:
			l.FirstSent = trigger.Instant(fv.v)
		case number | 15:
			l.AttemptsBeforeRedrive = int(fv.v)
		case number | 16:
			l.NextStep = trigger.Instant(fv.v)
		case number | 17:
			l.FirstFired = trigger.Instant(fv.v)
		case data | 18:
			err = fv.text(&l.Note)
		default:
			err = fv.unknown("live")
		}
		return err
	})
}

func decodeIdempotencyKey(b []byte, k *trigger.IdempotencyKey) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&k.Key)
		case data | 2:
			return fv.id((*[16]byte)(&k.Hash))
		}
		return fv.unknown("idempotency key")
	})
}

func decodeRedrive(b []byte, r *trigger.Redrive) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&r.Occurrence)
		case number | 2:
			r.Step = int(fv.v)
		case number | 3:
			r.Attempt = int(fv.v)
		default:
			return fv.unknown("redrive")
		}
		return nil
	})
}

func decodeErasure(b []byte, e *trigger.Erasure) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case number | 1:
			e.Revision = int64(fv.v)
		case number | 2:
			e.Partition = int32(fv.v)
		case number | 3:
			e.Offset = int64(fv.v)
		default:
			return fv.unknown("erasure")
		}
		return nil
	})
}

func decodeFiring(b []byte, f *trigger.Firing) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&f.Occurrence)
		case number | 2:
			f.At = trigger.Instant(fv.v)
		case number | 3:
			f.Nominal = trigger.Instant(fv.v)
		case data | 4:
			return fv.text(&f.Topic)
		case number | 5:
			f.Partition = int32(fv.v)
		default:
			return fv.unknown("firing")
		}
		return nil
	})
}
