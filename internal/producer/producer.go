// Package producer is what a kgo.Client needs around it to write for long, and
// to have written what it says.
//
// A kgo.Client whose InitProducerID is answered with an error that is not
// retriable, such as UNKNOWN_SERVER_ERROR or a right that is missing for a
// moment, fails every record from then on, whatever becomes of the brokers. A
// Producer, an idempotent one, replaces such a client. And a client may take its
// first transaction for empty and abort it: EndTransaction looks after that.
package producer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Producer writes through one client at a time. Order per partition holds as
// long as nothing fails: what failed may be there all the same, also behind
// what was sent after it.
type Producer struct {
	opts []kgo.Opt

	mu       sync.Mutex
	cl       *kgo.Client
	renewed  time.Time
	renewing bool // whether cl can still produce
	closed   bool
}

// Between two replacements, and for a look at a client.
const (
	renewInterval = time.Second
	renewWithin   = 5 * time.Second
)

// New makes a producer; opts are every client's.
func New(opts ...kgo.Opt) (*Producer, error) {
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, err
	}
	return &Producer{opts: opts, cl: cl}, nil
}

// Lazy makes a producer whose client comes to be at its first use, so that who rarely writes
// costs no connection. It panics then if kgo.ValidateOpts refuses opts.
func Lazy(opts ...kgo.Opt) *Producer { return &Producer{opts: opts} }

// Client is the client in use, for other requests. Ask anew for each.
func (p *Producer) Client() *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cl == nil {
		cl, err := kgo.NewClient(p.opts...)
		if err != nil {
			panic(err)
		}
		if p.cl = cl; p.closed {
			cl.Close() // what is asked of it fails
		}
	}
	return p.cl
}

// Load gets the client its producer id. The first record would: but kgo holds a
// lock meanwhile, and in a simulation no time passes for who waits for a lock. So
// who produces from several goroutines loads it first.
func (p *Producer) Load(ctx context.Context) error {
	cl := p.Client()
	_, _, err := cl.ProducerID(ctx)
	p.check(cl, err)
	return err
}

// TryProduce is the client's.
func (p *Producer) TryProduce(ctx context.Context, r *kgo.Record, promise func(*kgo.Record, error)) {
	cl := p.Client()
	cl.TryProduce(ctx, r, func(r *kgo.Record, err error) {
		p.check(cl, err)
		promise(r, err)
	})
}

// ProduceSync is the client's.
func (p *Producer) ProduceSync(ctx context.Context, rs ...*kgo.Record) kgo.ProduceResults {
	cl := p.Client()
	results := cl.ProduceSync(ctx, rs...)
	p.check(cl, results.FirstErr())
	return results
}

// Close ends the client in use. What it has not sent fails.
func (p *Producer) Close() {
	p.mu.Lock()
	p.closed = true
	cl := p.cl
	p.mu.Unlock()
	if cl != nil {
		cl.Close()
	}
}

// check has a client replaced if a produce failed since it has no producer id,
// and never will. It does not wait for that.
func (p *Producer) check(cl *kgo.Client, err error) {
	if !final(err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.renewing || p.cl != cl || time.Since(p.renewed) < renewInterval {
		return
	}
	p.renewing = true
	go p.renew(cl)
}

func (p *Producer) renew(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), renewWithin)
	defer cancel()
	_, _, err := cl.ProducerID(ctx)
	var next *kgo.Client
	if final(err) {
		// it could be made before: else the next failure tries again
		if next, err = kgo.NewClient(p.opts...); err == nil {
			_, _, _ = next.ProducerID(ctx)
		}
	}
	if old := p.replace(next); old != nil {
		old.Close()
	}
}

// replace ends a look, and says which client is not needed any more.
func (p *Producer) replace(next *kgo.Client) (old *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.renewing = false
	if next == nil || p.closed {
		return next
	}
	old, p.cl, p.renewed = p.cl, next, time.Now()
	return old
}

// final says that a broker has answered, and that asking again is no use.
func final(err error) bool {
	var answer *kerr.Error
	return errors.As(err, &answer) && !answer.Retriable && answer != kerr.ConcurrentTransactions
}
