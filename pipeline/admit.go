package pipeline

import (
	"strconv"

	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// isDuplicate reports whether a command changed nothing. The fact before it may say that the plan moved: an edit of a
// calendar counts before a command does.
func isDuplicate(out *trigger.Outcome) bool {
	n := len(out.Facts)
	return n > 0 && out.Facts[n-1].Type == trigger.Duplicate
}

// admit checks what only the engine knows: the size of the record, channels and limits. It
// runs after the decision. So a repeated command stays a duplicate, and a replacement does
// not count as one more trigger.
func (p *Partition) admit(t *turn, cmd *trigger.Command, e *entry, out *trigger.Outcome) *trigger.Error {
	if out.Rejected != nil || !out.Changed {
		return nil
	}
	if !addsNothing[cmd.Op] {
		if err := p.kafka.sizes.tooLarge(out); err != nil {
			return err
		}
	}
	if cmd.Op != trigger.OpRegister || isDuplicate(out) {
		return nil
	}
	if err := p.admitVersion(cmd.Spec); err != nil {
		return err
	}
	known := quota.Alive(e.status())
	if limit, err := p.quota.Admit(cmd.Key.Tenant(), cmd.From.Append, known); err != nil {
		t.overQuota = append(t.overQuota, limit)
		return err
	}
	if !known && p.opts.MaxPending > 0 && p.store.PendingCount() >= p.opts.MaxPending {
		return &trigger.Error{Code: trigger.CodeOverloaded, Msg: "the partition holds " +
			strconv.FormatInt(p.opts.MaxPending, 10) + " triggers, its limit (limits.max_pending)"}
	}
	return p.opts.register.admit(cmd.Key.Tenant(), cmd.Spec.Channels()...)
}

// admitVersion refuses a register that a member of an older version would corrupt if it
// owned the partition next.
func (p *Partition) admitVersion(s *trigger.Spec) *trigger.Error {
	if len(s.Escalation) == 0 || max(p.opts.writes(), p.progress.Format) >= topics.Deliveries {
		return nil
	}
	return &trigger.Error{
		Code: trigger.CodeUnsupported, Field: "escalation",
		Msg: "an instance of this cluster runs a version without escalation: try again when all are upgraded",
	}
}
