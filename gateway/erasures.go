package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
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

func erasureRoutes() []route {
	return []route{
		{
			method: http.MethodDelete, pattern: "/v1/users/{user}", role: auth.Writer,
			handle: (*Server).deleteUser, doc: operation{
				id: "eraseUser", summary: "Forget a user: preferences at once, then the content of all of the user's " +
					"triggers. Repeating it is safe",
				answers: answers{202: of[ErasureAnswer]()},
			},
		},
		{
			method: http.MethodGet, pattern: "/v1/users/{user}/erasure", role: auth.Reader,
			handle: (*Server).getErasure, doc: operation{
				id: "getErasure", summary: "How far the last erasure of a user is, until 30 days after it was done",
				answers: answers{200: of[ErasureAnswer]()},
			},
		},
	}
}

func (s *Server) deleteUser(w http.ResponseWriter, r *request) error {
	u, err := r.user()
	if err != nil {
		return err
	}
	if err := s.preferencesThere(); err != nil {
		return err
	}
	if p := s.limits.take(u.Tenant); p != nil {
		s.opts.Listener.QuotaRejected("rate")
		return p
	}
	ctx, cancel := context.WithTimeout(r.Context(), preferencesWithin)
	defer cancel()
	e := preferences.Erasure{User: u}
	if e.Before, err = s.commandEnds(ctx); err != nil {
		return problem.Unavailable(err, "Kafka does not answer; repeating it is safe")
	}
	e.At = s.opts.Now()
	err = s.withPreferences(ctx, u.Tenant, func() error {
		if err := s.opts.Preferences.Erase(ctx, e); err != nil {
			return err
		}
		e, _, err = s.opts.Preferences.Erasure(ctx, u)
		return err
	})
	if err != nil {
		return preferencesAway(err)
	}
	s.erasures.wake()
	s.log.Info("a user is to be erased", "tenant", u.Tenant, "actor", r.who.Name)
	return sendJSON(w, http.StatusAccepted, erasureJSON(&e))
}

