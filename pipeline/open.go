package pipeline

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/fair"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Open makes a partition ready to turn:
//
//  1. ask how the last transaction ended; InitProducerID makes the coordinator forget it
//  2. ask whether our group still owns the partition
//  3. open the store; begin an empty one if it is damaged
//  4. InitProducerID: fences the old owner and aborts its transaction; end what Kafka
//     has left open of it (package dangling)
//  5. commit a nonce to topic state: everything before it is final, and its append time
//     is the broker's time
//  6. wipe the store if it is too old, or belongs to another partition or topic
//  7. read topic state from the stored position up to the nonce
//  8. fill the wheel; read commands from the offset in progress
//
// standbyStore is the store that a standby of this process left open; nil if there is none.
func (o *Process) Open(ctx context.Context, id int32, kept *Kept, standbyStore *statestore.Store) (*Partition, error) {
	p := &Partition{
		opts: o, id: id, names: ownNames{o.Names.State(), o.Names.Events()}, log: o.Logger.With("partition", id),
		machine: o.Machine, dueTopics: o.due, store: standbyStore, kept: kept,
		timers: timers{
			wheelEntries: o.wheelEntries, pacedEntries: o.pacedEntries, ready: fair.New(o.catchUpShare()),
		},
		clock: brokerClock{clock: clock{limit: o.MaxClockOffset}, opts: o},
		pace:  pace{fixed: o.MinInterval, budget: o.budget}, watermarks: newWatermarks(o, id, kept),
		tracer: tracer{o.Tracing, id},
	}
	p.timers.newWheel(0) // until the brokers' clock is known
	p.destinations = destinations{channels: o.Channels, topics: o.due, partition: id, kept: kept}
	p.done = doneRecords{opts: o, log: p.log, load: p.load}
	p.machine.DuePartition, p.machine.DueTopicOf = id, p.destinations.of
	p.control = control{opts: o, log: p.log, timetable: o.Machine.Timetable.Fork()}
	p.machine.Timetable = p.control.timetable
	if err := (&opening{Partition: p}).open(ctx); err != nil {
		p.Close()
		return nil, err
	}
	p.view.start(p)
	return p, nil
}

// LogOpen logs how long the partition took to open, if another member ran it before.
func (p *Partition) LogOpen(since time.Time) {
	if p.takenOver {
		p.log.Info("the partition is open", "term", p.progress.Term, "after", time.Since(since).Round(time.Millisecond))
	}
}

func (o *opening) open(ctx context.Context) (err error) {
	o.kept.Step(stepConnect)
	if o.kafka, err = openSession(o.opts, o.id); err != nil {
		return err
	}
	o.kafka.sizes.all = o.dueTopics.Sizes
	o.consumer = consumer{opts: o.opts, id: o.id, log: o.log, kafka: o.kafka, clock: &o.clock}
	o.clock.kafka, o.clock.log, o.clock.state = o.kafka, o.log, o.state()
	o.stateLog = stateLog{TopicPartition: o.state(), reader: o.kafka.reader, kept: o.kept}
	own, err := o.opts.Recovery().Topics(ctx, o.kafka.reader.Client())
	if err != nil {
		return err
	}
	if err := o.learnSizes(ctx); err != nil {
		return err
	}
	o.kafka.reader.Know(own...)
	o.ids = recovery.IDsOf(own)
	o.claims = newClaims(o.opts, o.id, o.log, o.kafka.cl, map[string][16]byte{
		o.opts.Names.Commands(): o.ids.Commands, o.opts.Names.Receipts(): o.ids.Receipts,
	})
	resolver := o.resolver()
	o.kafka.watch(resolver)
	last := o.describeLast(ctx)
	o.kept.Step(stepAskGroup)
	if err := o.askGroup(ctx); err != nil {
		return fmt.Errorf("read the owning group: %w", err)
	}
	o.kept.Step(stepOpenStore)
	if o.store == nil {
		if o.store, err = o.opts.Recovery().OpenStore(o.id, o.log); err != nil {
			return err
		}
	}
	if err := o.samePrefix(ctx); err != nil {
		return err
	}
	o.changes, o.done.store = o.store.NewBatch(), o.store
	o.control.store = o.store
	o.mender = mender{found: &o.view.mends, store: o.store, changes: o.changes, timers: &o.timers, paces: o.paces}
	o.kept.Step(stepTakeOwnership)
	nonce, err := o.fence(ctx, resolver, last)
	if err != nil {
		return err
	}
	lastWatermark := o.readLastWatermark(ctx)
	o.kept.Step(StepRestore)
	if err := o.restoreStore(ctx, nonce); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	o.kept.Step(stepResume)
	o.forward = newForwarder(o.opts, o.id, o.log, o.claims.ids)
	rctx, cancel := context.WithTimeout(ctx, readRangeWithin+openStep)
	defer cancel()
	return o.resume(rctx, lastWatermark)
}

