package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// receiptWriter writes receipts until the brokers have them. It retries a receipt that fails. Its
// due event stays open in the meantime, so Buffer bounds their number. The producer is
// idempotent, requires all replicas, and is never transactional: an open transaction would block
// the engine.
type receiptWriter struct {
	*options
	failing throttle

	mu       sync.Mutex
	cl       *kgo.Client
	checking bool // whether cl can still produce
	closed   bool
}

func newReceiptWriter(o *options) (*receiptWriter, error) {
	p := &receiptWriter{options: o}
	var err error
	p.cl, err = p.client()
	return p, err
}

func (p *receiptWriter) client() (*kgo.Client, error) {
	return kgo.NewClient(append(
		append([]kgo.Opt{kgo.ProducerLinger(2 * time.Millisecond)}, p.common()...),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)), // murmur2, like Kafka's Java client
		kgo.MaxBufferedRecords(1<<20),                        // Buffer is the real bound
		kgo.DefaultProduceTopic(p.options.receipts),
	)...)
}

// write writes a receipt and calls acked once the brokers have it. The offset is -1 if they do not
// say it.
func (p *receiptWriter) write(key string, value []byte, acked func(partition int32, offset int64)) {
	p.produce(&kgo.Record{Key: []byte(key), Value: value}, time.Now(), acked)
}

func (p *receiptWriter) produce(r *kgo.Record, begin time.Time, acked func(partition int32, offset int64)) {
	p.mu.Lock()
	cl, closed := p.cl, p.closed
	p.mu.Unlock()
	if closed {
		return
	}
	cl.Produce(context.Background(), r, func(done *kgo.Record, err error) {
		if err == nil {
			p.metrics.ReceiptWritten(time.Since(begin))
			acked(done.Partition, done.Offset)
			return
		}
		p.failed(cl, err)
		next := &kgo.Record{Key: r.Key, Value: r.Value}
		time.AfterFunc(p.receiptBackoff, func() { p.produce(next, begin, acked) })
	})
}

func (p *receiptWriter) failed(cl *kgo.Client, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || errors.Is(err, kgo.ErrClientClosed) {
		return
	}
	p.metrics.ReceiptFailed()
	p.failing.log(p.log, "cannot write receipts; retrying, and committing no offsets meanwhile",
		"topic", p.options.receipts, "error", err)
	anew := errors.Is(err, kerr.UnknownTopicID)
	if (anew || final(err)) && !p.checking && p.cl == cl {
		p.checking = true
		go p.check(cl, anew)
	}
}

// check replaces a client that has no producer id and will never get one: after one refusal, such
// a client fails every record. It also replaces a client that knows a topic that was made anew by
// its old id, for it never asks again.
func (p *receiptWriter) check(cl *kgo.Client, anew bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var err error
	if !anew {
		_, _, err = cl.ProducerID(ctx)
	}
	var next *kgo.Client
	if anew || final(err) {
		next, _ = p.client() // cannot fail, since the same options worked before
	}
	p.mu.Lock()
	p.checking = false
	old := next
	if next != nil && !p.closed {
		old, p.cl = p.cl, next
	}
	p.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

// final reports whether a broker has answered with an error that a retry cannot change.
func final(err error) bool {
	answer, ok := errors.AsType[*kerr.Error](err)
	return ok && !answer.Retriable
}

// close ends the writer. Unwritten receipts are lost, but the offsets of their events were not
// committed.
func (p *receiptWriter) close() {
	p.mu.Lock()
	p.closed = true
	cl := p.cl
	p.mu.Unlock()
	cl.Close()
}
