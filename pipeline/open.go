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
	"github.com/waterclock/waterclock/wheel"
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
			wheel: wheel.New(wheel.Options{MaxEntries: o.wheelEntries}, o.Now().UnixMilli()),
		},
		clock: brokerClock{clock: clock{limit: o.MaxClockOffset}, opts: o},
		pace:  pace{fixed: o.MinInterval, floor: o.turnFloor()},
	}
	p.machine.DuePartition, p.machine.DueTopicOf = id, p.dueLocation
	p.machine.Timetable = o.Machine.Timetable.Fork()
	if err := p.open(ctx); err != nil {
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

func (p *Partition) open(ctx context.Context) (err error) {
	p.kept.Step(stepConnect)
	if p.kafka, err = openSession(p.opts, p.id); err != nil {
		return err
	}
	p.kafka.sizes.all = p.dueTopics.Sizes
	p.clock.kafka, p.clock.log, p.clock.state = p.kafka, p.log, p.state()
	own, err := p.opts.Recovery().Topics(ctx, p.kafka.reader.Client())
	if err != nil {
		return err
	}
	if err := p.learnSizes(ctx); err != nil {
		return err
	}
	p.kafka.reader.Know(own...)
	ids := recovery.IDsOf(own)
	p.claims = newClaims(map[string][16]byte{
		p.opts.Names.Commands(): ids.Commands, p.opts.Names.Receipts(): ids.Receipts,
	})
	resolver := p.resolver()
	p.kafka.watch(resolver)
	last := p.describeLast(ctx)
	p.kept.Step(stepAskGroup)
	if err := p.askGroup(ctx); err != nil {
		return fmt.Errorf("ask whose it is: %w", err)
	}
	p.kept.Step(stepOpenStore)
	if p.store == nil {
		if p.store, err = p.opts.Recovery().OpenStore(p.id, p.log); err != nil {
			return err
		}
	}
	p.changes = p.store.NewBatch()
	p.kept.Step(stepTakeOwnership)
	nonce, err := p.fence(ctx, resolver, last)
	if err != nil {
		return err
	}
	p.kept.Step(StepRestore)
	if err := p.restoreStore(ctx, nonce, ids); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	p.kept.Step(stepResume)
	if p.forward, err = newForwarder(p.opts, p.id, p.log, p.claims.ids); err != nil {
		return err
	}
	rctx, cancel := context.WithTimeout(ctx, readRangeWithin+openStep)
	defer cancel()
	return p.resume(rctx, ids)
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

// openStep bounds each step of opening whose duration does not depend on the size of the
// restore. After that the opening begins anew, because the cause of the wait may be gone.
const openStep = 20 * time.Second

// fence takes the partition from its last owner.
func (p *Partition) fence(
	ctx context.Context, resolver *dangling.Resolver, described <-chan dangling.Last,
) (nonce []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, openStep)
	defer cancel()
	last := <-described
	if last.Err != nil {
		return nil, last.Err
	}
	kept := &p.kept.dangling
	how := kept.Endings.Of(p.id, last)
	producer, epoch, err := p.kafka.cl.ProducerID(ctx)
	if err != nil {
		return nil, fmt.Errorf("take ownership: %w", err)
	}
	kept.Endings.Keep(p.id, dangling.Last{How: how, Producer: producer, Epoch: epoch})
	if kept.Unresolved, err = resolver.Resolve(ctx, how, kept.Unresolved); err != nil {
		return nil, fmt.Errorf("dangling transactions: %w", err)
	}
	if nonce, err = p.writeNonce(ctx); err != nil {
		return nil, fmt.Errorf("commit nonce: %w", err)
	}
	kept.Endings.Drop(p.id)
	return nonce, nil
}

// writeNonce commits a record with an id that is new. Reading topic state up to it reads
// everything that an earlier owner can have committed.
func (p *Partition) writeNonce(ctx context.Context) ([]byte, error) {
	n := topics.Nonce{Member: p.opts.InstanceID, Group: p.opts.Group, At: trigger.At(p.opts.Now())}
	rand.Read(n.ID[:])
	nonce, err := topics.AppendNonce(nil, &n)
	if err != nil {
		return nil, err
	}
	if err := p.kafka.begin(); err != nil {
		return nil, err
	}
	if p.takeOverGuard != nil {
		guard, err := topics.AppendGuard(nil, p.takeOverGuard)
		if err != nil {
			return nil, err
		}
		p.kafka.produce(ctx, &kgo.Record{
			Topic: p.opts.Names.State(), Partition: p.id, Key: topics.KeyGuard,
			Value: guard,
		})
	}
	r := &kgo.Record{Topic: p.opts.Names.State(), Partition: p.id, Key: topics.KeyNonce, Value: nonce}
	p.kafka.produce(ctx, r)
	if err := p.kafka.flush(ctx, p.dueTopics.IsDue); err != nil {
		return nil, err
	}
	if err := p.kafka.commit(ctx); err != nil {
		return nil, err
	}
	p.committed, p.stateNext = time.Now(), r.Offset+2
	return nonce, p.clock.learn(ctx, r.Offset, p.committed, p.opts.Now())
}