func (s *Server) getErasure(w http.ResponseWriter, r *request) error {
	u, err := r.user()
	if err != nil {
		return err
	}
	if err := s.preferencesThere(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), preferencesWithin)
	defer cancel()
	var e preferences.Erasure
	var ok bool
	err = s.withPreferences(ctx, u.Tenant, func() error {
		e, ok, err = s.opts.Preferences.Erasure(ctx, u)
		return err
	})
	if err != nil {
		return preferencesAway(err)
	}
	if !ok {
		return problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "nobody has erased this user in the last 30 days")
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
func (s *Server) commandEnds(ctx context.Context) (map[int32]int64, error) {
	var all []kafkapart.TopicPartition
	for p := range s.opts.Partitions {
		all = append(all, kafkapart.TopicPartition{Topic: s.opts.Names.Commands(), Partition: p})
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
//
// A life whose register stands behind the ends that the row has is new, and stays. So each
// command carries the revision that was read: what is registered meanwhile is read anew.

const (
	// erasureLease is how long a claim holds, and erasurePage how many commands are sent
	// before it is prolonged.
	erasureLease = 30 * time.Second
	erasurePage  = 500
	// erasurePasses bounds how long one erasure keeps others waiting. One that waits, for the
	// history to read on, gets its next turn after erasureLater.
	erasurePasses = 20
	erasureLater  = 10 * time.Second
	erasureRetry  = 2 * time.Second
	// erasureActor is the actor of the commands.
	erasureActor = "erasure"
	// noRevision is of no life: a command that carries it is for a key that nobody knows.
	noRevision = 1 << 40
)

// eraser works on erasures, one at a time.
type eraser struct {
	s    *Server
	kick chan struct{}
}

func newEraser(s *Server) *eraser { return &eraser{s: s, kick: make(chan struct{}, 1)} }

// wake says that there may be an erasure.
func (r *eraser) wake() {
	select {
	case r.kick <- struct{}{}:
	default:
	}
}

// RunErasures erases users until ctx ends. It does nothing where there is no preference
// store.
func (s *Server) RunErasures(ctx context.Context) error {
	if s.opts.Preferences == nil {
		<-ctx.Done()
		return nil
	}
	for {
		worked, err := s.erasures.one(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			s.log.Warn("erasing a user's triggers failed; it is tried again", "error", err)
		}
		if worked && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.erasures.kick:
		case <-time.After(movesPoll):
		}
	}
}

// erasing is one erasure that is worked on.
type erasing struct {
	*eraser
	preferences.Erasure

	sent    map[trigger.Key]int64 // with which revision a trigger was erased last
	renewed time.Time
	flying  int
	done    chan location
	left    bool // the pass has found something that is not erased yet
}

// errLost says that somebody else works on the erasure, or that there is a newer one.
var errLost = errors.New("the claim of the erasure is lost")

// one works on the oldest erasure, if there is one.
func (r *eraser) one(ctx context.Context) (worked bool, err error) {
	store := r.s.opts.Preferences
	e, ok, err := store.ClaimErasure(ctx, erasureLease)
	if err != nil || !ok {
		return false, err
	}
	begun := time.Now()
	w := &erasing{eraser: r, Erasure: e, sent: map[trigger.Key]int64{}, renewed: begun}
	pause := 50 * time.Millisecond
	for range erasurePasses {
		switch err := w.pass(ctx); {
		case errors.Is(err, errLost):
			return true, nil
		case err != nil:
			_ = w.renew(ctx, erasureRetry) // else it is claimed when the lease is over
			return true, fmt.Errorf("tenant %s: %w", e.User.Tenant, err)
		case !w.left:
			r.s.log.Info("a user was erased", "tenant", e.User.Tenant, "triggers", w.Triggers,
				"took", time.Since(begun).Round(time.Millisecond))
			return true, store.FinishErasure(ctx, w.Erasure)
		}
		if err := w.renew(ctx, erasureLease); err != nil {
			return true, lost(err)
		}
		wait.For(ctx, pause)
		pause = min(2*pause, time.Second)
	}
	return true, lost(w.renew(ctx, erasureLater))
}

// lost is nil for a claim that is lost: somebody else goes on.
func lost(err error) error {
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// renew prolongs the claim and writes how far the erasure is.
func (w *erasing) renew(ctx context.Context, lease time.Duration) error {
	ok, err := w.s.opts.Preferences.RenewErasure(ctx, w.Erasure, lease)
	if err == nil && !ok {
		err = errLost
	}
	w.renewed = time.Now()
	return err
}

// pass walks what the engine knows of the user, and then what the history knows. What it has
// erased it finds no more in the next pass, when the history has read that far.
func (w *erasing) pass(ctx context.Context) error {
	w.left, w.flying, w.done = false, 0, make(chan location, erasurePage)
	if err := w.known(ctx); err != nil {
		return fmt.Errorf("list triggers: %w", err)
	}
	if err := w.durable(ctx); err != nil {
		return err
	}
	if history := w.s.opts.UserTriggers; history != nil {
		seen := map[trigger.Key]bool{}
		err := history.TriggersOf(ctx, w.User.Tenant, w.User.ID, func(key trigger.Key) error {
			if seen[key] {
				return nil
			}
			seen[key] = true
			return w.remembered(ctx, key)
		})
		if err != nil {
			return fmt.Errorf("list triggers of the history: %w", err)
		}
	}
	return w.durable(ctx)
}

// known erases what the engine lists of the user, finished triggers too.
func (w *erasing) known(ctx context.Context) error {
	q := peer.Query{
		Tenant: w.User.Tenant, User: w.User.ID, Limit: erasurePage, Budget: w.s.opts.ListBudget,
	}
	for {
		page, err := w.s.router.Find(ctx, q)
		if err != nil {
			return err
		}
		for _, f := range page.Items {
			if w.Covers(f.State.Life.Partition, f.State.Life.Offset) {
				if err := w.erase(ctx, f.State.Key, f.State.Revision); err != nil {
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

// remembered erases a trigger that the history lists, unless it is of a newer life, or
// somebody else's by now.
func (w *erasing) remembered(ctx context.Context, key trigger.Key) error {
	if time.Since(w.renewed) > erasureLease/3 {
		if err := w.renew(ctx, erasureLease); err != nil {
			return err
		}
	}
	st, err := w.s.router.Get(ctx, key)
	if err != nil {
		return fmt.Errorf("read a trigger: %w", err)
	}
	switch {
	case st == nil || st.Status == trigger.Unknown:
		return w.erase(ctx, key, noRevision)
	case st.Status == trigger.Erased:
		w.left = true // the history is behind
		return nil
	case !w.Covers(st.Life.Partition, st.Life.Offset):
		return nil
	case st.Spec.UserID == w.User.ID, st.Spec.UserID == "" && st.Status.Finished():
		return w.erase(ctx, key, st.Revision)
	}
	return nil
}

// erase sends the command.
func (w *erasing) erase(ctx context.Context, key trigger.Key, revision int64) error {
	w.left = true
	before, known := w.sent[key]
	if known && before == revision {
		return nil // it is under way
	}
	c, err := w.command(ctx, key, revision)
	if err != nil {
		return err
	}
	w.sent[key] = revision
	if !known {
		w.Triggers++
	}
	w.s.commands.send(ctx, c, func(at location) { w.done <- at })
	if w.flying++; w.flying < erasurePage {
		return nil
	}
	if err := w.durable(ctx); err != nil {
		return err
	}
	return w.renew(ctx, erasureLease)
}

// durable waits for the commands that are on their way.
func (w *erasing) durable(context.Context) error {
	n := w.flying
	w.flying = 0
	return w.s.moves.durable(w.done, n)
}

func (w *erasing) command(ctx context.Context, key trigger.Key, revision int64) (*command, error) {
	plain, err := http.NewRequestWithContext(ctx, http.MethodDelete, "/v1/users/{user}", http.NoBody)
	if err != nil {
		return nil, err
	}
	r := &request{Request: plain, who: auth.Caller{Tenant: w.User.Tenant, Name: erasureActor, Role: auth.Writer}}
	var fs fields
	fs.set("if_revision", revision)
	return w.s.command(r, trigger.OpErase, key.ID(), fs)
}
