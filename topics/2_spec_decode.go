package topics

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/waterclock/waterclock/trigger"
)

func decodeSpec(b []byte, s *trigger.Spec) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.typ {
		case protowire.VarintType:
			return decodeSpecNumber(fv, s)
		case protowire.BytesType:
			return decodeSpecPart(fv, s)
		}
		return fv.unknown("spec")
	})
}

func decodeSpecNumber(fv fieldValue, s *trigger.Spec) error {
	switch fv.num {
	case 9:
		v, err := fv.enum(2)
		if err == nil {
			s.Priority = wirePriority[v]
		}
		return err
	case 10:
		s.Jitter = time.Duration(fv.v)
	case 11:
		s.Expires = time.Duration(fv.v)
	case 12:
		v, err := fv.enum(uint64(trigger.SkipMissed))
		s.Misfire = trigger.Misfire(v)
		return err
	case 13:
		s.FollowUser = fv.v != 0
	default:
		return fv.unknown("spec")
	}
	return nil
}

func decodeSpecPart(fv fieldValue, s *trigger.Spec) error {
	switch fv.num {
	case 1:
		return decodeWhen(fv.p, &s.When)
	case 2:
		return fv.text(&s.Channel)
	case 3:
		return fv.text(&s.UserID)
	case 4:
		s.Payload = fv.p[:len(fv.p):len(fv.p)]
	case 5:
		return fv.text(&s.ContentType)
	case 6:
		return fv.text(&s.TargetKey)
	case 7:
		s.Headers = append(s.Headers, trigger.Header{})
		return decodeHeader(fv.p, &s.Headers[len(s.Headers)-1])
	case 8:
		s.Tags = append(s.Tags, trigger.Tag{})
		return decodeTag(fv.p, &s.Tags[len(s.Tags)-1])
	case 14:
		if s.Callback == nil {
			s.Callback = new(trigger.Callback)
		}
		return decodeCallback(fv.p, s.Callback)
	case 15:
		return fv.text(&s.CorrelationID)
	case 16:
		return fv.text(&s.TraceParent)
	case 17:
		s.Escalation = append(s.Escalation, trigger.Step{})
		return decodeStep(fv.p, &s.Escalation[len(s.Escalation)-1])
	default:
		return fv.unknown("spec")
	}
	return nil
}

func decodeHeader(b []byte, h *trigger.Header) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&h.Key)
		case data | 2:
			h.Value = fv.p[:len(fv.p):len(fv.p)]
			return nil
		}
		return fv.unknown("header")
	})
}

func decodeStep(b []byte, s *trigger.Step) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&s.Channel)
		case number | 2:
			s.After = time.Duration(fv.v)
			return nil
		}
		return fv.unknown("step")
	})
}

func decodeTag(b []byte, t *trigger.Tag) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&t.Key)
		case data | 2:
			return fv.text(&t.Value)
		}
		return fv.unknown("tag")
	})
}

func decodeCallback(b []byte, c *trigger.Callback) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.text(&c.URL)
		case number | 2:
			c.Timeout = time.Duration(fv.v)
		case number | 3:
			c.Retry = append(c.Retry, time.Duration(fv.v))
		case data | 3:
			return decodeDurations(fv.p, &c.Retry)
		case number | 4:
			if fv.v != 0 && c.Retry == nil {
				c.Retry = []time.Duration{}
			}
		case number | 5:
			c.Raw = fv.v != 0
		case number | 6:
			c.Recheck = fv.v != 0
		default:
			return fv.unknown("callback")
		}
		return nil
	})
}

func decodeDurations(b []byte, to *[]time.Duration) error {
	for len(b) > 0 {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		*to = append(*to, time.Duration(v))
		b = b[n:]
	}
	return nil
}

func decodeWhen(b []byte, t *trigger.When) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.typ {
		case protowire.VarintType:
			return decodeWhenNumber(fv, t)
		case protowire.BytesType:
			return decodeWhenText(fv, t)
		}
		return fv.unknown("when")
	})
}

func decodeWhenNumber(fv fieldValue, t *trigger.When) error {
	switch fv.num {
	case 1:
		v, err := fv.enum(uint64(trigger.WhenRecurrence))
		t.Kind = trigger.WhenKind(v)
		return err
	case 3:
		t.Delay = time.Duration(fv.v)
	case 4:
		t.FireAt = trigger.Instant(fv.v)
	case 12:
		t.Count = int(fv.v)
	default:
		return fv.unknown("when")
	}
	return nil
}

func decodeWhenText(fv fieldValue, t *trigger.When) error {
	switch fv.num {
	case 2:
		return fv.text(&t.DelayText)
	case 5:
		return fv.text(&t.Local)
	case 6:
		return fv.text(&t.Zone)
	case 7:
		return fv.text(&t.Recurrence)
	case 8:
		return fv.text(&t.Start)
	case 9:
		return fv.texts(&t.Include)
	case 10:
		return fv.texts(&t.Exclude)
	case 11:
		return fv.text(&t.Until)
	case 13:
		return fv.text(&t.DST.Gap)
	case 14:
		return fv.text(&t.DST.Overlap)
	case 15:
		if t.Calendars == nil {
			t.Calendars = new(trigger.Calendars)
		}
		return decodeCalendars(fv.p, t.Calendars)
	}
	return fv.unknown("when")
}

func decodeCalendars(b []byte, c *trigger.Calendars) error {
	return fields(b, func(fv fieldValue) error {
		switch fv.key() {
		case data | 1:
			return fv.texts(&c.Names)
		case data | 2:
			return fv.text(&c.On)
		}
		return fv.unknown("calendars")
	})
}
