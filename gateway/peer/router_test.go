package peer

import (
	"context"
	"testing"
	"time"
)

// An owner that is known, and is none any more, is read anew and not asked for ever.
func TestDeadOwnerIsNotAskedForEver(t *testing.T) {
	now := "old:1"
	r := &Router{partitions: 1, owners: &ownerTable{lookup: func(context.Context, int32) (OwnerRecord,
		error,
	) {
		return OwnerRecord{Address: now}, nil
	}}}
	ask := func() (last string, err error) {
		err = r.ask(t.Context(), 0, time.Second, nil, func(addr string) error {
			if last = addr; addr != now {
				return ErrNoOwner
			}
			return nil
		})
		return last, err
	}
	if addr, err := ask(); addr != "old:1" || err != nil {
		t.Errorf("%s answered, %v", addr, err)
	}
	now = "new:1"
	if addr, err := ask(); addr != "new:1" || err != nil {
		t.Errorf("after the move %s answered, %v", addr, err)
	}
}
