package producer

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

func start(t *testing.T) (*kfake.Cluster, *Producer) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "waterclock.commands"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p, err := New(Brokers(c.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return c, p
}

func send(ctx context.Context, p *Producer) error {
	return p.Schedule(ctx, "a", waterclock.Register{When: waterclock.In(time.Hour)})
}

func sendAsync(ctx context.Context, p *Producer) error {
	done := make(chan error, 1)
	p.SendAsync(ctx, waterclock.CancelCommand("a"), func(err error) { done <- err })
	return <-done
}

// The request for a producer id is refused once. After that, a client of the library fails every
// record.
func TestProducerOutlivesARefusedProducerID(t *testing.T) {
	for name, send := range map[string]func(context.Context, *Producer) error{
		"Schedule": send, "SendAsync": sendAsync,
	} {
		for _, refusal := range []*kerr.Error{kerr.UnknownServerError, kerr.ClusterAuthorizationFailed} {
			t.Run(name+" "+refusal.Message, func(t *testing.T) {
				c, p := start(t)
				c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: refusal, TopLevel: true, Count: 1})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				err := send(ctx, p)
				if !errors.Is(err, refusal) {
					t.Fatalf("the first command: %v, want %v", err, refusal)
				}
				for ; err != nil && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
					err = send(ctx, p)
				}
				if err != nil {
					t.Errorf("it still fails: %v", err)
				}
			})
		}
	}
}

// A topic that refuses commands is no reason to begin again.
func TestProducerKeepsAClientThatWorks(t *testing.T) {
	c, p := start(t)
	if err := send(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	was := p.client()
	c.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.Produce}, Topic: "waterclock.commands", Err: kerr.TopicAuthorizationFailed, Count: 1,
	})
	if e := waterclock.ErrorOf(send(t.Context(), p)); e == nil || e.Type != waterclock.Forbidden || e.MaybeApplied {
		t.Fatalf("got %v", e)
	}
	for checking := true; checking; time.Sleep(time.Millisecond) {
		p.mu.Lock()
		checking = p.checking
		p.mu.Unlock()
	}
	if p.client() != was {
		t.Error("the client was replaced")
	}
}
