package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// verdict is what became of a command: decided, or durable and to be decided.
type verdict struct {
	decided bool
	async   bool           // nobody was asked for the decision, as the caller prefers it
	state   *trigger.State // as the command left it
	facts   []trigger.FactType
}

func (v *verdict) has(f trigger.FactType) bool { return slices.Contains(v.facts, f) }

// decider asks owners what they decided about commands that are durable.
type decider struct {
	router *peer.Router
	within time.Duration
	log    *slog.Logger
}

// decision asks the owner what it decided.
func (d *decider) decision(ctx context.Context, c *command, at location) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	one := []peer.Question{{Key: c.key, Offset: at.offset}}
	d.decisions(ctx, at.partition, one)
	return d.judge(ctx, c, &one[0])
}

// decisions asks the owner of a partition what it decided about commands. An
// owner that is silent leaves some unanswered: they are durable.
func (d *decider) decisions(ctx context.Context, partition int32, list []peer.Question) {
	err := d.router.Decisions(ctx, partition, list)
	if err == nil || ctx.Err() != nil || peer.Moved(err) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	d.log.Warn("the decisions about durable commands are not known",
		"partition", partition, "commands", len(list), "error", err)
}

// judge is the verdict about a command after decisions. One that has no answer
// makes a verdict that is still open.
func (d *decider) judge(ctx context.Context, c *command, a *peer.Question) (verdict, error) {
	switch {
	case !a.Answered:
		return verdict{}, nil
	case !a.Known:
		return d.guess(ctx, c)
	case a.Decision.Rejected != nil:
		return verdict{}, howItEnded(rejected(a.Decision.Rejected, c).About(c.id), a.Decision.State)
	}
	v := verdict{decided: true, state: a.Decision.State, facts: a.Decision.Facts}
	if c.absent && v.has(trigger.Duplicate) {
		return verdict{}, errExists().About(c.id)
	}
	return v, nil
}

// guess answers from the trigger when the decision is forgotten, which the
// owner's next commands or a failover can make it. Only what the trigger
// proves counts as decided: one with this content may have been so before a
// command that was refused, if that was more than a repeat of it.
func (d *decider) guess(ctx context.Context, c *command) (verdict, error) {
	st, err := d.router.Get(ctx, c.key)
	if err != nil || st == nil {
		return verdict{}, nil
	}
	switch {
	case c.absent, c.patch: // was it there before?
	case c.op == trigger.OpRegister && c.once != "" && !slices.Contains(st.Keys,
		trigger.IdempotencyKey{Key: c.once, Hash: c.hash}):
	case c.op == trigger.OpRegister && st.Hash == c.hash && peer.Shown.Has(st.Status) &&
		st.Status != trigger.Cancelled && st.Status != trigger.Failed:
		return verdict{decided: true, state: st}, nil
	// else it was too late, perhaps
	case c.op == trigger.OpCancel && st.Status == trigger.Cancelled && (st.Recurring() || len(st.Done) == 0):
		return verdict{decided: true, state: st, facts: []trigger.FactType{trigger.CancelledFact}}, nil
	}
	return verdict{}, nil
}

// errExists answers If-None-Match: * of what is there, be it the same (RFC 9110
// 13.1.2). That a repeat is one is proved by an idempotency key alone.
func errExists() *problem.Problem {
	return problem.New(http.StatusPreconditionFailed, trigger.CodeConflict, "if_absent",
		"the trigger exists, with this content; under an Idempotency-Key a repeat is answered as the first request was")
}

func rejected(e *trigger.Error, c *command) *problem.Problem {
	p := problem.OfTrigger(e)
	if c.conditional && e.Code == trigger.CodeConflict {
		p.Status, p.Title = http.StatusPreconditionFailed, http.StatusText(http.StatusPreconditionFailed)
	}
	return p
}
