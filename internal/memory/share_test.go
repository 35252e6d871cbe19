package memory

import "testing"

// sets are all sets of roles that a process may have.
func sets(partitions, brokers int) (all []Parts) {
	for roles := range 1 << 6 {
		has := func(bit int) bool { return roles>>bit&1 == 1 }
		p := Parts{
			Partitions: partitions, Brokers: brokers, Streams: 256, Receipts: 100_000,
			Engine: has(0), API: has(1), Tables: has(3), Export: has(5),
		}
		if has(2) {
			p.Readers = 3
		}
		if has(4) {
			p.Workers = 4
		}
		all = append(all, p)
	}
	return all
}

// TestSharesStayBelowTheLimit: whatever the limit, the roles and the partitions, what is shared out leaves
// a third for what cannot be divided.
func TestSharesStayBelowTheLimit(t *testing.T) {
	for _, c := range []struct{ partitions, brokers int }{{1, 1}, {4, 1}, {16, 3}, {64, 3}, {256, 9}} {
		for _, p := range sets(c.partitions, c.brokers) {
			from := int64(128+4*c.partitions) * mib // and no less than all must have
			if c.partitions <= 16 {
				from = 128 * mib // the least that memory.limit takes
			}
			for limit := from; limit <= 64<<30; limit += limit / 5 {
				s := Share(limit, p)
				if sum := s.Sum(p); sum > limit*2/3 {
					t.Fatalf("%d MiB, %+v: %d MiB are shared out: %+v", limit/mib, p, sum/mib, s)
				}
				if tables := memTables * int64(p.Partitions) * s.MemTable; tables > s.Cache && p.Engine {
					t.Fatalf("%d MiB, %+v: memtables of %d MiB push a cache of %d MiB out", limit/mib, p, tables/mib,
						s.Cache/mib)
				}
				if limit >= 64<<30/2 && c.partitions <= 16 && s.Outbox != 16*mib && p.Engine {
					t.Fatalf("%d GiB, %+v: %+v is not the most", limit>>30, p, s)
				}
			}
		}
	}
}

// TestOnlyWhatIsThereHasAShare: of a role that a process has not, nothing is kept free.
func TestOnlyWhatIsThereHasAShare(t *testing.T) {
	const limit = 512 * mib
	all := Parts{
		Partitions: 16, Brokers: 3, Engine: true, API: true, Streams: 256, Readers: 3, Tables: true, Workers: 4,
		Export: true, Receipts: 100_000,
	}
	alone := Share(limit, Parts{Partitions: 16, Brokers: 3, Engine: true})
	if together := Share(limit, all); together.Cache >= alone.Cache || together.Fetch >= alone.Fetch {
		t.Errorf("an engine alone has %+v, beside all other roles %+v", alone, together)
	}
	if alone.Pages+alone.Bodies+alone.Read+alone.Buffer+alone.ExportFetch != 0 {
		t.Errorf("an engine alone has %+v", alone)
	}
	for i, h := range holders {
		if h.n(&all) == 0 || h.unit == 0 || h.least > h.most {
			t.Errorf("row %d: %+v", i, h)
		}
		for j := range holders[:i] {
			if s := new(Shares); h.share(s) == holders[j].share(s) {
				t.Errorf("rows %d and %d are of one share", i, j)
			}
		}
	}
}

// TestSharesWithoutALimit: every part has the default that it has without this package, and a cache that
// the operator has chosen bounds memtables.
func TestSharesWithoutALimit(t *testing.T) {
	p := Parts{
		Partitions: 16, Engine: true, API: true, Streams: 256, Readers: 3, Tables: true, Workers: 1, Export: true,
		Receipts: 5000,
	}
	want := Shares{
		Cache: 640 * mib, MemTable: 16 * mib, Outcomes: 4 * mib, Outbox: 16 * mib, Fetch: 4 * mib, Timers: 80 * mib,
		Decoded: 64 * mib, Turn: 5000,
		Pages: 256 * mib, Bodies: 256 * mib, Lines: 128 * mib, Commands: 256 * mib, Stream: mib,
		Read: 8 * mib, Table: 16 * mib, Buffer: 64 * mib, WorkerFetch: 8 * mib, Receipts: 5000, ExportFetch: 4 * mib,
		Folded: 1 << 16, Shared: 256 * mib,
	}
	if got := Share(0, p); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if p.Partitions = 4; Share(0, p).Cache != 256*mib {
		t.Errorf("with 4 partitions: %+v", Share(0, p))
	}
	p.Partitions = 64
	few := want
	few.MemTable, few.Outcomes, few.Outbox, few.Fetch = 4*mib, mib, 4*mib, mib
	few.Timers, few.Decoded, few.Turn = 20*mib, 16*mib, 1250
	if got := Share(0, p); got != few {
		t.Errorf("with 64 partitions: %+v, want %+v", got, few)
	}
	if p.Partitions = 256; Share(0, p).Turn != 1000 || Share(0, p).MemTable != mib {
		t.Errorf("with 256 partitions: %+v", Share(0, p))
	}
	p.Partitions, p.MemTable = 16, 4*mib
	if got := Share(0, p); got.MemTable != 4*mib || got.Cache != 256*mib {
		t.Errorf("with small memtables: %+v", got)
	}
	p.MemTable = 0
	p.Cache = 64 * mib
	want.Cache, want.MemTable = 64*mib, mib
	if got := Share(0, p); got != want {
		t.Errorf("with a cache: %+v, want %+v", got, want)
	}
	if got := Share(64<<30, p); got != want {
		t.Errorf("a large machine: %+v, want %+v", got, want)
	}
}

// TestShares: those that docs/operations/sizing.md names: a container of 1 GiB, 16 partitions and three
// brokers, once with an engine alone and once with the roles engine, api and webhook.
func TestShares(t *testing.T) {
	limit := int64(1<<30) / 100 * Percent
	p := Parts{Partitions: 16, Brokers: 3, Streams: 256, Receipts: 100_000, Engine: true}
	want := Shares{
		Cache: 217313571, MemTable: 3395524, Outcomes: 2219992, Outbox: 2351064, Fetch: 2219992, Timers: 3473344,
		Decoded: 3604416, Turn: 1529, Shared: 61864969,
	}
	if got := Share(limit, p); got != want {
		t.Errorf("an engine: %+v, want %+v", got, want)
	}
	p.API, p.Workers = true, 1
	want = Shares{
		Cache: 98576568, MemTable: 1540258, Outcomes: 983148, Outbox: 1114220, Fetch: 983148, Timers: 1494394,
		Decoded: 1625466, Turn: 1529,
		Pages: 23910312, Bodies: 15100884, Lines: 4684102, Commands: 13003732, Stream: 37685,
		Buffer: 15730377, WorkerFetch: 1883299, Receipts: 100_000, Shared: 30201768,
	}
	if got := Share(limit, p); got != want {
		t.Errorf("an engine with API and webhooks: %+v, want %+v", got, want)
	}
	if p.Workers = 4; Share(limit, p).Receipts >= 100_000 {
		t.Error("receipts of four channels take more than a quarter of the limit")
	}
}
