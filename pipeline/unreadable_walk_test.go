package pipeline

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestBatchesHidden: who looks for batches that cannot be read sees the same
// ones as hidden as who looks past those.
func TestBatchesHidden(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for round := range 2000 {
		p, offset := kmsg.NewFetchResponseTopicPartition(), int64(100)
		open := map[int64]bool{} // producers with a transaction that will be aborted
		for range 1 + rnd.IntN(12) {
			n, producer := 1+rnd.IntN(3), int64(rnd.IntN(3))
			b := rawbatch.Seal("none", n, []byte{1})
			binary.BigEndian.PutUint64(b, uint64(offset))
			binary.BigEndian.PutUint64(b[batchProducerID:], uint64(producer))
			attributes := uint16(0)
			switch rnd.IntN(5) {
			case 0: // no transaction
			case 1:
				attributes = attrTransaction | attrControl
				delete(open, producer)
			case 2:
				binary.BigEndian.PutUint32(b[batchNumRecords:], 0)
			default:
				attributes = attrTransaction
				if rnd.IntN(2) == 0 && !open[producer] {
					open[producer] = true
					p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: producer, FirstOffset: offset})
				}
			}
			binary.BigEndian.PutUint16(b[batchAttributes:], attributes)
			p.RecordBatches = append(p.RecordBatches, b...)
			offset += int64(n)
		}
		next := int64(100)
		for b := range batches(&p) {
			if !b.hidden {
				break
			}
			next = b.last() + 1
		}
		if want := hiddenThrough(&p, 100); next != want {
			t.Fatalf("round %d: hidden up to %d, want %d", round, next, want)
		}
	}
}
