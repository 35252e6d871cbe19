package dangling

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// Ending is how the last transaction of a partition's owner ended.
type Ending string

// These are the possible endings.
const (
	NeverBegun Ending = "never begun"
	Committed  Ending = "committed"
	Aborted    Ending = "aborted"
	Forgotten  Ending = "forgotten" // a later owner has begun to open the partition since
)

// Last says how the last transaction ended, and which producer wrote it.
type Last struct {
	How      Ending
	Producer int64
	Epoch    int16
	Err      error
}

// Describe asks how the last transaction of an id ended, or how InitProducerId would end
// it. InitProducerId makes the brokers forget the answer, so Describe must come first.
func Describe(ctx context.Context, cl *kgo.Client, transactionalID string) (last Last) {
	passes := func(err error) bool { // a coordinator that loads, or a broker that is away
		return kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err)
	}
	last.Err = kafkapart.Retry(ctx, passes, func() (err error) {
		last, err = describe(ctx, cl, transactionalID)
		return err
	})
	return last
}

func describe(ctx context.Context, cl *kgo.Client, id string) (Last, error) {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{id}
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		return Last{}, fmt.Errorf("describe transaction %s: %w", id, err)
	}
	if len(resp.TransactionStates) == 0 {
		return Last{}, fmt.Errorf("describe transaction %s: empty answer", id)
	}
	t := &resp.TransactionStates[0]
	switch err := kerr.ErrorForCode(t.ErrorCode); {
	case errors.Is(err, kerr.TransactionalIDNotFound):
		return Last{How: NeverBegun}, nil
	case err != nil:
		return Last{}, fmt.Errorf("describe transaction %s: %w", id, err)
	}
	return Last{How: endingOf(t.State), Producer: t.ProducerID, Epoch: t.ProducerEpoch}, nil
}

// endingOf converts a coordinator's state.
func endingOf(state string) Ending {
	switch state {
	case "PrepareCommit", "CompleteCommit":
		return Committed
	case "Ongoing", "PrepareAbort", "CompleteAbort", "PrepareEpochFence":
		return Aborted
	}
	return Forgotten
}

// Endings keeps what the brokers forgot when this process called InitProducerId, until the
// opening is complete.
type Endings struct {
	mu sync.Mutex
	by map[int32]Last
}

// Keep must follow InitProducerId.
func (e *Endings) Keep(partition int32, last Last) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.by == nil {
		e.by = map[int32]Last{}
	}
	e.by[partition] = last
}

// Drop is called when the opening is complete.
func (e *Endings) Drop(partition int32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.by, partition)
}

// Of returns how the last transaction ended. If the brokers forgot it because of this
// process, and of no later owner, it returns what this process kept.
func (e *Endings) Of(partition int32, now Last) Ending {
	e.mu.Lock()
	defer e.mu.Unlock()
	was, ok := e.by[partition]
	if ok && now.How == Forgotten && was.Producer == now.Producer && was.Epoch == now.Epoch {
		return was.How
	}
	return now.How
}
