package peer

import (
	"cmp"
	"context"
	"time"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/trigger"
)

// Owner answers for the partitions this process owns. The engine stands behind
// it; internal/node has the adapter. Errors are *trigger.Error with
// CodeNotOwner when the partition is elsewhere or still being restored; any
// other error is a failure to read. All methods may be called concurrently.
type Owner interface {
	// Get reads a trigger behind the read barrier; nil, nil means unknown.
	Get(ctx context.Context, key trigger.Key) (*trigger.State, error)

	// Decision waits until the command appended at (partition, offset) with the
	// header wcx-ask is decided and committed. ok is false when it was, but the
	// owner does not keep how any more.
	Decision(ctx context.Context, key trigger.Key, partition int32, offset int64) (d Decision, ok bool, err error)

	// Scan calls f for the triggers of a partition after a key, in the order of
	// keys, until f returns false.
	Scan(ctx context.Context, partition int32, after trigger.Key, f func(*trigger.State) bool) error

	// ScanUser calls f for the triggers of one user after a place, in the order
	// of UserCursor, until f returns false.
	ScanUser(ctx context.Context, partition int32, tenant, user string, after UserCursor,
		f func(UserCursor, *trigger.State) bool) error

	// ScanTimers calls f for each instant at which a trigger of a partition has timers, after a
	// place, in the order in which they fire, until f returns false. f may call state.
	ScanTimers(ctx context.Context, partition int32, after TimerCursor,
		f func(at TimerCursor, state func() (*trigger.State, error)) bool) error

	// Stale is the same owner without its read barrier: Get and its scans do not wait for commands
	// that were acknowledged shortly before.
	Stale() Owner

	// Lateness reports how late the due events of a partition were: of one tenant, or of all
	// if it is empty. It waits for nothing.
	Lateness(ctx context.Context, partition int32, now trigger.Instant, w lateness.Window, tenant string) (
		lateness.Report, error)

	// Live says what is new in a partition, and from then on keeps the facts of those tenants for
	// some seconds. It waits for nothing.
	Live(ctx context.Context, partition int32, q *LiveQuery) (LiveAnswer, error)

	// Forecast answers from a picture of what a partition expects, which may be some time old.
	Forecast(ctx context.Context, partition int32, q forecast.Query) (forecast.Answer, error)

	// Reconcile compares the timers of a partition with its states, and the rows of its
	// history with what happened. It mends what differs, unless dry is set.
	Reconcile(ctx context.Context, partition int32, dry bool) (Reconciled, error)

	// Partitions is what every partition of this process says of itself.
	Partitions() []PartitionStatus
}

// Decision is what became of one command.
type Decision struct {
	State    *trigger.State // as the command left it; nil for an unknown key
	Rejected *trigger.Error
	Facts    []trigger.FactType
	Behind   time.Duration // how late the tenant's oldest timer is, if they fall due faster than they fire
}

// UserCursor is a place in a user's list, which is ordered by next due time and
// then key; what has no due time stands last. The zero cursor is before all.
type UserCursor struct {
	Due trigger.Instant
	Key trigger.Key
}

// Compare orders cursors as lists are ordered.
func (c UserCursor) Compare(o UserCursor) int {
	return cmp.Or(cmp.Compare(c.Due, o.Due), cmp.Compare(c.Key, o.Key))
}

// TimerCursor is a place in the order in which timers fire. It is before all triggers of the instant
// and the priority if it has no key. The zero cursor is before all.
type TimerCursor struct {
	Due      trigger.Instant
	Priority trigger.Priority
	Key      trigger.Key
}

// PartitionStatus is what a partition says of itself.
type PartitionStatus struct {
	Partition      int32
	Owner          string // internal address of the owner
	Term           int64  // owners so far
	CommandsOffset int64  // next command to decide
	CommandsLag    int64
	ControlOffset  int64 // settings below it are applied
	Pending        int64
	PendingLimit   int64           // registers beyond it are refused; 0: none, or not known
	Done           int64           // finished triggers that are still kept
	FiredThrough   trigger.Instant // everything due up to here has fired
	OldestOverdue  time.Duration
	Restored       int64  // records read so far, while restoring
	RestoreTotal   int64  // of so many
	Ready          bool   // restored and firing
	Doing          string // step of opening, or of the turn
	Refused        string // why it must not be opened; "": nothing is known against it

	// Standbys are the warm copies elsewhere. What one instance says of itself
	// has its own standby alone, and no Owner where it is nothing but that.
	Standbys []StandbyStatus
}

// StandbyStatus is a warm copy of a partition.
type StandbyStatus struct {
	Node string // internal address
	Lag  int64  // records of topic state it has still to read
	Warm bool   // it could take over without a restore
}
