package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// A user's new zone moves that user's triggers with follow_user. The preferences'
// own transaction writes a row to the outbox; an instance claims it, writes a
// rezone for each trigger, and deletes the row. A crash leaves the row, and what
// is in the new zone already is passed over. So each trigger is moved once; if a
// write is repeated because nobody knows whether it arrived, the second is
// command.duplicate.

const (
	// moveLease is how long a claim holds, and movePage how long one page may take
	// until its writes are sent. Those that are not acknowledged within
	// Options.ProduceWithin are given up. So nothing is written after the lease.
	moveLease = 30 * time.Second
	movePage  = 15 * time.Second
	// movePageSize is how many triggers are read at once.
	movePageSize = 500
	// movePasses bounds how often the triggers of one user are walked. The second
	// finds nothing to do, unless somebody changes them at the same time.
	movePasses = 20
	// moverName is the actor of the commands.
	moverName = "preferences"
)

// mover works on moves.
type mover struct {
	outbox

	store   preferences.Store
	encoder *encoder
	router  *peer.Router // lists triggers
	sender  *sender

	listBudget int
	log        *slog.Logger
}

func newMover(o *Options, e *encoder, router *peer.Router, s *sender) *mover {
	m := &mover{
		store: o.Preferences, encoder: e, router: router, sender: s, listBudget: o.ListBudget, log: o.Logger,
	}
	m.outbox = newOutbox(o.Auth != nil)
	m.claim, m.failed = m.claimMove, o.Listener.MoveFailed
	m.measure = func(ctx context.Context) error {
		n, err := m.store.Moves(ctx)
		if err == nil {
			o.Listener.Moves(n)
		}
		return err
	}
	return m
}

// RunMoves moves follow_user triggers to their users' new zones until ctx ends.
// It does nothing where there is no preference store.
func (s *Server) RunMoves(ctx context.Context) error {
	return s.moves.run(ctx, s.opts.Preferences, s.log,
		"moving triggers to a user's new zone failed; will retry")
}

// claimMove takes a move, if there is one.
func (m *mover) claimMove(ctx context.Context, full []string) (tenant string, work func(context.Context) error,
	err error,
) {
	move, ok, err := m.store.Claim(ctx, full, moveLease)
	if err != nil || !ok {
		return "", nil, err
	}
	return move.User.Tenant, func(ctx context.Context) error { return m.move(ctx, move) }, nil
}

// move works on a move.
func (m *mover) move(ctx context.Context, move preferences.Move) error {
	begun, moved := time.Now(), 0
	// tried has the revisions that were sent a rezone. What was moved follows no more, so it is
	// needed for those that the engine refuses to move: each of these gets one, and of more
	// than recentMost some get more, movePasses at most.
	var tried recentKeys
	for range movePasses {
		sent, newest, err := m.pass(ctx, move, &tried)
		moved += sent
		if err != nil {
			return fmt.Errorf("user %q: %w", move.User.ID, err)
		}
		if !newest || sent == 0 {
			break
		}
	}
	if moved > 0 {
		m.log.Info("a user's triggers were moved to a new zone", "tenant", move.User.Tenant, "zone", move.Zone,
			"triggers", moved, "took", time.Since(begun).Round(time.Millisecond))
	}
	return m.store.Done(ctx, move)
}

// pass walks the user's triggers once, by their next due times. A move changes
// those, so a walk may meet a trigger twice, which does no harm; one that somebody
// moved from ahead of the walk to behind it is found by the next pass. newest is
// false where the claim is lost or a newer zone is there.
func (m *mover) pass(ctx context.Context, move preferences.Move, tried *recentKeys) (
	sent int, newest bool, err error,
) {
	q := peer.Query{
		Tenant: move.User.Tenant, User: move.User.ID, States: 1<<trigger.Pending | 1<<trigger.Paused,
		Limit: movePageSize, Budget: m.listBudget,
	}
	for {
		if newest, err = m.store.Renew(ctx, move, moveLease); !newest || err != nil {
			return sent, newest, err
		}
		page, n, err := m.page(ctx, move, q, tried)
		sent += n
		if err != nil || !page.More {
			return sent, true, err
		}
		q.After = page.Through
	}
}

// page moves one page, and waits until the commands are durable.
func (m *mover) page(ctx context.Context, move preferences.Move, q peer.Query, tried *recentKeys) (
	page peer.Page, sent int, err error,
) {
	ctx, cancel := context.WithTimeout(ctx, movePage)
	defer cancel()
	if page, err = m.router.Find(ctx, q); err != nil {
		return page, 0, fmt.Errorf("list triggers: %w", err)
	}
	commands := m.sender.begin(move.User.Tenant, len(page.Items))
	for _, f := range page.Items {
		if !follows(f.State, move) {
			continue
		}
		if last, ok := tried.get(f.State.Key); ok && last == f.State.Revision {
			continue
		}
		c, err := m.command(ctx, f.State, move)
		if err != nil {
			m.log.Warn("a trigger cannot move to its user's new zone", "trigger", f.State.Key, "zone", move.Zone,
				"error", err)
			tried.put(f.State.Key, f.State.Revision)
			continue
		}
		tried.put(f.State.Key, f.State.Revision)
		if err := commands.send(ctx, c); err != nil {
			return page, sent, errors.Join(err, commands.land(ctx))
		}
		sent++
	}
	return page, sent, commands.land(ctx)
}

// follows says whether a trigger is to move.
func follows(st *trigger.State, move preferences.Move) bool {
	w := &st.Spec.When
	return st.Spec.FollowUser && st.Spec.UserID == move.User.ID && w.Zone != "" && w.Zone != move.Zone &&
		(w.Kind == trigger.WhenLocal || w.Kind == trigger.WhenRecurrence)
}

// command is a rezone of a trigger as it was read: one that was changed since is
// found again by the next pass, if it still follows.
func (m *mover) command(ctx context.Context, st *trigger.State, move preferences.Move) (*command, error) {
	plain, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/preferences/{user}", http.NoBody)
	if err != nil {
		return nil, err
	}
	r := &request{Request: plain, who: auth.Caller{Tenant: move.User.Tenant, Name: moverName, Role: auth.Writer}}
	var fs fields
	fs.set("timezone", move.Zone)
	fs.set("if_revision", st.Revision)
	return m.encoder.command(r, trigger.OpRezone, st.Key.ID(), fs)
}
