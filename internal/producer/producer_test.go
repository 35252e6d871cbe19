package producer_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
)

func start(t *testing.T) (*kfake.Cluster, *producer.Producer) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p, err := producer.New(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return c, p
}

func produce(p *producer.Producer) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return p.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr()
}

func tryProduce(p *producer.Producer) error {
	done := make(chan error, 1)
	p.TryProduce(context.Background(), kgo.StringRecord("v"), func(_ *kgo.Record, err error) { done <- err })
	return <-done
}

// A client of its own would fail for ever.
func TestProducerOutlivesARefusedProducerID(t *testing.T) {
	for name, produce := range map[string]func(*producer.Producer) error{"sync": produce, "try": tryProduce} {
		for _, refusal := range []*kerr.Error{kerr.UnknownServerError, kerr.ClusterAuthorizationFailed} {
			t.Run(name+" "+refusal.Message, func(t *testing.T) {
				c, p := start(t)
				c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: refusal, TopLevel: true})
				if err := produce(p); !errors.Is(err, refusal) {
					t.Fatalf("the first record: %v, want %v", err, refusal)
				}
				for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
					err := produce(p)
					if err == nil {
						return
					}
					if time.Since(begun) > 10*time.Second {
						t.Fatalf("it still fails: %v", err)
					}
				}
			})
		}
	}
}

// A topic that refuses records is no reason to begin again.
func TestProducerKeepsAClientThatWorks(t *testing.T) {
	c, p := start(t)
	if err := produce(p); err != nil {
		t.Fatal(err)
	}
	was := p.Client()
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.TopicAuthorizationFailed})
	if err := produce(p); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if p.Client() != was {
		t.Error("the client was replaced")
	}
	if err := produce(p); err != nil {
		t.Error(err)
	}
}

// What comes after Close fails, and makes no client.
func TestProducerClosed(t *testing.T) {
	c, p := start(t)
	c.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, TopLevel: true, Count: -1})
	p.Close()
	if err := produce(p); !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("produce after Close: %v", err)
	}
}

// Who never writes has no connection; closed, it makes none any more.
func TestLazyProducerAsksNobodyBeforeItsFirstUse(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	var dials atomic.Int32
	lazy := func() *producer.Producer {
		return producer.Lazy(kgo.SeedBrokers(c.ListenAddrs()...), kgo.DefaultProduceTopic("t"),
			kgo.Dialer(func(ctx context.Context, network, host string) (net.Conn, error) {
				dials.Add(1)
				return (&net.Dialer{}).DialContext(ctx, network, host)
			}))
	}
	unused := lazy()
	unused.Close()
	if err := produce(unused); !errors.Is(err, kgo.ErrClientClosed) {
		t.Errorf("written after Close: %v, want %v", err, kgo.ErrClientClosed)
	}
	p := lazy()
	t.Cleanup(p.Close)
	if n := dials.Load(); n != 0 {
		t.Fatalf("%d connections before the first use", n)
	}
	if err := produce(p); err != nil {
		t.Fatal(err)
	}
	if first := p.Client(); p.Client() != first {
		t.Error("each use makes a client")
	}
}
