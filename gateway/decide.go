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

// verdict is the outcome of a command: decided, or durable and not decided yet.
type verdict struct {
	decided bool
	async   bool           // no owner was asked, as the caller prefers
	state   *trigger.State // as the command left it
	facts   []trigger.FactType
}

func (v *verdict) has(f trigger.FactType) bool { return slices.Contains(v.facts, f) }

// decider asks owners for the decisions about durable commands.
type decider struct {
	router *peer.Router
	behind *behind
	within time.Duration
	log    *slog.Logger
}

// decision asks the owner for one decision.
func (d *decider) decision(ctx context.Context, c *command, at location) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, d.within)
	defer cancel()
	one := []peer.Question{{Key: c.key, Offset: at.offset}}
	d.decisions(ctx, at.partition, one)
	return d.judge(ctx, c, &one[0])
}

// decisions asks the owner of a partition for decisions about commands. If the owner is
// silent, some have no answer; those commands are durable.
func (d *decider) decisions(ctx context.Context, partition int32, list []peer.Question) {
	err := d.router.Decisions(ctx, partition, list)
	d.behind.note(partition, list)
	if err == nil || ctx.Err() != nil || peer.Moved(err) || errors.Is(err, context.DeadlineExceeded) {
		return
	}
	d.log.Warn("the decisions about durable commands are unknown",
		"partition", partition, "commands", len(list), "error", err)
}

// judge makes the verdict about a command. Without an answer the verdict stays open.
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

// guess answers from the trigger when the owner has forgotten the decision, which later
// commands or a failover can cause. Only what the trigger proves counts as decided. A
// trigger with this content may be older than a command that was refused, unless a repeat
// would have been accepted.
func (d *decider) guess(ctx context.Context, c *command) (verdict, error) {
	st, err := d.router.Get(ctx, c.key)
	if err != nil || st == nil {
		return verdict{}, nil
	}
	switch {
	case c.absent, c.patch: // it may be older
	case c.op == trigger.OpRegister && c.once != "" && !slices.Contains(st.Keys,
		trigger.IdempotencyKey{Key: c.once, Hash: c.hash}):
	case c.op == trigger.OpRegister && st.Hash == c.hash && peer.Shown.Has(st.Status) &&
		st.Status != trigger.Cancelled && st.Status != trigger.Failed:
		return verdict{decided: true, state: st}, nil
	case c.op == trigger.OpCancel && st.Status == trigger.Cancelled && !st.CancelledInFlight():
		return verdict{decided: true, state: st, facts: []trigger.FactType{trigger.CancelledFact}}, nil
	}
	return verdict{}, nil
}

// errExists is the answer to If-None-Match: * if the trigger exists, even with the same
// content (RFC 9110 13.1.2). Only an idempotency key proves that a request is a repeat.
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
