package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// UserTriggers is what an erasure asks of the history.
type UserTriggers interface {
	// TriggersOf visits the triggers that the history knows of a user. It may visit a key more
	// than once.
	TriggersOf(ctx context.Context, tenant, user string, visit func(trigger.Key) error) error
}

// ErasureAnswer is how far an erasure of a user is.
type ErasureAnswer struct {
	State    string `json:"state" enum:"pending,done"`
	Triggers int    `json:"triggers" minimum:"0" doc:"Erased so far"`
}

func erasureRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodDelete, pattern: "/v1/users/{user}", right: auth.Write,
			handle: p.users.deleteUser, doc: operation{
				id: "eraseUser", summary: "Erase a user: preferences at once, then the content of all of the user's " +
					"triggers. Repeating it is safe",
				answers: answers{202: of[ErasureAnswer]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/users/{user}/erasure", right: auth.Read,
			handle: p.users.getErasure, doc: operation{
				id: "getErasure", summary: "How far the last erasure of a user is, until 30 days after it was done",
				answers: answers{200: of[ErasureAnswer]()},
			},
		},
	}
}

func (s *users) deleteUser(w http.ResponseWriter, r *request) error {
	u, err := s.prefs.userThere(r)
	if err != nil {
		return err
	}
	if p := s.rate.takeRate(u.Tenant); p != nil {
		return p
	}
	ctx, cancel := context.WithTimeout(r.Context(), preferencesWithin)
	defer cancel()
	e := preferences.Erasure{User: u}
	until, release := s.commands.untilFull(ctx)
	defer release()
	if e.Before, err = s.commandEnds(until); err != nil {
		return problem.Unavailable(err, "Kafka does not answer; repeating it is safe")
	}
	e.At = s.now()
	err = s.prefs.withPreferences(ctx, u.Tenant, func() error {
		if err := s.erasureFits(ctx, u); err != nil {
			return err
		}
		if err := s.prefs.store.Erase(ctx, e); err != nil {
			return err
		}
		e, _, err = s.prefs.store.Erasure(ctx, u)
		return err
	})
	if err != nil {
		return preferencesAway(err)
	}
	s.erasures.wake()
	s.log.Info("a user is to be erased", "tenant", u.Tenant, "actor", r.who.Name)
	return sendJSON(w, http.StatusAccepted, erasureJSON(&e))
}

// mostErasures is how many erasures of a tenant may wait: their rows are read at every claim.
const mostErasures = 1000

// errTooManyErasures says that as many wait already.
var errTooManyErasures = errors.New("the tenant has reached the limit of waiting erasures")

// erasureFits refuses one too many. A repeat of one that waits adds none.
func (s *users) erasureFits(ctx context.Context, u preferences.User) error {
	n, err := s.prefs.store.WaitingErasures(ctx, u.Tenant, mostErasures)
	if err != nil || n < mostErasures {
		return err
	}
	if old, ok, err := s.prefs.store.Erasure(ctx, u); err != nil || ok && !old.Done {
		return err
	}
	return errTooManyErasures
}

func (s *users) getErasure(w http.ResponseWriter, r *request) error {
	u, err := s.prefs.userThere(r)
	if err != nil {
		return err
	}
	var e preferences.Erasure
	var ok bool
	if err := s.prefs.askPreferences(r, func(ctx context.Context) (err error) {
		e, ok, err = s.prefs.store.Erasure(ctx, u)
		return err
	}); err != nil {
		return err
	}
	if !ok {
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "",
			"this user was not erased in the last 30 days")
	}
	return sendJSON(w, http.StatusOK, erasureJSON(&e))
}

func erasureJSON(e *preferences.Erasure) ErasureAnswer {
	a := ErasureAnswer{State: "pending", Triggers: e.Triggers}
	if e.Done {
		a.State = "done"
	}
	return a
}

// commandEnds are the ends of all partitions of topic commands.
func (s *users) commandEnds(ctx context.Context) (map[int32]int64, error) {
	var all []kafkapart.TopicPartition
	for p := range s.partitions {
		all = append(all, kafkapart.TopicPartition{Topic: s.names.Commands(), Partition: p})
	}
	ends, missing := kafkapart.Ends(ctx, s.kafka.Client(), all, kafkapart.ReadUncommitted)
	for at, err := range missing {
		return nil, fmt.Errorf("end of %s partition %d: %w", at.Topic, at.Partition, err)
	}
	before := map[int32]int64{}
	for at, end := range ends {
		before[at.Partition] = end
	}
	return before, nil
}

