package attack

import (
	"context"
	"sync"
	"testing"
	"time"
)

// attacks are those that are measured.
func attacks() []attack {
	return []attack{
		{"trickled batches", nil, trickledBatches},
	}
}

// trickle is a body that comes byte by byte.
type trickle struct{ ctx context.Context } //nolint:containedctx // a reader has no other way

func (r trickle) Read(b []byte) (int, error) {
	if pause(r.ctx, 500*time.Millisecond); r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	b[0] = ' '
	return 1, nil
}

// trickledBatches opens more than there may be, and sends a byte now and then.
func trickledBatches(ctx context.Context, _ *testing.T, a *tenant) {
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			for ctx.Err() == nil {
				if resp, err := a.send(ctx, "POST", "/v1/triggers:batch", trickle{ctx}); err == nil {
					resp.Body.Close()
				}
				pause(ctx, 100*time.Millisecond)
			}
		})
	}
	all.Wait()
}
