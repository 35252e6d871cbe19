package producer

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// renewInterval is the least time between two replacements of the client.
const renewInterval = time.Second

// client returns the client in use.
func (p *Producer) client() *kgo.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cl
}

// check has a client replaced if a command failed since it has no producer id, and will never get
// one: after one refusal, such a client fails every record. It does not wait for that.
func (p *Producer) check(cl *kgo.Client, err error) {
	if !final(err) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.checking || p.cl != cl || time.Since(p.renewed) < renewInterval {
		return
	}
	p.checking = true
	go p.renew(cl)
}

func (p *Producer) renew(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var next *kgo.Client
	if _, _, err := cl.ProducerID(ctx); final(err) { // else the brokers refused the command alone
		next, _ = kgo.NewClient(p.opts...) // cannot fail, since the same options worked before
	}
	if old := p.replace(next); old != nil {
		old.Close()
	}
}

// replace ends a check, and returns the client that is not needed any more.
func (p *Producer) replace(next *kgo.Client) (old *kgo.Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.checking = false
	if next == nil || p.closed {
		return next
	}
	old, p.cl, p.renewed = p.cl, next, time.Now()
	return old
}

// final reports whether a broker has answered with an error that a retry cannot change.
func final(err error) bool {
	answer, ok := errors.AsType[*kerr.Error](err)
	return ok && !answer.Retriable
}
