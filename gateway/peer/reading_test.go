package peer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// resting is an owner whose only scan computes for more than a slice. Its caller leaves while it rests.
type resting struct {
	Owner
	leave func()
}

func (o resting) Scan(_ context.Context, _ int32, _ trigger.Key, f func(*trigger.State) bool) error {
	if f(&trigger.State{Key: "a"}) {
		time.Sleep(slice + time.Millisecond)
		time.AfterFunc(time.Millisecond, o.leave)
		f(&trigger.State{Key: "b"})
	}
	return nil
}

// A scan that ends with its context has not seen all.
func TestScanThatEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		u, err := use(ctx, resting{leave: leave}, 0, "acme", named{channel: "push"}, &Budget{})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%+v, %v", u, err)
		}
	})
}
