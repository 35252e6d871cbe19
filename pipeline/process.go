package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/decompress"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Process is what the partitions of one process share: their options, and state that all of
// them use.
type Process struct {
	Options

	format     atomic.Uint64                     // the format of topic state that we write
	clocks     clocks                            // of the brokers
	timetable  atomic.Pointer[trigger.Timetable] // the one in force, for readers
	batches    *decompress.Bound
	compressor compressor
	endings    dangling.Endings // of the partitions that are opening

	// asker fetches single records. The client of a partition has one connection for
	// fetches, where other requests would wait behind a fetch that waits for records.
	asker *kgo.Client
	due   *output.Topics

	register *channelRegister
	quotas   *quota.Ledger // nil: no tenant is bounded

	cache *statestore.Cache // ours; nil if the options brought one

	settings atomic.Pointer[settings] // read from topic control
	reading  chan struct{}            // holds one while a partition that opens reads them

	restoring chan struct{} // holds one for each partition that reads much of topic state
	counting  chan struct{} // holds one while a partition counts what waits to be sent again

	budget *transactions

	noWatermarks sync.Once // warns that topic watermarks is missing

	NoRoom func(error) // called for writes that find no room on the disk; set before the first store opens
}

// NewProcess checks the options and fills in defaults. Connect must follow before the first
// partition is opened.
func NewProcess(o Options) (*Process, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("engine options: %w", err)
	}
	batches, err := decompress.New(o.BatchBytes)
	if err != nil {
		return nil, fmt.Errorf("bound on batches: %w", err)
	}
	batches.Lower(o.DecodedBytes, o.DecodedBytes*int(o.Partitions))
	zip, err := newCompressor(&o)
	if err != nil {
		return nil, fmt.Errorf("compressor: %w", err)
	}
	p := &Process{
		Options: o, batches: batches, compressor: zip, quotas: quota.New(o.Quota, o.Partitions),
		reading:   make(chan struct{}, 1),
		restoring: make(chan struct{}, restoreAtOnce), counting: make(chan struct{}, 1),
	}
	p.budget = newTransactions(p.brokers)
	p.Kafka = append(slices.Clone(o.Kafka), kgo.WithDecompressor(p.decompressor()))
	if err := kgo.ValidateOpts(p.forwardOptions()...); err != nil { // its client is made when it is needed
		return nil, fmt.Errorf("options of the forwarder: %w", err)
	}
	p.AgreeOn(topics.Newest) // until the engine knows what the other members read
	p.timetable.Store(o.Machine.Timetable.Fork())
	if o.Cache == nil {
		p.cache = statestore.NewCache(256 << 20)
		p.Cache = p.cache
	}
	return p, nil
}

// Connect sets the client for single questions. It reads no partition.
func (o *Process) Connect(cl *kgo.Client) {
	o.asker, o.due = cl, output.New(o.output(), cl)
	o.register = newChannelRegister(o)
}

// Close must follow the close of every partition.
func (o *Process) Close() {
	if o.cache != nil {
		o.cache.Close()
	}
}

// brokers is how many brokers of the cluster are known.
func (o *Process) brokers() int {
	if o.asker == nil {
		return 1
	}
	return len(o.asker.DiscoveredBrokers())
}

// Timetable returns a copy of the tz database and calendars in force.
func (o *Process) Timetable() *trigger.Timetable { return o.timetable.Load().Fork() }

// AgreeOn sets the format of topic state that every member reads.
func (o *Process) AgreeOn(f topics.Format) { o.format.Store(uint64(f)) }

// writes is the format that every member reads.
func (o *Process) writes() topics.Format { return topics.Format(o.format.Load()) }

// Recovery returns the configuration for recovering stores of this process.
func (o *Process) Recovery() *recovery.Config {
	return &recovery.Config{
		Kafka: o.Kafka, Names: o.Names, Partitions: o.Partitions, Isolation: o.isolation(),
		FetchMaxWait: o.FetchMaxWait,
		Dir:          o.Dir, Cache: o.Cache, MemTableBytes: o.MemTableBytes, FS: o.StoreFS, MaxAway: o.MaxAway,
		DisableWAL: o.DisableWAL, NoRoom: o.NoRoom,
		Chunk:  cmp.Or(o.restoreChunk, recovery.DefaultChunk),
		Logger: o.Logger, Stored: func(partition int32) { o.Listener.Step(partition, StepRestore) },
		GapRecreated: o.gapRecreated, Gap: o.gap, Decompressor: o.decompressor(),
	}
}

// output returns what is known of due topics in advance.
func (o *Process) output() output.Config {
	byKey := map[string]bool{}
	for _, channel := range o.Channels.Configured() {
		s := o.Channels.Settings(channel)
		byKey[s.Topic] = byKey[s.Topic] || s.ByKey
		if s.HighLane {
			lane := topics.HighLane(s.Topic)
			byKey[lane] = byKey[lane] || s.ByKey
		}
	}
	return output.Config{
		Kafka: o.Kafka, Names: o.Names, Partitions: o.Partitions, Manage: o.ManageTopics,
		Replication: o.Replication, ByKey: byKey, Logger: o.Logger,
	}
}

// decompressor bounds how much a client decompresses, batch by batch.
func (o *Process) decompressor() kgo.Decompressor { return o.batches }

// batchReader bounds how much a client decompresses that reads large ranges.
func (o *Process) batchReader() *decompress.Reader { return o.batches.Reader() }
