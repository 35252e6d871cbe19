package memory

import "testing"

// TestSharesStayBelowTheLimit: whatever the limit and the partitions, what is
// shared out leaves a third for what cannot be divided.
func TestSharesStayBelowTheLimit(t *testing.T) {
	for _, partitions := range []int{1, 2, 4, 16, 64} {
		for limit := int64(90+4*partitions) * mib; limit <= 64<<30; limit += limit / 7 {
			s := Share(limit, partitions, 0)
			if sum := s.Sum(partitions); sum > limit*2/3 {
				t.Errorf("%d MiB at %d partitions: %d MiB are shared out: %+v", limit/mib, partitions, sum/mib, s)
			}
			if tables := int64(memTables * partitions * s.MemTable); tables > s.Cache {
				t.Errorf("%d MiB at %d partitions: memtables of %d MiB push a cache of %d MiB out",
					limit/mib, partitions, tables/mib, s.Cache/mib)
			}
		}
	}
}

// TestShares: those that docs/operations/sizing.md names, and bounds.
func TestShares(t *testing.T) {
	container := int64(1<<30) / 100 * Percent
	for _, c := range []struct {
		name       string
		limit      int64
		partitions int
		cache      int64
		want       Shares
	}{
		{"no limit", 0, 16, 0, most},
		{"no limit, a cache", 0, 16, 64 * mib, Shares{
			Cache: 64 * mib, MemTable: mib, Outcomes: most.Outcomes, Outbox: most.Outbox, Fetch: most.Fetch,
			Timers: most.Timers, InFlight: most.InFlight,
		}},
		{"a container of 1 GiB at 16 partitions", container, 16, 0, Shares{
			Cache: container / 100 * 30, MemTable: int(container / 100 * 30 / 4 / 16),
			Outcomes: int(container / 100 * 5 / 16), Outbox: int(container / 100 * 5 / 16),
			Fetch: int(container / 100 * 5 / 16), Timers: container / 100 * 8 / 16, InFlight: container / 100 * 10,
		}},
		{"the least there may be, and many partitions", 128 * mib, 256, 0, Shares{
			Cache: 128 * mib / 100 * 30, MemTable: least.MemTable, Outcomes: least.Outcomes, Outbox: least.Outbox,
			Fetch: least.Fetch, Timers: least.Timers, InFlight: 128 * mib / 100 * 10,
		}},
		{"a large machine", 100 << 30, 4, 0, Shares{
			Cache: mostCache, MemTable: most.MemTable, Outcomes: most.Outcomes, Outbox: most.Outbox, Fetch: most.Fetch,
			Timers: most.Timers, InFlight: most.InFlight,
		}},
	} {
		if got := Share(c.limit, c.partitions, c.cache); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}
