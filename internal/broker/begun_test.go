package broker

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestStaleBatchOpensNothing: a batch of a fenced producer is refused, and its heir is not in a transaction because of
// it, which would time out and fence the heir too.
func TestStaleBatchOpensNothing(t *testing.T) {
	for _, c := range []struct {
		name  string
		fence func(t *testing.T, b *Broker, old *kmsg.EndTxnRequest)
	}{
		{"by an heir", func(t *testing.T, b *Broker, _ *kmsg.EndTxnRequest) {
			if err := initX(t, b, time.Minute); err != nil {
				t.Fatal(err)
			}
		}},
		{"by a timeout", func(t *testing.T, b *Broker, old *kmsg.EndTxnRequest) {
			writeIn(t, b, old, 1, 0, "slow")
			read(t, b, "a", 1, committed()) // returns once it has timed out
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 2)
			old := endOf(t, client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(300*time.Millisecond)))
			c.fence(t, b, old)
			p := produceIn(t, b, "x", "a", 0, inTxn(sequenced(old.ProducerID, old.ProducerEpoch, 0, "stale")))
			if p.ErrorCode != kerr.InvalidProducerEpoch.Code {
				t.Errorf("the stale batch: error %d, want INVALID_PRODUCER_EPOCH", p.ErrorCode)
			}
			req := kmsg.NewPtrDescribeTransactionsRequest()
			req.TransactionalIDs = []string{"x"}
			resp, err := req.RequestWith(testContext(t), client(t, b))
			if err != nil || resp.TransactionStates[0].State != "Empty" {
				t.Errorf("x is in a transaction: %+v, %v", resp.TransactionStates, err)
			}
		})
	}
}