// An erasure of a user deletes the preferences and writes a row to the outbox in one
// transaction. An instance claims the row and erases each trigger of the user that the
// engine or the history knows, by command. It is done when neither knows one any more. A
// crash leaves the row, and whoever claims it next goes on with the triggers that are left.
// One that waits, for the history to read on or after an error, is given back, and claimed
// again later: behind those that were never tried.
//
// A life whose register stands behind the ends that the row has is new, and stays. So each
// command carries the revision that was read: what is registered meanwhile is read anew.

const (
	// erasureLease is how long a claim holds, if nobody prolongs it, and erasurePage how many
	// commands may be on their way.
	erasureLease = 30 * time.Second
	erasurePage  = 500
	// erasurePasses is how many passes one claim makes. erasureTurn bounds them where the engine
	// or the history does not answer; what was erased by then, the next turn does not meet.
	erasurePasses = 5
	erasureTurn   = 10 * time.Minute
	// An erasure that was given back is tried again after a tenth of its age, within these bounds.
	erasureRetryLeast = 2 * time.Second
	erasureRetryMost  = time.Minute
	// erasureActor is the actor of the commands.
	erasureActor = "erasure"
	// noRevision is of no life: a command that carries it is for a key that nobody knows.
	noRevision = 1 << 40
)

// eraser works on erasures.
type eraser struct {
	outbox

	store        preferences.Store
	userTriggers UserTriggers // of the history; nil: there is none
	encoder      *encoder
	router       *peer.Router // lists and reads triggers
	sender       *sender

	listBudget int
	lease      time.Duration
	log        *slog.Logger
	last       string // the tenant that had the last turn; claimErasure's
}

func newEraser(o *Options, e *encoder, router *peer.Router, s *sender) *eraser {
	r := &eraser{
		store: o.Preferences, userTriggers: o.UserTriggers, encoder: e, router: router, sender: s,
		listBudget: o.ListBudget, lease: erasureLease, log: o.Logger,
	}
	r.outbox = newOutbox(o.Auth != nil)
	r.claim, r.failed = r.claimErasure, o.Listener.ErasureFailed
	r.measure = func(ctx context.Context) error {
		n, oldest, err := r.store.PendingErasures(ctx)
		if err != nil {
			return err
		}
		age := time.Duration(0)
		if n > 0 {
			age = max(0, o.Now().Sub(oldest))
		}
		o.Listener.Erasures(n, age)
		return nil
	}
	return r
}

// RunErasures erases users until ctx ends. It does nothing where there is no preference
// store.
func (s *Server) RunErasures(ctx context.Context) error {
	return s.erasures.run(ctx, s.opts.Preferences, s.log,
		"erasing a user's triggers failed; will retry")
}

// erasing is one erasure that is worked on.
type erasing struct {
	*eraser
	preferences.Erasure

	count    atomic.Int64 // of triggers; those of earlier claims are in it
	sent     recentKeys   // with which revision a trigger was erased last
	commands *sending     // of this pass
	left     bool         // the pass has found something that is not erased yet
}

// errLost says that somebody else works on the erasure, or that there is a newer one.
var errLost = errors.New("the claim of the erasure is lost")

// claimErasure takes an erasure, if there is one. Tenants take turns.
func (r *eraser) claimErasure(ctx context.Context, full []string) (tenant string,
	work func(context.Context) error, err error,
) {
	e, ok, err := r.store.ClaimErasure(ctx, preferences.Turn{After: r.last, Except: full}, r.lease)
	if err != nil || !ok {
		return "", nil, err
	}
	r.last = e.User.Tenant
	w := &erasing{eraser: r, Erasure: e}
	w.count.Store(int64(e.Triggers))
	return e.User.Tenant, w.turn, nil
}

// turn works on an erasure, and gives it back if it is not done.
func (w *erasing) turn(ctx context.Context) error {
	done, err := w.work(ctx)
	if done || errors.Is(err, errLost) {
		return nil // errLost: somebody else goes on
	}
	renewed := w.renew(ctx, retryAfter(time.Since(w.At)))
	switch {
	case err != nil:
		return fmt.Errorf("tenant %s: %w", w.User.Tenant, err) // not renewed: it is claimed when the lease is over
	case errors.Is(renewed, errLost):
		return nil
	}
	return renewed
}

// retryAfter is when an erasure of some age that could not go on is tried again.
func retryAfter(age time.Duration) time.Duration {
	return min(max(age/10, erasureRetryLeast), erasureRetryMost)
}

