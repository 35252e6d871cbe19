package kafkapart

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/waterclock/waterclock/internal/rawbatch"
)

// TestHiddenThrough: what no reader of committed records is given ends where
// the first batch begins that one is.
func TestHiddenThrough(t *testing.T) {
	const plain, transactional, marker = 0, attrTransaction, attrTransaction | attrControl
	type b struct {
		base, producer int64
		attributes     uint16
		records        uint32
	}
	for _, c := range []struct {
		name    string
		asked   int64
		batches []b
		aborted [][2]int64 // producer, first offset
		want    int64
	}{
		{"nothing is left", 5, nil, nil, 20}, // the last stable offset
		{"a plain record", 5, []b{{5, -1, plain, 1}}, nil, 5},
		{"a batch that compaction emptied", 5, []b{{5, -1, plain, 0}, {6, -1, plain, 1}}, nil, 6},
		{"committed", 5, []b{{5, 1, transactional, 1}, {6, 1, marker, 1}}, nil, 5},
		{"aborted", 5, []b{{5, 1, transactional, 1}, {6, 1, marker, 1}}, [][2]int64{{1, 5}}, 7},
		{
			"aborted, of several batches", 5,
			[]b{{5, 1, transactional, 1}, {6, 1, transactional, 1}, {7, 1, marker, 1}},
			[][2]int64{{1, 5}},
			8,
		},
		{"asked for in the middle of it", 6, []b{{6, 1, transactional, 1}, {7, 1, marker, 1}}, [][2]int64{{1, 5}}, 8},
		{"then a committed one of the same producer", 5, []b{
			{5, 1, transactional, 1},
			{6, 1, marker, 1},
			{7, 1, transactional, 1},
			{8, 1, marker, 1},
		}, [][2]int64{{1, 5}}, 7},
		{"then another aborted one", 5, []b{
			{5, 1, transactional, 1},
			{6, 1, marker, 1},
			{7, 1, transactional, 1},
			{8, 1, marker, 1},
		}, [][2]int64{{1, 7}, {1, 5}}, 9},
		{"a committed one before it", 5, []b{
			{5, 1, transactional, 1},
			{6, 1, marker, 1},
			{7, 1, transactional, 1},
			{8, 1, marker, 1},
		}, [][2]int64{{1, 7}}, 5},
		{
			"between those of another", 5,
			[]b{{5, 1, transactional, 1}, {6, 2, transactional, 1}, {7, 1, marker, 1}},
			[][2]int64{{1, 5}},
			6,
		},
	} {
		p := &kmsg.FetchResponseTopicPartition{LastStableOffset: 20}
		for _, b := range c.batches {
			raw := make([]byte, batchHeader+3)
			binary.BigEndian.PutUint64(raw, uint64(b.base))
			binary.BigEndian.PutUint32(raw[batchLength:], uint32(len(raw)-batchLengthStart))
			binary.BigEndian.PutUint16(raw[batchAttributes:], b.attributes)
			binary.BigEndian.PutUint64(raw[batchProducerID:], uint64(b.producer))
			binary.BigEndian.PutUint32(raw[batchNumRecords:], b.records)
			p.RecordBatches = append(p.RecordBatches, raw...)
		}
		for _, a := range c.aborted {
			p.AbortedTransactions = append(p.AbortedTransactions,
				kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a[0], FirstOffset: a[1]})
		}
		if got := HiddenThrough(p, c.asked); got != c.want {
			t.Errorf("%s: hidden up to %d, want %d", c.name, got, c.want)
		}
		for n := range p.RecordBatches { // the broker cuts the last batch off where it likes
			cut := *p
			cut.RecordBatches = p.RecordBatches[:n]
			if got := HiddenThrough(&cut, c.asked); n >= batchHeader && got > c.want {
				t.Errorf("%s, cut at byte %d: hidden up to %d, want at most %d", c.name, n, got, c.want)
			}
		}
	}
}

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
					p.AbortedTransactions = append(p.AbortedTransactions,
						kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: producer, FirstOffset: offset})
				}
			}
			binary.BigEndian.PutUint16(b[batchAttributes:], attributes)
			p.RecordBatches = append(p.RecordBatches, b...)
			offset += int64(n)
		}
		next := int64(100)
		for b := range Batches(&p) {
			if !b.Hidden {
				break
			}
			next = b.Last() + 1
		}
		if want := HiddenThrough(&p, 100); next != want {
			t.Fatalf("round %d: hidden up to %d, want %d", round, next, want)
		}
	}
}
