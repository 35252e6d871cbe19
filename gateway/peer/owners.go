package peer

import (
	"context"
	"strconv"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/waterclock/waterclock/gateway/problem"
)

// ownerTable keeps who owns which partition.
type ownerTable struct {
	lookup func(ctx context.Context, partition int32) (OwnerRecord, error)

	flight singleflight.Group // many callers miss the same owner at once
	mu     sync.Mutex
	known  map[int32]OwnerRecord
}

// OwnerRecord is what the last progress record of a partition says.
type OwnerRecord struct {
	Address     string // internal address; "" where there is no record yet
	Term        int64
	NextCommand int64
}

// find is the owner of a partition, read again from topic state if fresh.
func (t *ownerTable) find(ctx context.Context, partition int32, fresh bool) (OwnerRecord, error) {
	t.mu.Lock()
	who, ok := t.known[partition]
	t.mu.Unlock()
	if ok && !fresh {
		return who, nil
	}
	answer := t.flight.DoChan(strconv.Itoa(int(partition)), func() (any, error) {
		return t.read(partition)
	})
	select {
	case a := <-answer:
		if a.Err != nil {
			return OwnerRecord{}, problem.Unavailable(a.Err,
				"the partition's owner cannot be found while Kafka does not answer")
		}
		return a.Val.(OwnerRecord), nil
	case <-ctx.Done():
		return OwnerRecord{}, ctx.Err()
	}
}

// forget lets the next question read the owner from topic state, unless another one is known by now.
func (t *ownerTable) forget(partition int32, address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[partition].Address == address {
		delete(t.known, partition)
	}
}

func (t *ownerTable) read(partition int32) (OwnerRecord, error) {
	ctx, cancel := context.WithTimeout(context.Background(), SearchTimeout)
	defer cancel()
	who, err := t.lookup(ctx, partition)
	if err != nil {
		return OwnerRecord{}, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[int32]OwnerRecord{}
	}
	t.known[partition] = who
	return who, nil
}
