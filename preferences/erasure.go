package preferences

import (
	"context"
	"crypto/sha256"
	"time"
)

// ErasureKept is how long a finished erasure is kept: several times the default retention of due
// topics. Workers read it. It no longer has the user id.
const ErasureKept = 30 * 24 * time.Hour

// Erasure is the order to erase a user, or the record that it is done. A user has one: the
// newest.
type Erasure struct {
	User User // its ID is "" once it is done
	// At is when the erasure was requested. Due events that were emitted until then are not sent.
	At time.Time
	// Before has the end of each partition of topic commands at that time. A life whose register
	// is at that offset or later is new, and is not erased.
	Before   map[int32]int64
	Triggers int // erased so far
	Done     bool

	Seq   int64  // grows with every request
	Claim string // who works on it
}

// Covers reports whether to erase a life whose register is at this offset of topic commands.
func (e *Erasure) Covers(partition int32, offset int64) bool {
	end, known := e.Before[partition]
	return !known || offset < end
}

// Turn says whose erasure to claim. Whoever claims one after the other passes the tenant of the
// last one, so tenants take turns, however many erasures each of them has.
type Turn struct {
	After  string   // the next tenant by name has the turn; behind the last one, the first
	Except []string // tenants that have none now
}

// Erasures is the outbox of users to erase.
type Erasures interface {
	// Erase deletes a user's preferences, move and claims, and writes the erasure, in one
	// transaction. If the user has an erasure, the new one replaces it and also covers what it
	// covers.
	Erase(ctx context.Context, e Erasure) error
	// Erasure returns a user's newest erasure. ok is false if there is none.
	Erasure(ctx context.Context, u User) (e Erasure, ok bool, err error)
	// ClaimErasure claims an erasure that is not done and has no valid claim, for the lease: one
	// of the tenant whose turn it is. Of that tenant it takes the oldest that was never claimed,
	// or else the one whose claim ended first.
	ClaimErasure(ctx context.Context, turn Turn, lease time.Duration) (e Erasure, ok bool, err error)
	// RenewErasure extends a claim, and stores how many triggers were erased. It returns false if
	// the claim is lost, or the user has a newer erasure.
	RenewErasure(ctx context.Context, e Erasure, lease time.Duration) (bool, error)
	// FinishErasure ends an erasure, unless the claim is lost or the user has a newer one. It
	// drops the user's id. It also drops the claims that workers made for messages emitted until
	// At.
	FinishErasure(ctx context.Context, e Erasure) error
	// PendingErasures returns how many erasures are not done, and At of the oldest of them, or
	// the zero time if there is none.
	PendingErasures(ctx context.Context) (n int, oldest time.Time, err error)
}

// Hash identifies an erased user. Whoever can guess the user's id can compute it.
func (u User) Hash() [sha256.Size]byte {
	return sha256.Sum256([]byte("waterclock erased user\x00" + u.Tenant + "\x00" + u.ID))
}
