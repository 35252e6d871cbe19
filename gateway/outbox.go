package gateway

import (
	"context"
	"log/slog"
	"time"

	"github.com/waterclock/waterclock/preferences"
)

// outbox is work that the preference store keeps until it is done: moves and erasures of
// users. It is worked on one row at a time.
type outbox struct {
	kick chan struct{}
	one  func(ctx context.Context) (worked bool, err error) // works on the oldest row, if there is one
}

func newOutbox(one func(ctx context.Context) (bool, error)) outbox {
	return outbox{make(chan struct{}, 1), one}
}

// outboxPoll is how often an outbox is read without a reason: of rows that other instances have
// left.
const outboxPoll = time.Second

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
	for {
		worked, err := o.one(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			log.Warn(failed, "error", err)
		}
		if worked && err == nil {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-o.kick:
		case <-time.After(outboxPoll):
		}
	}
}
