package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

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

func (v *verdict) told(f trigger.FactType) bool { return slices.Contains(v.facts, f) }

// do writes a command and waits for the owner's decision. The error is a
// *Problem, or becomes one.
func (s *Server) do(r *request, c *command) (verdict, error) {
	if err := s.withinRate(r, c); err != nil {
		return verdict{}, err
	}
	at := s.durable(s.produce(r.Context(), c))
	if at.err != nil {
		return verdict{}, notWritten(at.err).About(c.id)
	}
	if wantsAsync(r.Request) {
		return verdict{async: true}, nil
	}
	return s.decision(r.Context(), c, at)
}

func (s *Server) withinRate(r *request, c *command) error {
	if p := s.limits.take(r.who.Tenant); p != nil {
		s.opts.Listener.QuotaRejected("rate")
		return p.About(c.id)
	}
	return nil
}

func notWritten(err error) *problem.Problem {
	if errors.Is(err, kerr.MessageTooLarge) {
		return problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "", "the command is larger than what Kafka takes as one record")
	}
	return problem.Unavailable(err, "Kafka has not acknowledged the command; repeat it under the same id, which is safe")
}

func wantsAsync(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values(prefer), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(one string) bool {
			name, _, _ := strings.Cut(one, ";") // its parameters
			return strings.EqualFold(strings.TrimSpace(name), respondAsync)
		})
	})
}

// decision asks the owner what it decided.
func (s *Server) decision(ctx context.Context, c *command, at place) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.AnswerWithin)
	defer cancel()
	one := []peer.Question{{Key: c.key, Offset: at.offset}}
	s.decisions(ctx, at.partition, one)
	return s.judge(ctx, c, &one[0])
}

// decisions asks the owner of a partition what it decided about commands. An
// owner that is silent leaves some unanswered: they are durable.
func (s *Server) decisions(ctx context.Context, partition int32, list []peer.Question) {
	if err := s.router.Decisions(ctx, partition, list); err != nil && ctx.Err() == nil && !peer.Moved(err) && !errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("the decisions about durable commands are not known", "partition", partition, "commands", len(list), "error", err)
	}
}

// judge is the verdict about a command after decisions. One that has no answer
// makes a verdict that is still open.
func (s *Server) judge(ctx context.Context, c *command, a *peer.Question) (verdict, error) {
	switch {
	case !a.Answered:
		return verdict{}, nil
	case !a.Known:
		return s.guess(ctx, c)
	case a.Decision.Rejected != nil:
		return verdict{}, howItEnded(rejected(a.Decision.Rejected, c).About(c.id), a.Decision.State)
	}
	v := verdict{decided: true, state: a.Decision.State, facts: a.Decision.Facts}
	if c.absent && v.told(trigger.Duplicate) {
		return verdict{}, errExists().About(c.id)
	}
	return v, nil
}

// errExists answers If-None-Match: * of what is there, be it the same (RFC 9110
// 13.1.2). That a repeat is one is proved by an idempotency key alone.
func errExists() *problem.Problem {
	return problem.New(http.StatusPreconditionFailed, trigger.CodeConflict, "if_absent", "the trigger exists, with this content; under an Idempotency-Key a repeat is answered as the first request was")
}

func rejected(e *trigger.Error, c *command) *problem.Problem {
	p := problem.OfTrigger(e)
	if c.conditional && e.Code == trigger.CodeConflict {
		p.Status, p.Title = http.StatusPreconditionFailed, http.StatusText(http.StatusPreconditionFailed)
	}
	return p
}

// howItEnded adds to a problem about a trigger that is not there any more how it
// ended.
func howItEnded(p *problem.Problem, st *trigger.State) *problem.Problem {
	if p.Code == trigger.CodeNotFound && p.Field == "" && st != nil && st.Status.Finished() && peer.Shown.Has(st.Status) {
		p.State = st.Status.String()
		p.Detail = "the trigger has ended: it is " + p.State
	}
	return p
}

