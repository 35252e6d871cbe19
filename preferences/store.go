package preferences

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// User identifies the owner of preferences.
type User struct{ Tenant, ID string }

// Check refuses a user that no command can name.
func (u User) Check() error {
	if u.ID == "" || len(u.ID) > MaxUser {
		return invalid("user_id", "a user is 1 to %d bytes", MaxUser)
	}
	for _, r := range u.ID {
		if visible(r) != r || r == '\ufffd' {
			return invalid("user_id", "a user is UTF-8 without control characters")
		}
	}
	return nil
}

// Move is a user's new zone, until the user's follow_user triggers are in it. A user has one: the
// newest.
type Move struct {
	User  User
	Zone  string
	Seq   int64  // grows with every new zone
	Claim string // who works on it
}

// Store keeps preferences. It is safe for concurrent use, also by many processes if they share
// it. preferencestest tests every implementation.
type Store interface {
	Editor
	Erasures

	// Get reads the preferences of users, in their order and in one request. An unknown user has
	// the zero value, not nil. The results may be shared, so nobody may change them. For an
	// erased user, ErasedAt is set. If documents cannot be parsed, their users get nil, and the
	// error is an *UnreadableError that names them. The results of the other users are then
	// valid.
	Get(ctx context.Context, users []User) ([]*Preferences, error)
	// Put replaces a user's preferences. A zone that differs from the last one, and is not "", is
	// written as that user's move in the same transaction; "" ends a move. If the user is new and
	// the tenant has the maximum of users, it returns ErrTooManyUsers and writes nothing.
	Put(ctx context.Context, user User, p *Preferences) error

	// Claim claims a move that has no valid claim, for the lease, of a tenant that is not among
	// the exceptions. It takes the oldest that was never claimed, or else the one whose claim
	// ended first. So a failing move does not delay others. ok is false if there is none.
	Claim(ctx context.Context, except []string, lease time.Duration) (m Move, ok bool, err error)
	// Renew extends a claim. It returns false if the claim is lost, or the user has a newer zone.
	// Then the caller must write nothing more for m.
	Renew(ctx context.Context, m Move, lease time.Duration) (bool, error)
	// Done ends a move. If the claim is lost, it does nothing. If the user has a newer zone, it
	// ends only the claim, so that the newer zone can be claimed.
	Done(ctx context.Context, m Move) error

	// Moves returns how many users' moves are not done.
	Moves(ctx context.Context) (int, error)

	// Admit decides on messages that are to be sent now, in their order, and claims each by its
	// ID, under a lock of its user and channel. The answers are "" or a code. A message that was
	// claimed before gets the same answer as then, and its claim is kept longer.
	Admit(ctx context.Context, at time.Time, l Limits, list []Message) ([]string, error)
	// Release drops the claim of a message that reached nobody.
	Release(ctx context.Context, m Message) error
	// Sweep drops at most so many expired claims, oldest first. It also drops erasures that were
	// done longer than ErasureKept ago.
	Sweep(ctx context.Context, now time.Time, most int) (dropped int, err error)

	// WaitingErasures returns how many erasures of a tenant are not done. It stops counting at
	// most.
	WaitingErasures(ctx context.Context, tenant string, most int) (int, error)

	Close() error
}

// Editor changes a user's current preferences.
type Editor interface {
	// Edit replaces a user's preferences by the result of f, unless f reports no change. No Put
	// can happen in between. f must change neither its argument nor the zone, and may be called
	// more than once. A user without preferences has the zero value. If the document cannot be
	// parsed, the error is an *UnreadableError, and nothing changes.
	Edit(ctx context.Context, u User, f func(*Preferences) (_ *Preferences, changed bool)) (changed bool, err error)
	// Mend replaces a user's document by the result of f, if it cannot be parsed now. No Put can
	// happen in between. If the zone changes, that is not a move.
	Mend(ctx context.Context, u User, f func(document []byte) *Preferences) (mended bool, err error)
}

// UnreadableError names users whose stored documents cannot be parsed, for example after a change
// by hand. A Put replaces such a document.
type UnreadableError struct {
	Users []User
	Err   error // of the first
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("the preferences of %d users cannot be parsed, among them those of %s: %v", len(e.Users),
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

// OrNil returns e as an error, or a nil error if e is nil.
func (e *UnreadableError) OrNil() error {
	if e == nil {
		return nil
	}
	return e
}

// ErrAway means that a store does not answer. Errors of stores wrap it unless the caller is at
// fault.
var ErrAway = errors.New("the preference store does not answer")

// ErrTooManyUsers means that a tenant already has preferences of as many users as it may. Edit
// counts a new user but never refuses one, because an opt-out must take effect.
var ErrTooManyUsers = errors.New("the tenant has reached its limit of users with preferences")
