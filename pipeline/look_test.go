package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
)

// TestReadFrom reads what is committed and nothing else, up to the first open
// transaction, waits there, and finds a leader that has moved.
func TestReadFrom(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(1, "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	client := func(opts ...kgo.Opt) *kgo.Client {
		cl, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.ListenAddrs()...))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(cl.Close)
		return cl
	}
	o := &Options{TransactionTimeout: time.Minute, FetchMaxWait: time.Second, asker: client(), Kafka: []kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}}
	s, err := openSession(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()

	foreign := client(kgo.TransactionalID("foreign"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	write := func(values ...string) {
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if err := foreign.ProduceSync(ctx, &kgo.Record{Topic: "state", Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	end := func(how kgo.TransactionEndTry) {
		if err := producer.EndTransaction(ctx, foreign, how); err != nil {
			t.Error(err)
		}
	}
	read := func(from int64) (values []string, next int64) {
		fs, next, err := s.readFrom(ctx, o, "state", 0, from)
		if err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				values = append(values, string(r.Value))
			}
		})
		return values, next
	}

	write("a", "b")
	end(kgo.TryCommit)
	write("lost")
	end(kgo.TryAbort)
	write("c")
	got, next := read(1)
	for next < 5 { // a broker may answer with less than there is
		var more []string
		more, next = read(next)
		got = append(got, more...)
	}
	if !slices.Equal(got, []string{"b"}) || next != 5 {
		t.Errorf("read %q up to %d, want b up to the open transaction at 5", got, next)
	}
	if err := c.MoveTopicPartition("state", 0, (leaderOf(s.known["state"], 0).Leader+1)%3); err != nil {
		t.Fatal(err)
	}
	waits := make(chan struct{}, 100)
	c.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		waits <- struct{}{}
		return nil, nil, false
	})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range 3 { // the old leader, the new one, and the new one again
			<-waits
		}
		end(kgo.TryCommit)
	}()
	if got, _ := read(next); !slices.Equal(got, []string{"c"}) {
		t.Errorf("read %q, want c", got)
	}
	<-ended

	if _, _, err := s.readFrom(ctx, o, "state", 0, 100); !errors.Is(err, kerr.OffsetOutOfRange) {
		t.Errorf("read beyond the end: %v", err)
	}
	_, next = read(next)
	gone, cancelled := context.WithTimeout(ctx, 5*lookPause)
	defer cancelled()
	if _, _, err := s.readFrom(gone, o, "state", 0, next); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("read at the end: %v", err)
	}
}

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
		{"aborted, of several batches", 5, []b{{5, 1, transactional, 1}, {6, 1, transactional, 1}, {7, 1, marker, 1}}, [][2]int64{{1, 5}}, 8},
		{"asked for in the middle of it", 6, []b{{6, 1, transactional, 1}, {7, 1, marker, 1}}, [][2]int64{{1, 5}}, 8},
		{"then a committed one of the same producer", 5, []b{{5, 1, transactional, 1}, {6, 1, marker, 1}, {7, 1, transactional, 1}, {8, 1, marker, 1}}, [][2]int64{{1, 5}}, 7},
		{"then another aborted one", 5, []b{{5, 1, transactional, 1}, {6, 1, marker, 1}, {7, 1, transactional, 1}, {8, 1, marker, 1}}, [][2]int64{{1, 7}, {1, 5}}, 9},
		{"a committed one before it", 5, []b{{5, 1, transactional, 1}, {6, 1, marker, 1}, {7, 1, transactional, 1}, {8, 1, marker, 1}}, [][2]int64{{1, 7}}, 5},
		{"between those of another", 5, []b{{5, 1, transactional, 1}, {6, 2, transactional, 1}, {7, 1, marker, 1}}, [][2]int64{{1, 5}}, 6},
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
			p.AbortedTransactions = append(p.AbortedTransactions, kmsg.FetchResponseTopicPartitionAbortedTransaction{ProducerID: a[0], FirstOffset: a[1]})
		}
		if got := hiddenThrough(p, c.asked); got != c.want {
			t.Errorf("%s: hidden up to %d, want %d", c.name, got, c.want)
		}
		for n := range p.RecordBatches { // the broker cuts the last batch off where it likes
			cut := *p
			cut.RecordBatches = p.RecordBatches[:n]
			if got := hiddenThrough(&cut, c.asked); n >= batchHeader && got > c.want {
				t.Errorf("%s, cut at byte %d: hidden up to %d, want at most %d", c.name, n, got, c.want)
			}
		}
	}
}

// TestFindHidden: an input that ends in what no reader is given is read to its
// end, though nothing comes of it.
func TestFindHidden(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "commands"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	seeds := kgo.SeedBrokers(c.ListenAddrs()...)
	foreign, err := kgo.NewClient(seeds, kgo.TransactionalID("foreign"))
	if err != nil {
		t.Fatal(err)
	}
	defer foreign.Close()
	o := &Options{TransactionTimeout: time.Minute, FetchMaxWait: time.Second, BarrierMaxHold: time.Minute, asker: foreign, Kafka: []kgo.Opt{seeds}}
	s, err := openSession(o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	p := &Partition{opts: o, kafka: s}
	in := &inputBarrier{topic: "commands", tolerated: -1}
	for range 3 {
		if err := foreign.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := foreign.ProduceSync(t.Context(), &kgo.Record{Topic: "commands", Value: []byte("lost")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(t.Context(), foreign, kgo.TryAbort); err != nil {
			t.Fatal(err)
		}
	}
	in.end = 6 // three records, three markers
	if err := p.findHidden(t.Context(), in); err != nil || !in.reached() {
		t.Errorf("read up to %d of %d, %v", in.at, in.end, err)
	}
}

// TestWith: what is set joins what was there, and the old map stays as it was.
func TestWith(t *testing.T) {
	old := map[int32]int64{1: 10, 2: 20}
	next := with(old, 2, 21)
	if !maps.Equal(next, map[int32]int64{1: 10, 2: 21}) || !maps.Equal(old, map[int32]int64{1: 10, 2: 20}) {
		t.Errorf("%v makes %v", old, next)
	}
}
