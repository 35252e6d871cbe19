package gateway

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// outbox is work that the preference store keeps until it is done: moves and erasures of
// users. Up to outboxAtOnce users are worked on at the same time, so one who is slow or fails
// holds up nobody else. Where tenants share an outbox, none has more of these than it leaves free.
type outbox struct {
	kick chan struct{}
	// claim takes a row that nobody works on, the one that waits longest first. work is nil where
	// there is none. It takes none of the tenants that have their share already.
	claim  func(ctx context.Context, full []string) (tenant string, work func(context.Context) error, err error)
	shared bool         // among tenants
	share  *slots.Slots // of the rows that are worked on

	without []string  // the tenants without which there was no row to claim, when a store was last asked
	asked   time.Time // when that was

	// measure reports how much is waiting, every measureEvery, and failed that a row could not be
	// worked on.
	measure      func(ctx context.Context) error
	measureEvery time.Duration
	failed       func()
}

// newOutbox is one without rows. shared says that there are several tenants.
func newOutbox(shared bool) outbox {
	return outbox{
		kick: make(chan struct{}, 1), shared: shared, share: slots.New(outboxAtOnce, shared),
		measureEvery: outboxMeasure,
	}
}

const (
	// outboxPoll is how often an outbox is read without a reason: of rows that other instances
	// have left.
	outboxPoll = time.Second
	// outboxAtOnce is how many users of one outbox a process works on at once.
	outboxAtOnce = 8
	// outboxMeasure is how often the rows are counted.
	outboxMeasure = 15 * time.Second
)

// wake says that there may be a row.
func (o *outbox) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// run works on an outbox until ctx ends. It does nothing where there is no preference store.
func (o *outbox) run(ctx context.Context, store preferences.Store, log *slog.Logger, failed string) error {
	if store == nil {
		<-ctx.Done()
		return nil
	}
	fail := func(err error) {
		if err != nil && ctx.Err() == nil {
			log.Warn(failed, "error", err)
			o.failed()
		}
	}
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() {
		for ctx.Err() == nil {
			if err := o.measure(ctx); err != nil && ctx.Err() == nil {
				log.Debug("an outbox of the preference store was not counted", "error", err)
			}
			wait.For(ctx, o.measureEvery)
		}
	})
	busy := make(chan struct{}, outboxAtOnce)
	for {
		select {
		case <-ctx.Done():
			return nil
		case busy <- struct{}{}:
		}
		tenant, work, err := o.next(ctx)
		fail(err)
		if work != nil {
			o.share.Take(tenant) // there is one: busy has as many, and tenants that are full were left out
			working.Go(func() {
				defer func() {
					<-busy
					if o.share.Release(tenant); o.shared {
						o.wake() // rows of this tenant may have been left out
					}
				}()
				fail(work(ctx))
			})
			continue
		}
		<-busy
		select {
		case <-ctx.Done():
			return nil
		case <-o.kick:
		case <-time.After(outboxPoll):
		}
	}
}

// next claims a row. A store looks at each row of the tenants that have their share to find none of
// others. So it is asked that once in outboxPoll.
func (o *outbox) next(ctx context.Context) (tenant string, work func(context.Context) error, err error) {
	full := o.share.Full()
	if len(full) > 0 && slices.Equal(full, o.without) && time.Since(o.asked) < outboxPoll {
		return "", nil, nil
	}
	if tenant, work, err = o.claim(ctx, full); work == nil {
		o.without, o.asked = full, time.Now()
	}
	return tenant, work, err
}

// recentKeys keeps a revision for each of the keys that were put last: for at least recentMost
// of them, and at most twice as many. So a user with millions of triggers costs no more memory
// than one with thousands.
type recentKeys struct{ young, old map[trigger.Key]int64 }

const recentMost = 5_000

func (r *recentKeys) get(key trigger.Key) (revision int64, ok bool) {
	if revision, ok = r.young[key]; !ok {
		revision, ok = r.old[key]
	}
	return revision, ok
}

func (r *recentKeys) put(key trigger.Key, revision int64) {
	if len(r.young) >= recentMost {
		r.old, r.young = r.young, nil
	}
	if r.young == nil {
		r.young = map[trigger.Key]int64{}
	}
	r.young[key] = revision
}
