package preferences

import (
	"context"
	"crypto/sha256"
	"time"
)

// ErasureKept is how long a finished erasure is kept: as long as due topics keep, by default,
// several times over. Workers read it, and it has no user id any more.
const ErasureKept = 30 * 24 * time.Hour

// Erasure is that a user is to be forgotten, or has been. There is one for a user: the
// newest.
type Erasure struct {
	User User // its ID is "" once it is done
	// At is when it was asked for. Due events that were emitted until then are not sent.
	At time.Time
	// Before has the end of each partition of topic commands at that time. A life whose
	// register stands there or later is new, and is not erased.
	Before   map[int32]int64
	Triggers int // erased so far
	Done     bool

	Seq   int64  // grows with every erasure that is asked for
	Claim string // by whom it is worked on
}

// Covers reports whether a life with its register at a position of topic commands is to be
// erased.
func (e *Erasure) Covers(partition int32, offset int64) bool {
	end, known := e.Before[partition]
	return !known || offset < end
}

// Erasures are the outbox of users who are to be forgotten.
type Erasures interface {
	// Erase deletes a user's preferences, move and claims, and writes what is to be done
	// next, in one transaction. Where an erasure of the user is there, the new one takes its
	// place, and covers what it covers.
	Erase(ctx context.Context, e Erasure) error
	// Erasure is a user's newest; ok is false if there is none.
	Erasure(ctx context.Context, u User) (e Erasure, ok bool, err error)
	// ClaimErasure takes one that is not done and that nobody works on, for so long: the oldest
	// that was never claimed, else the one whose claim ended first.
	ClaimErasure(ctx context.Context, lease time.Duration) (e Erasure, ok bool, err error)
	// RenewErasure prolongs a claim, and writes how many triggers were erased. It is false if
	// the claim is lost, or the user has a newer erasure.
	RenewErasure(ctx context.Context, e Erasure, lease time.Duration) (bool, error)
	// FinishErasure ends an erasure, unless the claim is lost or the user has a newer one.
	// The user's id is dropped. So are claims of messages that workers made for what was
	// emitted until At.
	FinishErasure(ctx context.Context, e Erasure) error
	// PendingErasures is how many are not done, and At of the oldest of them; zero if there is none.
	PendingErasures(ctx context.Context) (n int, oldest time.Time, err error)
}

// Hash stands for a user who was erased. Whoever can guess the id can compute it.
func (u User) Hash() [sha256.Size]byte {
	return sha256.Sum256([]byte("waterclock erased user\x00" + u.Tenant + "\x00" + u.ID))
}