// guess answers from the trigger when the decision is forgotten, which the
// owner's next commands or a failover can make it. Only what the trigger
// proves counts as decided: one with this content may have been so before a
// command that was refused, if that was more than a repeat of it.
func (s *Server) guess(ctx context.Context, c *command) (verdict, error) {
	st, err := s.router.Get(ctx, c.key)
	if err != nil || st == nil {
		return verdict{}, nil
	}
	switch {
	case c.absent, c.patch: // was it there before?
	case c.op == trigger.OpRegister && c.once != "" && !slices.Contains(st.Keys, trigger.IdempotencyKey{Key: c.once, Hash: c.hash}):
	case c.op == trigger.OpRegister && st.Hash == c.hash && peer.Shown.Has(st.Status) && st.Status != trigger.Cancelled && st.Status != trigger.Failed:
		return verdict{decided: true, state: st}, nil
	case c.op == trigger.OpCancel && st.Status == trigger.Cancelled && (st.Recurring() || len(st.Done) == 0): // else it was too late, perhaps
		return verdict{decided: true, state: st, facts: []trigger.FactType{trigger.CancelledFact}}, nil
	}
	return verdict{}, nil
}

// Registered is the answer to a register: the same for each repeat.
type Registered struct {
	TriggerID string `json:"trigger_id"`
	FireAt    string `json:"fire_at,omitempty" format:"date-time" doc:"First nominal instant"`
	Revision  int64  `json:"revision,omitempty"`
	State     string `json:"state,omitempty" enum:"CANCELLED,FAILED,EXPIRED" doc:"Only where a repeat finds that it will not fire"`

	Notes []string `json:"notes,omitempty" doc:"What may surprise: a time in the past, a new channel, a rule without a timezone"`
}

// Changed is the answer to any other write.
type Changed struct {
	TriggerID  string `json:"trigger_id"`
	State      string `json:"state"`
	Revision   int64  `json:"revision"`
	FireAt     string `json:"fire_at,omitempty" format:"date-time" doc:"Nominal instant of the next occurrence, or the last one's"`
	NextFireAt string `json:"next_fire_at,omitempty" format:"date-time" doc:"When it fires next, jitter and snoozes included"`
	LocalTime  string `json:"local_time,omitempty"`

	Notes []string `json:"notes,omitempty" doc:"What may surprise, such as a time in the past"`
}

// Accepted is the answer to a write that is durable and not yet decided.
type Accepted struct {
	TriggerID string `json:"trigger_id"`
}

func registered(c *command, v *verdict) Registered {
	a := Registered{TriggerID: c.id, Notes: c.notes(v)}
	if st := v.state; st != nil {
		a.FireAt, a.Revision = instantText(st.Nominal()), st.Revision
		if st.Status == trigger.Cancelled || st.Status == trigger.Failed || st.Status == trigger.Expired {
			a.State = st.Status.String()
		}
	}
	return a
}

func changed(c *command, v *verdict) Changed {
	a := Changed{TriggerID: c.id, Notes: c.notes(v)}
	if st := v.state; st != nil {
		a.State, a.Revision = st.Status.String(), st.Revision
		a.FireAt, a.NextFireAt, a.LocalTime = instantText(st.Nominal()), instantText(st.NextFire()), st.Series.Local
	}
	return a
}

func instantText(i trigger.Instant) string {
	if i == 0 {
		return ""
	}
	return i.String()
}

// statusOfRegister is 201 for a new life, 200 for what was there.
func (v *verdict) statusOfRegister() int {
	if v.told(trigger.Registered) {
		return http.StatusCreated
	}
	return http.StatusOK
}

// problemOfCancel is what a cancel that came too late answers; nil for one in
// time.
func problemOfCancel(c *command, v verdict) *problem.Problem {
	if !v.decided || !v.told(trigger.CancelTooLate) {
		return nil
	}
	st := v.state
	if st == nil || st.Status == trigger.Unknown || st.Status == trigger.Erased {
		return problem.NotFound(c.id)
	}
	p := problem.New(http.StatusConflict, trigger.CodeAlreadyFired, "", "it has fired: nothing is left to cancel").About(c.id)
	p.State = st.Status.String()
	if n := len(st.Done); n > 0 {
		p.Detail = "it has fired: occurrence " + st.Done[n-1].Occurrence + " is on topic " + st.Done[n-1].Topic
	}
	return p
}

// sendJSON writes v as the answer.
func sendJSON(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n'))
	return nil
}

var errNoHistory = errors.New("no history is kept")
