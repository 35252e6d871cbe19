package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/trigger"
)

// A partition that moves away during a read has another owner. The reader must get not_owner, and
// not a failure. A scan that ends with its context is an error, and not a short one.
func TestReadWhileAPartitionMoves(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1, Quiet: true})
	n := w.Start("a")
	w.AwaitOwners()
	w.SendAll(200, func(i int) (string, string) {
		return fmt.Sprintf("k%03d", i), `{"op":"register","delay":"1h","user_id":"u"}`
	})
	own := engineOwner{e: n.Engine}
	for _, o := range []peer.Owner{own, own.Stale()} { // the fresh read has waited for all commands
		n := 0
		if err := o.Scan(w.Context(), 0, "", func(*trigger.State) bool { n++; return true }); err != nil || n != 200 {
			t.Errorf("%T: %d triggers, %v", o, n, err)
		}
	}
	ctx, cancel := context.WithCancel(w.Context())
	err := own.Scan(ctx, 0, "", func(*trigger.State) bool { cancel(); return false })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that ended with its context: %v", err)
	}
	ctx, cancel = context.WithCancel(w.Context())
	err = own.ScanUser(ctx, 0, trigger.DefaultTenant, "u", peer.UserCursor{},
		func(peer.UserCursor, *trigger.State) bool { cancel(); return false })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("a user's scan that ended with its context: %v", err)
	}
	seen := 0
	leave := func() bool {
		if seen++; seen == 1 {
			go func() { _ = w.Stop("a") }()
			time.Sleep(500 * time.Millisecond) // the partition moves meanwhile
		}
		return true
	}
	err = own.Scan(w.Context(), 0, "", func(*trigger.State) bool { return leave() })
	if e, ok := errors.AsType[*trigger.Error](err); !ok || e.Code != trigger.CodeNotOwner {
		t.Errorf("after %d triggers: %v", seen, err)
	}
	err = own.ScanUser(w.Context(), 0, trigger.DefaultTenant, "u", peer.UserCursor{},
		func(peer.UserCursor, *trigger.State) bool { return true })
	if e, ok := errors.AsType[*trigger.Error](err); !ok || e.Code != trigger.CodeNotOwner {
		t.Errorf("afterwards: %v", err)
	}
}
