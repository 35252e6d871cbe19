package cassandra

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/test/services"
)

// TestCassandraAway runs with Cassandra down, slow and flapping. The projector waits, and the log
// is the buffer. Afterwards the rows must be the fold of the log (C9). A paused node accepts
// connections and answers nothing; a killed one refuses them.
func TestCassandraAway(t *testing.T) {
	node := services.OwnCassandra(t)
	for _, c := range []struct {
		name       string
		away, back func()
	}{
		{"paused", node.Pause, node.Cont},
		{"killed", node.Kill9, node.Restart},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := Options{
				Hosts: node.Hosts, Keyspace: "away_" + c.name, Timeout: time.Second,
				RecreateAfter: 2 * time.Second, Migrate: true,
			}
			survive(t, o, c.away, c.back)
		})
	}
}

func survive(t *testing.T, o Options, away, back func()) {
	l, s := sinktest.NewLog(t), openTest(t, o)
	l.Write(kgo.TryCommit, l.Lives("before", 300)...)
	var retries, batches atomic.Int64
	stage := 0
	po := sinks.Options{
		Kafka: l.Kafka(), MaxRecords: 100, Attempt: 4 * time.Second,
		Hooks: sinks.Hooks{
			Applied: func(int, time.Duration) {
				// Away a moment after it has acknowledged rows, whose offsets are committed.
				if batches.Add(1) == 5 {
					away()
				}
			},
			Retry: func(int, error) { retries.Add(1) },
		},
	}
	sinktest.Project(t, s, po, func() bool {
		switch stage {
		case 0:
			if batches.Load() < 5 {
				return false
			}
			l.Write(kgo.TryCommit, l.Lives("during", 300)...)
			stage++
		case 1:
			if retries.Load() < 4 { // long enough for the session to be replaced
				return false
			}
			back()
			l.Write(kgo.TryCommit, l.Lives("after", 100)...)
			stage++
		}
		at, end := l.Committed("waterclock-history")
		return stage == 2 && at == end
	})
	requireFold(t, l, s)
}

// requireFold compares a keyspace with a fold of the whole log by the other sink.
func requireFold(t *testing.T, l *sinktest.Log, s *Store) {
	t.Helper()
	other, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Retention: s.opts.Retention})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	r, err := sinks.Rebuild(context.Background(), sinks.RebuildOptions{
		Kafka: l.Kafka(), Into: other, Old: s,
		New: other,
	})
	if err != nil {
		t.Fatal(err)
	}
	if !r.Same() || int(r.Tables[0].Old) != l.Events {
		t.Fatalf("the rows are not the fold of the log's %d events:\n%s", l.Events, r)
	}
}

// A projector dies repeatedly in the middle of a batch.
func TestProjectorRestart(t *testing.T) {
	l, s := sinktest.NewLog(t), openTest(t, newKeyspace(t))
	l.Write(kgo.TryCommit, l.Lives("a", 200)...)
	for range 3 {
		dieInMidBatch(t, l, s)
	}
	sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka(), MaxRecords: 60}, func() bool {
		at, end := l.Committed("waterclock-history")
		return at == end
	})
	requireFold(t, l, s)
}

// halfway applies a batch, then half of the next, and then stops like a killed process.
type halfway struct {
	*Store
	die     func()
	batches int
}

func (h *halfway) Apply(_ context.Context, batch []sinks.EventRecord) error {
	ctx := context.Background()
	if h.batches++; h.batches == 1 {
		return h.Store.Apply(ctx, batch)
	}
	defer h.die()
	if err := h.Store.Apply(ctx, batch[:len(batch)/2]); err != nil {
		return err
	}
	return context.Canceled
}

func dieInMidBatch(t *testing.T, l *sinktest.Log, s *Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	h := &halfway{Store: s, die: cancel}
	p, err := sinks.NewProjector(h, sinks.Options{Kafka: l.Kafka(), MaxRecords: 60})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if h.batches < 2 {
		t.Fatal("it ended before it was to die")
	}
}