// Run turns until ctx ends or something fails. The caller then opens the partition anew. It
// notes a failure of a due topic for the next opening.
func (p *Partition) Run(ctx context.Context) error {
	fctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	beside.Go(func() { p.forward.run(fctx) })
	defer beside.Wait()
	defer p.forward.close()
	defer cancel()
	err := p.turns(ctx)
	p.diagnose(err)
	return err
}

// Close sends readers to the next owner, and closes the store.
func (p *Partition) Close() {
	p.view.shut()
	p.retries.end()
	p.watermarks.close()
	p.quota.Leave()
	if p.forward != nil {
		p.forward.close()
	}
	if p.kafka != nil {
		p.kafka.close()
	}
	if p.store != nil {
		if err := p.store.Close(); err != nil {
			p.log.Warn("closing the store failed; if it is damaged, the next opening rebuilds it from Kafka",
				"error", err)
		}
	}
}

// opening is a partition on its way to be open, and what only the way needs.
type opening struct {
	*Partition
	ids      recovery.TopicIDs
	fenced   time.Time     // since then no other owner writes
	newGuard *topics.Guard // written with the nonce when another group's partition is taken over; else nil
}

// openStep bounds each step of opening whose duration does not depend on the size of the
// restore. After that the opening begins anew, because the cause of the wait may be gone.
const openStep = 20 * time.Second

// fence takes the partition from its last owner.
func (o *opening) fence(
	ctx context.Context, resolver *dangling.Resolver, described <-chan dangling.Last,
) (nonce []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	last := <-described
	if last.Err != nil {
		return nil, last.Err
	}
	kept := &o.kept.dangling
	how := kept.Endings.Of(o.id, last)
	producer, epoch, err := o.kafka.cl.ProducerID(ctx)
	if err != nil {
		return nil, fmt.Errorf("take ownership: %w", err)
	}
	o.fenced = time.Now()
	kept.Endings.Keep(o.id, dangling.Last{How: how, Producer: producer, Epoch: epoch})
	if err := kept.Resolve(ctx, resolver, how); err != nil {
		return nil, fmt.Errorf("dangling transactions: %w", err)
	}
	if nonce, err = o.writeNonce(ctx); err != nil {
		return nil, fmt.Errorf("commit nonce: %w", err)
	}
	kept.Endings.Drop(o.id)
	return nonce, nil
}

// writeNonce commits a record with an id that is new. Reading topic state up to it reads
// everything that an earlier owner can have committed.
func (o *opening) writeNonce(ctx context.Context) ([]byte, error) {
	n := topics.Nonce{Member: o.opts.InstanceID, Group: o.opts.Group, At: trigger.At(o.opts.Now())}
	rand.Read(n.ID[:])
	nonce, err := topics.AppendNonce(nil, &n)
	if err != nil {
		return nil, err
	}
	if err := o.kafka.begin(); err != nil {
		return nil, err
	}
	if o.newGuard != nil {
		guard, err := topics.AppendGuard(nil, o.newGuard)
		if err != nil {
			return nil, err
		}
		o.kafka.produce(ctx, &kgo.Record{
			Topic: o.opts.Names.State(), Partition: o.id, Key: topics.KeyGuard,
			Value: guard,
		})
	}
	r := &kgo.Record{Topic: o.opts.Names.State(), Partition: o.id, Key: topics.KeyNonce, Value: nonce}
	o.kafka.produce(ctx, r)
	if err := o.kafka.flush(ctx, o.dueTopics.IsDue); err != nil {
		return nil, err
	}
	if err := o.kafka.commit(ctx); err != nil {
		return nil, err
	}
	o.committed, o.stateLog.next = time.Now(), r.Offset+2
	return nonce, o.clock.learn(ctx, r.Offset, o.committed, o.opts.Now())
}
