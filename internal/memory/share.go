package memory

import "cmp"

// Parts are what a process has that holds memory.
type Parts struct {
	Partitions int // of every topic: an engine and a worker may come to have all of them
	Brokers    int // as far as they are known: a client may have a fetch of each

	Engine  bool // decides and fires
	API     bool // answers callers
	Streams int  // event streams that it keeps open
	Readers int  // that write the history
	Tables  bool // the history is in this process
	Workers int  // channels that it serves
	Export  bool // writes the event log to files

	Receipts int   // most that the settings let a worker keep of a partition
	Cache    int64 // that the operator has chosen; 0: none
	MemTable int64 // the most that one of a store may have; 0: 16 MiB
}

// Shares are what each part of a process may take, in bytes unless it says otherwise.
type Shares struct {
	Cache    int64 // block cache of all stores. Pebble reserves memtables out of it
	MemTable int64 // one memtable. A store has up to four while its disk is slow
	Outcomes int64 // what one partition remembers for gateways
	Outbox   int64 // what one partition forwards
	Fetch    int64 // one fetch of one partition's client, as the broker sends it
	Timers   int64 // of one partition that are due, or are soon
	Decoded  int64 // batches that one partition's client has decompressed; one batch may always be
	Turn     int64 // a number: commands that one turn of a partition reads, and timers that it fires

	Pages    int64 // lists under way
	Bodies   int64 // bodies of single requests under way
	Lines    int64 // lines of batches without an answer
	Commands int64 // records that Kafka has not acknowledged
	Stream   int64 // one fetch of one event stream

	Read  int64 // one fetch of one reader of the history, and what it writes at once
	Table int64 // one memtable of the history in this process, of three; and its cache

	Buffer      int64 // due events of one worker
	WorkerFetch int64 // one fetch of one worker
	Receipts    int64 // a number: those that one worker keeps of one partition

	ExportFetch int64 // one fetch of the export
	Folded      int64 // a number: triggers of a snapshot in memory

	Shared int64 // batches that all other clients have decompressed; one batch may always be
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// holder is a row of the table of who holds what.
type holder struct {
	share  func(*Shares) *int64
	n      func(*Parts) int // how many hold so much; 0: the process has none
	unit   int64            // bytes in memory of each that counts
	weight int64            // how it shares what is left when all have the least
	least  int64            // with which one still works
	most   int64            // what one takes where nothing bounds it, which is also the most that it is given
}

// holders is the table. What it does not have is the rest: turns, filters of known keys, what a worker's
// handlers and an API's connections take, the index of an embedded broker, code, and garbage.
var holders = []holder{
	{func(s *Shares) *int64 { return &s.Cache }, engine, 1, 30, 16 * mib, mostCache},
	{func(s *Shares) *int64 { return &s.Outcomes }, partitions, 1, 5, 128 * kib, 4 * mib},
	{func(s *Shares) *int64 { return &s.Outbox }, partitions, 1, 5, 256 * kib, 16 * mib},
	{func(s *Shares) *int64 { return &s.Fetch }, partitions, 1, 5, 128 * kib, 4 * mib},
	{func(s *Shares) *int64 { return &s.Timers }, partitions, 1, 8, 128 * kib, 80 * mib},
	{func(s *Shares) *int64 { return &s.Decoded }, partitions, 1, 8, 256 * kib, 64 * mib},

	{func(s *Shares) *int64 { return &s.Pages }, api, 1, 8, 2 * mib, 256 * mib},
	{func(s *Shares) *int64 { return &s.Bodies }, api, 1, 4, 4 * mib, 256 * mib},
	{func(s *Shares) *int64 { return &s.Lines }, api, 3, 4, mib, 128 * mib}, // its text, command and answer
	{func(s *Shares) *int64 { return &s.Commands }, api, 1, 4, 2 * mib, 256 * mib},
	{func(s *Shares) *int64 { return &s.Stream }, streams, 1, 2, 16 * kib, mib},

	{func(s *Shares) *int64 { return &s.Read }, readers, 1, 8, 128 * kib, 8 * mib},
	{func(s *Shares) *int64 { return &s.Table }, tables, 1, 9, 2 * mib, 16 * mib},

	{func(s *Shares) *int64 { return &s.Buffer }, workers, 1, 5, 2 * mib, 64 * mib},
	{func(s *Shares) *int64 { return &s.WorkerFetch }, workerFetches, 1, 2, 64 * kib, 8 * mib},
	{func(s *Shares) *int64 { return &s.Receipts }, receipts, receiptBytes, 0, 0, 0}, // Share

	{func(s *Shares) *int64 { return &s.ExportFetch }, exportFetches, 1, 2, 128 * kib, 4 * mib},
	{func(s *Shares) *int64 { return &s.Folded }, export, 600, 3, 1 << 10, 1 << 16},

	{func(s *Shares) *int64 { return &s.Shared }, always, 1, 8, 8 * mib, 256 * mib},
}

func engine(p *Parts) int        { return oneIf(p.Engine) }
func partitions(p *Parts) int    { return oneIf(p.Engine) * p.Partitions }
func api(p *Parts) int           { return oneIf(p.API) }
func streams(p *Parts) int       { return oneIf(p.API) * p.Streams }
func readers(p *Parts) int       { return p.Readers * (p.brokers() + 1) }
func tables(p *Parts) int        { return oneIf(p.Tables) * 4 }
func workers(p *Parts) int       { return p.Workers }
func workerFetches(p *Parts) int { return p.Workers * p.brokers() }
func receipts(p *Parts) int      { return p.Workers * p.Partitions }
func export(p *Parts) int        { return oneIf(p.Export) }
func exportFetches(p *Parts) int { return oneIf(p.Export) * p.brokers() }
func always(*Parts) int          { return 1 }

func (p *Parts) brokers() int { return max(1, p.Brokers) }

// ofMany is what a partition has of something of which each of a few has most, where nothing bounds memory.
func (p *Parts) ofMany(most int64) int64 {
	return most * manyPartitions / int64(max(manyPartitions, p.Partitions))
}

func oneIf(b bool) int {
	if b {
		return 1
	}
	return 0
}

const (
	memTables  = 4 // of a store: statestore's MemTableStopWritesThreshold
	leastTable = 256 * kib

	receiptBytes  = 110 // clients/go/worker's memory
	leastReceipts = 1000
	leastRoom     = 64 * kib // of a partition: clients/go/worker's minShareBytes
	mostTable     = 16 * mib
	mostCache     = 4 << 30
	defaultCache  = 256 * mib
	defaultBlocks = 128 * mib // of the cache, beside half of what memtables may take

	// manyPartitions take as much as a process without a limit takes for partitions. What more of them take
	// they share: 64 partitions of a process whose triggers were registered as fast as it can took 13 GB.
	manyPartitions = 16

	// turnBytes is what a turn holds for each record with a payload of 200 B: what it read, decided and produces,
	// and what is fetched meanwhile. 64 partitions with turns of 5,000 had 2.2 GB beside their memtables.
	turnBytes           = 5 << 10
	mostTurn, leastTurn = 5000, 200
	usefulTurn          = 1000 // where nothing bounds memory: one partition of many may have all the work
)

// Share divides two thirds of a limit among the parts of a process. Each has the least, and of what is
// left a part by its weight. Without a limit each has the most, and more than 16 partitions have what 16
// would. What the settings say of receipts and of a cache comes first, but receipts leave the others their
// least, and take a quarter of the limit at most.
func Share(limit int64, p Parts) Shares {
	var s Shares
	few := p
	few.Partitions = min(p.Partitions, manyPartitions)
	left, weights := limit/3*2, int64(0)
	for _, h := range holders {
		if n := h.n(&p); n > 0 {
			left -= int64(n) * h.unit * h.leastOf(&s, &p)
			weights += h.weight
		}
	}
	if n := int64(receipts(&p)) * receiptBytes; n > 0 {
		s.Receipts = int64(p.Receipts)
		if limit > 0 {
			s.Receipts = min(s.Receipts, max(leastReceipts, min(left, limit/4)/n))
		}
		left -= n * s.Receipts
	}
	for _, h := range holders {
		n := h.n(&p)
		switch {
		case n == 0 || h.weight == 0:
		case limit > 0:
			more := max(0, left) * h.weight / weights / int64(n) / h.unit
			*h.share(&s) = min(h.leastOf(&s, &p)+more, h.mostOf(&s, &p))
		default:
			*h.share(&s) = max(h.leastOf(&s, &p), h.most*int64(h.n(&few))/int64(n))
		}
	}
	s.stores(limit, &p)
	s.turns(limit, &p)
	return s
}

// turns bounds turns. With payloads of 200 B those of all partitions take a sixth of a limit, half of what is not
// divided among the holders, or more where that is too little for any.
func (s *Shares) turns(limit int64, p *Parts) {
	if !p.Engine {
		return
	}
	s.Turn = max(p.ofMany(mostTurn), usefulTurn)
	if limit > 0 {
		s.Turn = min(s.Turn, limit/6/int64(max(1, p.Partitions))/turnBytes)
	}
	s.Turn = max(s.Turn, leastTurn)
}

// leastOf is the least of a holder. Memtables must not push the cache out, and a worker gives each
// partition, and its lane of high priority, some room.
func (h *holder) leastOf(s *Shares, p *Parts) int64 {
	switch h.share(s) {
	case &s.Cache:
		return max(h.least, int64(p.Partitions)*memTables*leastTable)
	case &s.Buffer:
		return max(h.least, int64(p.Partitions)*2*leastRoom)
	}
	return h.least
}

func (h *holder) mostOf(s *Shares, p *Parts) int64 {
	return max(h.most, h.leastOf(s, p))
}

// stores divides the cache, which an operator may have chosen, into memtables.
func (s *Shares) stores(limit int64, p *Parts) {
	if !p.Engine {
		return
	}
	most := cmp.Or(p.MemTable, mostTable)
	if p.Cache > 0 {
		s.Cache = p.Cache
	} else if limit == 0 {
		s.MemTable = max(p.ofMany(most), leastTable)
		s.Cache = max(defaultCache, defaultBlocks+memTables/2*int64(p.Partitions)*s.MemTable)
		return
	}
	s.MemTable = min(max(s.Cache/memTables/int64(max(1, p.Partitions)), leastTable), most)
}

// Sum is the most that the parts take together.
func (s Shares) Sum(p Parts) (sum int64) {
	for _, h := range holders {
		sum += int64(h.n(&p)) * h.unit * *h.share(&s)
	}
	if p.Engine {
		sum += max(0, memTables*int64(p.Partitions)*s.MemTable-s.Cache)
	}
	return sum
}
