package preferences

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// User is whose preferences they are.
type User struct{ Tenant, ID string }

// Check refuses a user that no command can name.
func (u User) Check() error {
	if u.ID == "" || len(u.ID) > MaxUser {
		return invalid("user_id", "a user is 1 to %d bytes", MaxUser)
	}
	for _, r := range u.ID {
		if printable(r) != r || r == '\ufffd' {
			return invalid("user_id", "a user is UTF-8 without control characters")
		}
	}
	return nil
}

// Move is a user's new zone, until that user's follow_user triggers are in it.
// There is one for a user: the newest.
type Move struct {
	User  User
	Zone  string
	Seq   int64  // grows with every new zone
	Claim string // by whom it is worked on
}

// Store keeps preferences. It is safe for concurrent use, by many processes where
// they share it. preferencestest holds every implementation to this.
type Store interface {
	Editor
	Erasures

	// Get reads the preferences of users, in their order and in one request. That of
	// a user who is not known is the zero value; none is nil. They may be shared:
	// nobody changes them. Those of a user who was erased say when. Users whose documents do not
	// parse are nil, and the error is an *UnreadableError about them alone: what the others have
	// is right.
	Get(ctx context.Context, users []User) ([]*Preferences, error)
	// Put replaces a user's preferences. A zone that differs from the last one, and is
	// not "", is written as that user's move in the same transaction; "" ends a move.
	// Of a new user, where the tenant has as many as it may, it is ErrTooManyUsers, and
	// nothing is written.
	Put(ctx context.Context, user User, p *Preferences) error

	// Claim takes a move that nobody works on, for so long: the oldest that was never claimed,
	// else the one whose claim ended first. ok is false if there is none. So a move that fails
	// holds up no other.
	Claim(ctx context.Context, lease time.Duration) (m Move, ok bool, err error)
	// Renew prolongs a claim. It is false if the claim is lost, or the user has a
	// newer zone: then nothing more may be written for m.
	Renew(ctx context.Context, m Move, lease time.Duration) (bool, error)
	// Done ends a move, unless the claim is lost or the user has a newer zone. Then
	// it ends the claim alone, so that the newer zone can be claimed.
	Done(ctx context.Context, m Move) error

	// Moves is how many users' moves are not done.
	Moves(ctx context.Context) (int, error)

	// Admit decides about messages that are to be sent now, in their order, and claims
	// each of them by its ID, under a lock of its user and channel. The answers are "" or a
	// code. A message that was claimed before has the answer of then, and its claim is
	// kept for longer.
	Admit(ctx context.Context, at time.Time, l Limits, list []Message) ([]string, error)
	// Release drops the claim of a message that reached nobody.
	Release(ctx context.Context, m Message) error
	// Sweep drops claims that are over at an instant, the oldest first, at most so many. It
	// also drops erasures that were done ErasureKept before.
	Sweep(ctx context.Context, now time.Time, most int) (dropped int, err error)

	// WaitingErasures is how many erasures of a tenant are not done. It counts no further than most.
	WaitingErasures(ctx context.Context, tenant string, most int) (int, error)

	Close() error
}

// Editor changes what a user wants, as it is now.
type Editor interface {
	// Edit replaces a user's preferences by what f makes of them, unless f says that nothing
	// changes. No Put comes in between. f changes neither what it is given nor the zone, and may
	// be called more than once. A user without preferences has the zero value.
	// Where they do not parse, the error is an *UnreadableError, and nothing changes.
	Edit(ctx context.Context, u User, f func(*Preferences) (_ *Preferences, changed bool)) (changed bool, err error)
	// Mend replaces a user's document by what f makes of it, if it does not parse now. No Put comes
	// in between. A zone that it changes is no move.
	Mend(ctx context.Context, u User, f func(document []byte) *Preferences) (mended bool, err error)
}

// UnreadableError says that documents are kept that are none, as after a change by hand. A Put
// replaces one.
type UnreadableError struct {
	Users []User
	Err   error // of the first
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the preferences of %d users do not parse, of %s among them: %v", len(e.Users),
		strconv.Quote(e.Users[0].ID), e.Err)
}

func (e *UnreadableError) Unwrap() error { return e.Err }

// Add adds a user to an error, which may be nil.
func (e *UnreadableError) Add(u User, err error) *UnreadableError {
	if e == nil {
		e = &UnreadableError{Err: err}
	}
	e.Users = append(e.Users, u)
	return e
}

// OrNil is e as an error; nil where e is.
func (e *UnreadableError) OrNil() error {
	if e == nil {
		return nil
	}
	return e
}

// ErrAway says that a store does not answer. Errors of stores wrap it unless the
// caller is at fault.
var ErrAway = errors.New("the preference store does not answer")

// ErrTooManyUsers says that a tenant has preferences of as many users as it may. Edit counts a new
// user and never refuses one: an opt-out holds.
var ErrTooManyUsers = errors.New("the tenant has preferences of as many users as it may")