// work makes passes until nothing is left. done is false where the history has to read on first.
func (w *erasing) work(ctx context.Context) (done bool, err error) {
	begun := time.Now()
	bounded, cancel := context.WithTimeout(ctx, erasureTurn)
	defer cancel()
	held, release := w.hold(bounded)
	defer release()
	pause := 50 * time.Millisecond
	for range erasurePasses {
		if err := w.pass(held); err != nil {
			return false, cmp.Or(context.Cause(held), err)
		}
		if !w.left {
			release()
			w.Triggers = int(w.count.Load())
			if err := w.store.FinishErasure(ctx, w.Erasure); err != nil {
				return false, err
			}
			w.log.Info("a user was erased", "tenant", w.User.Tenant, "triggers", w.Triggers, "took",
				time.Since(begun).Round(time.Millisecond))
			return true, nil
		}
		if err := w.renew(ctx, w.lease); err != nil {
			return false, err
		}
		wait.For(held, pause)
		pause *= 2
	}
	return false, nil
}

// hold prolongs the claim until release is called. The context ends when the claim is lost.
func (w *erasing) hold(ctx context.Context) (held context.Context, release func()) {
	inner, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			if wait.For(inner, w.lease/3); inner.Err() != nil {
				return
			}
			if err := w.renew(inner, w.lease); errors.Is(err, errLost) {
				cancel(errLost)
				return
			}
		}
	}()
	return inner, func() { cancel(context.Canceled); <-done }
}

// renew prolongs the claim and writes how far the erasure is.
func (w *erasing) renew(ctx context.Context, lease time.Duration) error {
	e := w.Erasure
	e.Triggers = int(w.count.Load())
	ok, err := w.store.RenewErasure(ctx, e, lease)
	if err == nil && !ok {
		err = errLost
	}
	return err
}

// pass walks what the engine knows of the user, and then what the history knows. What it has
// erased it finds no more in the next pass, when the history has read that far.
func (w *erasing) pass(ctx context.Context) error {
	w.left, w.commands = false, w.sender.begin(w.User.Tenant, erasurePage)
	if err := w.known(ctx); err != nil {
		return errors.Join(fmt.Errorf("list triggers: %w", err), w.commands.land(ctx))
	}
	if err := w.commands.land(ctx); err != nil {
		return err
	}
	if history := w.userTriggers; history != nil {
		var seen recentKeys
		err := history.TriggersOf(ctx, w.User.Tenant, w.User.ID, func(key trigger.Key) error {
			if _, twice := seen.get(key); twice {
				return nil
			}
			seen.put(key, 0)
			return w.ofHistory(ctx, key)
		})
		if err != nil {
			return errors.Join(fmt.Errorf("list triggers of the history: %w", err), w.commands.land(ctx))
		}
	}
	return w.commands.land(ctx)
}

// known erases what the engine lists of the user, finished triggers too.
func (w *erasing) known(ctx context.Context) error {
	q := peer.Query{
		Tenant: w.User.Tenant, User: w.User.ID, Limit: erasurePage, Budget: w.listBudget,
	}
	for {
		page, err := w.router.Find(ctx, q)
		if err != nil {
			return err
		}
		for _, f := range page.Items {
			if w.Covers(f.State.Life.Partition, f.State.Life.Offset) {
				if err := w.sendErase(ctx, f.State.Key, f.State.Revision); err != nil {
					return err
				}
			}
		}
		if !page.More {
			return nil
		}
		q.After = page.Through
	}
}

// ofHistory erases a trigger that the history lists, unless it is of a newer life, or
// somebody else's by now.
func (w *erasing) ofHistory(ctx context.Context, key trigger.Key) error {
	st, err := w.router.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read a trigger: %w", err)
	}
	switch {
	case st == nil || st.Status == trigger.Unknown:
		return w.sendErase(ctx, key, noRevision)
	case st.Status == trigger.Erased:
		w.left = true // the history is behind
		return nil
	case !w.Covers(st.Life.Partition, st.Life.Offset):
		return nil
	case st.Spec.UserID == w.User.ID, st.Spec.UserID == "" && st.Status.Finished():
		return w.sendErase(ctx, key, st.Revision)
	}
	return nil
}

// sendErase sends the command.
func (w *erasing) sendErase(ctx context.Context, key trigger.Key, revision int64) error {
	w.left = true
	before, known := w.sent.get(key)
	if known && before == revision {
		return nil // it is under way
	}
	c, err := w.command(ctx, key, revision)
	if err != nil {
		return err
	}
	w.sent.put(key, revision)
	if !known {
		w.count.Add(1)
	}
	return w.commands.send(ctx, c)
}

func (w *erasing) command(ctx context.Context, key trigger.Key, revision int64) (*command, error) {
	plain, err := http.NewRequestWithContext(ctx, http.MethodDelete, "/v1/users/{user}", http.NoBody)
	if err != nil {
		return nil, err
	}
	r := &request{Request: plain, who: auth.Caller{Tenant: w.User.Tenant, Name: erasureActor, Role: auth.Writer}}
	var fs fields
	fs.set("if_revision", revision)
	return w.encoder.command(r, trigger.OpErase, key.ID(), fs)
}
