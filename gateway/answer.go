package gateway

import (
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/gzipped"
	"github.com/waterclock/waterclock/trigger"
)

// commandWriter writes commands, and waits for what their owners decide.
type commandWriter struct {
	encoder *encoder
	rate    *writeRate

	answerWithin time.Duration
	commands     *commandLog
	decider      *decider
}

// do writes a command and waits for the owner's decision. The error is a
// *Problem, or becomes one.
func (s *commandWriter) do(r *request, c *command) (verdict, error) {
	if err := s.rate.withinRate(r, c); err != nil {
		return verdict{}, err
	}
	if err := s.room(r); err != nil {
		return verdict{}, err.About(c.id)
	}
	var at location
	awaited := true
	defer func() {
		s.rate.undecided.release(r.who.Tenant, 1, awaited, s.answerWithin, func(ctx context.Context) {
			s.decider.decisions(ctx, at.partition, []peer.Question{{Key: c.key, Offset: at.offset}})
		})
	}()
	if at = s.commands.produce(r.Context(), c); at.err != nil {
		return verdict{}, notWritten(at.err).About(c.id)
	}
	if wantsAsync(r.Request) {
		awaited = false
		return verdict{async: true}, nil
	}
	v, err := s.decider.decision(r.Context(), c, at)
	awaited = r.Context().Err() == nil
	return v, err
}

// room waits until one more command of the caller's tenant may be undecided.
func (s *commandWriter) room(r *request) *problem.Problem {
	if s.rate.undecided.try(r.who.Tenant) {
		return nil
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.commands.within)
	defer cancel()
	if s.rate.undecided.crowded(r.who.Tenant) || s.rate.undecided.wait(ctx, r.who.Tenant) != nil {
		return problem.Unavailable(nil, "the engine has not decided many commands of this tenant yet: try again "+
			"with fewer at once")
	}
	return nil
}

// writeRate bounds how many commands a second a tenant writes.
type writeRate struct {
	limits    *rateLimits
	listener  Listener
	undecided *undecided
	behind    *behind
}

func (s *writeRate) withinRate(r *request, c *command) error {
	if p := s.behind.refusal(c); p != nil {
		s.listener.QuotaRejected("behind")
		return p.About(c.id)
	}
	if p := s.takeRate(r.who.Tenant); p != nil {
		return p.About(c.id)
	}
	s.undecided.writes(r.who.Tenant)
	return nil
}

// takeRate takes one write from a tenant's rate, or returns when to come back.
func (s *writeRate) takeRate(tenant string) *problem.Problem {
	p := s.limits.take(tenant)
	if p != nil {
		s.listener.QuotaRejected("rate")
	}
	return p
}

func notWritten(err error) *problem.Problem {
	if errors.Is(err, kerr.MessageTooLarge) {
		return problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "",
			"the command is larger than Kafka's limit for one record")
	}
	if full, ok := errors.AsType[*fullError](err); ok {
		return problem.Unavailable(nil, full.why+". Repeating it under the same id is safe")
	}
	return unacknowledged(err, "the command", "repeating it under the same id is safe")
}

// unacknowledged says that Kafka has not acknowledged a record in time, why if a quota is why, and what then.
func unacknowledged(err error, record, then string) *problem.Problem {
	detail := "Kafka has not acknowledged " + record
	if throttled, ok := errors.AsType[*throttledError](err); ok {
		detail += ", because " + throttled.why
	}
	return problem.Unavailable(err, detail+"; "+then)
}

func wantsAsync(r *http.Request) bool {
	return slices.ContainsFunc(r.Header.Values(prefer), func(v string) bool {
		return slices.ContainsFunc(strings.Split(v, ","), func(one string) bool {
			name, _, _ := strings.Cut(one, ";") // without its parameters
			return strings.EqualFold(strings.TrimSpace(name), respondAsync)
		})
	})
}

// howItEnded adds to a problem about a finished trigger how the trigger ended.
func howItEnded(p *problem.Problem, st *trigger.State) *problem.Problem {
	if p.Code == trigger.CodeNotFound && p.Field == "" && st != nil && st.Status.Finished() &&
		peer.Shown.Has(st.Status) {
		p.State = st.Status.String()
		p.Detail = "the trigger has ended: it is " + p.State
	}
	return p
}

// Registered is the answer to a register. A repeat gets the same answer.
type Registered struct {
	TriggerID string `json:"trigger_id"`
	FireAt    string `json:"fire_at,omitempty" format:"date-time" doc:"First nominal instant"`
	Revision  int64  `json:"revision,omitempty"`
	State     string `json:"state,omitempty" enum:"CANCELLED,FAILED,EXPIRED" doc:"Only if the request is a repeat and the trigger will not fire"`

	Notes []string `json:"notes,omitempty" doc:"Notes on this write: a time in the past, a new channel, a rule without a timezone"`
}

