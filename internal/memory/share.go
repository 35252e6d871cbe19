package memory

// Shares are what each part of a process may take.
type Shares struct {
	// Cache is the block cache of all stores. Pebble reserves memtables out of it.
	Cache int64
	// MemTable is one memtable. A store has up to four while its disk is slow.
	MemTable int
	// Outcomes are what one partition remembers for gateways.
	Outcomes int
	// Outbox is what one partition forwards.
	Outbox int
	// Fetch is one fetch of one partition's client, as the broker sends it.
	Fetch int
	// Timers are what one partition holds of its timers that are due, or are soon.
	Timers int64
	// InFlight are bodies and answers of all requests that are under way.
	InFlight int64
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// What a part takes where nothing bounds it, which is also the most that it is
// given; and the least with which it still works.
var (
	most = Shares{
		Cache: 256 * mib, MemTable: 16 * mib, Outcomes: 4 * mib, Outbox: 16 * mib, Fetch: 4 * mib,
		Timers: 80 * mib, InFlight: 256 * mib,
	}
	least = Shares{
		Cache: 32 * mib, MemTable: 256 * kib, Outcomes: 128 * kib, Outbox: 256 * kib, Fetch: 128 * kib,
		Timers: 128 * kib, InFlight: 8 * mib,
	}
)

// Percents of the limit. What is left is for what cannot be divided: the
// turns, records decoded, filters of known keys, clients, code, and garbage.
const (
	cachePercent    = 30
	outcomesPercent = 5
	outboxPercent   = 5
	fetchPercent    = 5
	timersPercent   = 8
	inFlightPercent = 10

	memTables = 4 // of a store: statestore's MemTableStopWritesThreshold
	mostCache = 4 << 30
)

// Share divides a limit among a process that may come to own all partitions. A
// cache that is not 0 was chosen by the operator.
func Share(limit int64, partitions int, cache int64) Shares {
	s, n := most, int64(max(1, partitions))
	if limit > 0 {
		part := func(percent, most, least int64) int64 { return min(max(limit/100*percent/n, least), most) }
		s = Shares{
			Cache:    min(max(limit/100*cachePercent, least.Cache), mostCache),
			Outcomes: int(part(outcomesPercent, int64(most.Outcomes), int64(least.Outcomes))),
			Outbox:   int(part(outboxPercent, int64(most.Outbox), int64(least.Outbox))),
			Fetch:    int(part(fetchPercent, int64(most.Fetch), int64(least.Fetch))),
			Timers:   part(timersPercent, most.Timers, least.Timers),
			InFlight: min(max(limit/100*inFlightPercent, least.InFlight), most.InFlight),
		}
	}
	if cache > 0 {
		s.Cache = cache
	}
	if limit > 0 || cache > 0 { // memtables must not push the cache out
		s.MemTable = int(min(max(s.Cache/memTables/n, int64(least.MemTable)), int64(most.MemTable)))
	}
	return s
}

// Sum is the most that the parts take together.
func (s Shares) Sum(partitions int) int64 {
	n := int64(partitions)
	return max(s.Cache, memTables*n*int64(s.MemTable)) + n*(int64(s.Outcomes+s.Outbox+s.Fetch)+s.Timers) + s.InFlight
}
