package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// Chaos runs three nodes for minutes with every kind of fault, then ends the faults, waits until
// everything is due, and returns. All the while, producers send registers and cancels, one in
// five to the wrong partition. A foreign producer's transactions run too, and half of them abort.
func (w *World) Chaos(minutes int) {
	w.T.Helper()
	names := []string{"a", "b", "c"}
	for _, name := range names {
		w.Start(name, publish)
	}
	w.AwaitOwners()
	var load sync.WaitGroup
	span := time.Duration(minutes) * time.Minute
	load.Go(func() { w.load(rand.New(rand.NewPCG(w.opts.Seed, 2)), span) })
	load.Go(func() { w.foreign(rand.New(rand.NewPCG(w.opts.Seed, 3)), span) })
	for begin := time.Now(); time.Since(begin) < span; {
		time.Sleep(time.Duration(200+w.Rand.IntN(4000)) * time.Millisecond)
		w.fault(names[w.Rand.IntN(len(names))])
	}
	load.Wait()
	time.Sleep(30 * time.Second) // faults end by themselves within 25 s
	for _, name := range names {
		if w.Node(name) == nil {
			w.Start(name, publish)
		}
	}
	time.Sleep(90 * time.Second)
	w.AwaitOwners()
	time.Sleep(10 * time.Second)
	w.AwaitWatermarks()
}

// publish makes a node write watermarks.
func publish(o *pipeline.Options) { o.WatermarkInterval = time.Second }

// load registers about 100 triggers per minute, due within half a minute, and cancels a fifth of
// them.
func (w *World) load(rng *rand.Rand, span time.Duration) {
	begin := time.Now()
	for i := 0; time.Since(begin) < span; i++ {
		key := fmt.Sprintf("k%d", i)
		on := w.Home(key)
		if i%5 == 3 {
			on = (on + 1) % w.P
		}
		w.RegisterOn(on, key, time.Now().Add(time.Duration(rng.IntN(30_000))*time.Millisecond))
		if i%5 == 4 || i%10 == 3 {
			w.CancelOn(on, key)
		}
		time.Sleep(time.Duration(rng.IntN(1200)) * time.Millisecond)
	}
}

// foreign writes registers in transactions of its own. The committed ones must
// fire, the aborted ones must not.
func (w *World) foreign(rng *rand.Rand, span time.Duration) {
	begin := time.Now()
	for time.Since(begin) < span {
		time.Sleep(time.Duration(rng.IntN(8000)) * time.Millisecond)
		i := w.foreigners
		w.foreigners++
		key := fmt.Sprintf("f%d", i)
		at := time.Now().Add(time.Duration(rng.IntN(20_000)) * time.Millisecond).Truncate(time.Millisecond)
		ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
		if w.transaction(ctx, fmt.Sprintf("foreign-%d", i), key, at, rng.IntN(2) == 0) {
			w.wish(key, &wish{due: at})
		}
		cancel()
	}
}

// transaction reports whether the register was committed for certain. A commit in doubt is noted
// as a doubtful wish.
func (w *World) transaction(ctx context.Context, id, key string, at time.Time, commit bool) bool {
	cl, err := w.Producer(ctx, kgo.TransactionalID(id), kgo.TransactionTimeout(foreignTimeout))
	if err != nil {
		return false
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return false
	}
	r := &kgo.Record{
		Topic: w.Names.Commands(), Partition: w.Home(key), Key: []byte(key),
		Value: fmt.Appendf(nil, `{"op":"register","fire_at":%q}`, at.UTC().Format(time.RFC3339Nano)),
	}
	open := span{partition: r.Partition, from: time.Now()}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open = append(w.open, open)
	}()
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil || !commit {
		_ = cl.AbortBufferedRecords(ctx)
		open.end(cl.EndTransaction(ctx, kgo.TryAbort))
		return false
	}
	err = producer.EndTransaction(ctx, cl, kgo.TryCommit, r)
	if open.end(err); err != nil {
		w.wish(key, &wish{due: at, doubtful: true}) // it may fire or not
		return false
	}
	return true
}

// foreignTimeout is longer than the engine waits for a foreign transaction.
const foreignTimeout = 2 * pipelinetest.BarrierMaxHold

// span is the time in which a foreign transaction was open.
type span struct {
	partition int32
	from, to  time.Time
}

// end notes that the transaction was ended, or that the brokers must time it out.
func (s *span) end(err error) {
	if s.to = time.Now(); err != nil {
		s.to = s.to.Add(foreignTimeout)
	}
}

// held reports whether foreign transactions hid a partition's records at an instant for longer
// than the engine waits for them.
func (w *World) held(partition int32, at time.Time) bool {
	from, to := at, at
	for range w.open { // spans may overlap, so repeat
		for _, s := range w.open {
			if s.partition == partition && s.from.Before(to.Add(time.Millisecond)) && s.to.After(from) {
				if s.from.Before(from) {
					from = s.from
				}
				if s.to.After(to) {
					to = s.to
				}
			}
		}
	}
	return to.Sub(from) >= pipelinetest.BarrierMaxHold
}

// retriable are the errors of a broker in trouble.
var retriable = []*kerr.Error{
	kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable,
	kerr.ConcurrentTransactions, kerr.UnknownServerError, kerr.RequestTimedOut, kerr.NotLeaderForPartition,
}

var faulty = []kmsg.Key{
	kmsg.Produce, kmsg.EndTxn, kmsg.InitProducerID, kmsg.Fetch, kmsg.AddPartitionsToTxn,
	kmsg.FindCoordinator, kmsg.Metadata, kmsg.ListOffsets, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat,
}

// fault strikes a node or the broker.
func (w *World) fault(name string) {
	n := w.Node(name)
	if n == nil {
		w.Start(name, publish)
		return
	}
	pause := time.Duration(w.Rand.IntN(20)) * time.Second
	switch w.Rand.IntN(10) {
	case 0:
		w.Kill(name)
	case 1:
		w.PowerLoss(name)
	case 2:
		n.Freeze()
		time.AfterFunc(pause, n.Thaw)
	case 3:
		n.Hang()
		time.AfterFunc(pause, n.Heal)
	case 4:
		n.Mute()
		time.AfterFunc(pause, n.Heal)
	case 5:
		n.Cut()
	case 6:
		_ = w.Stop(name)
	case 7:
		w.Cluster.RehashCoordinators()
	default:
		w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{faulty[w.Rand.IntN(len(faulty))]},
			Err:  retriable[w.Rand.IntN(len(retriable))], Count: 1 + w.Rand.IntN(3),
		})
	}
}