// Changed is the answer to any other write.
type Changed struct {
	TriggerID  string `json:"trigger_id"`
	State      string `json:"state"`
	Revision   int64  `json:"revision"`
	FireAt     string `json:"fire_at,omitempty" format:"date-time" doc:"Nominal instant of the next occurrence, or the last one's"`
	NextFireAt string `json:"next_fire_at,omitempty" format:"date-time" doc:"When it fires next, jitter and snoozes included"`
	LocalTime  string `json:"local_time,omitempty"`

	Notes []string `json:"notes,omitempty" doc:"Notes on this write, such as a time in the past"`
}

// Accepted is the answer to a write that is durable but not decided yet.
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

// statusOfRegister is 201 for a new life, 200 for a trigger that existed.
func (v *verdict) statusOfRegister() int {
	if v.has(trigger.Registered) {
		return http.StatusCreated
	}
	return http.StatusOK
}

// problemOfChange is the answer to a change that was decided and did nothing: a cancel that came too late, also
// repeated, and an acknowledgement of what does not exist. It is nil for any other.
func problemOfChange(c *command, v verdict) *problem.Problem {
	st := v.state
	if c.op == trigger.OpAck && v.decided && (st == nil || st.Status == trigger.Unknown) {
		return problem.NotFound(c.id)
	}
	repeated := v.has(trigger.Duplicate) && st != nil && st.CancelledInFlight()
	if !v.decided || !v.has(trigger.CancelTooLate) && !repeated {
		return nil
	}
	if st == nil || st.Status == trigger.Unknown || st.Status == trigger.Erased {
		return problem.NotFound(c.id)
	}
	p := problem.New(http.StatusConflict, trigger.CodeAlreadyFired, "",
		"it has already fired: nothing is left to cancel").About(c.id)
	p.State = st.Status.String()
	if n := len(st.Done); st.Status == trigger.Expired {
		p.Detail = "it has expired: nothing is left to cancel"
	} else if n > 0 {
		p.Detail = "it has fired: occurrence " + st.Done[n-1].Occurrence + " is on topic " + st.Done[n-1].Topic
	}
	return p
}

// sendJSON writes v as the answer.
func sendJSON(w http.ResponseWriter, status int, v any) error {
	return sendSized(w, status, v, 0)
}

// sendSized is sendJSON for a body of about size bytes.
func sendSized(w http.ResponseWriter, status int, v any, size int64) error {
	b, err := encodeBody(v, size)
	if err != nil {
		return err
	}
	sendBody(w, status, b)
	return nil
}

// sendGathered answers a costly read with what f returns. It is encoded within the bounds of
// what is gathered at once, and its sending is not.
func (r *request) sendGathered(ctx context.Context, w http.ResponseWriter, f func() (any, error)) error {
	var body []byte
	err := r.read.gather(ctx, func() error {
		v, err := f()
		if err == nil {
			body, err = encodeBody(v, 0)
		}
		return err
	})
	if err == nil {
		sendBody(w, http.StatusOK, compressed(w.Header(), r.Header, body))
	}
	return err
}

// leastCompressed is how large a body must be before it is worth compressing.
const leastCompressed = 4 << 10

// compressed is a body of numbers as a caller takes it: 90 days by the hour are 100 KiB, and 6 KiB with gzip. Answers
// with what users wrote are not compressed, because their size would then say something of them.
func compressed(out, asked http.Header, body []byte) []byte {
	out.Set("Vary", "Accept-Encoding")
	if len(body) < leastCompressed || !gzipped.Taken(asked) {
		return body
	}
	out.Set("Content-Encoding", "gzip")
	return gzipped.Bytes(body, gzip.BestSpeed)
}

// encodeBody encodes an answer of about size bytes.
func encodeBody(v any, size int64) ([]byte, error) {
	b, err := appendJSON(make([]byte, 0, size), v)
	return append(b, '\n'), err
}

// sendBody writes what encodeBody made. The body of a costly read, and any large one, counts until its reader has it.
func sendBody(w http.ResponseWriter, status int, b []byte) {
	if o, ok := w.(*observed); ok {
		if o.read.holds(int64(len(b))); o.read == nil && !o.hold(int64(len(b))) {
			w.Header().Del("ETag")
			pagesUnread().Send(w)
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

var errNoHistory = errors.New("no history is kept")
