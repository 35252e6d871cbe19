package statestore

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

var (
	benchMemTable = flag.Int("memtable", 0, "MiB, 0: default")
	benchCache    = flag.Int("cache", 0, "MiB, 0: default")
	benchNoWAL    = flag.Bool("nowal", false, "DisableWAL")
	benchKeys     = flag.Int("keys", 1_000_000, "triggers per run")
)

const benchTurn = 1000 // records per batch

func benchOptions(b *testing.B) Options {
	return Options{
		Dir: b.TempDir() + "/p0", MemTableBytes: *benchMemTable << 20, CacheBytes: int64(*benchCache) << 20,
		DisableWAL: *benchNoWAL, MaxKeys: *benchKeys,
	}
}

// benchRow returns trigger i, due at a random time within an hour. Its payload has 200 bytes,
// half of them random.
func benchRow(i int) Row {
	r := rand.New(rand.NewPCG(7, uint64(i)))
	value := make([]byte, 0, 230)
	value = fmt.Appendf(value,
		`{"title":"Reminder","body":"Your appointment is tomorrow","deep_link":"app://x/%d","noise":"`, i)
	for len(value) < 200 {
		value = append(value, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"[r.IntN(64)])
	}
	key := trigger.Key(fmt.Sprintf("reminder-%016x", r.Uint64()))
	return Row{Key: key, Value: value, Timers: []trigger.Timer{{
		Due:      trigger.Instant(1_800_000_000_000 + r.Int64N(3_600_000)),
		Priority: trigger.Normal, Kind: trigger.TimerSeries, Occurrence: "1",
	}}}
}

// finished returns the row's done record.
func finished(row Row) Row {
	return Row{Key: row.Key, Value: row.Value[:60], ForgetAt: row.Timers[0].Due + 86_400_000}
}

// BenchmarkLife registers a million triggers, fires them in the order of due time, and forgets
// them. It reports each step per record: the time that the owner waits, and the CPU time with
// compactions.
func BenchmarkLife(b *testing.B) {
	rows := make([]Row, *benchKeys)
	byKey := make(map[trigger.Key]int, len(rows))
	for i := range rows {
		rows[i] = benchRow(i)
		byKey[rows[i].Key] = i
	}
	for b.Loop() {
		s := mustOpenBench(b)
		batch := s.NewBatch()
		cpu := cpuTime()
		step(b, "register", func() { benchRegister(b, s, batch, rows) })
		disk := s.Stats().DiskBytes
		step(b, "fire", func() { benchFire(b, s, batch, rows, byKey) })
		step(b, "forget", func() { benchForget(b, s, batch, rows, byKey) })
		b.ReportMetric(float64(cpuTime()-cpu)/float64(len(rows)), "cpu-ns/life")
		b.ReportMetric(float64(disk)/float64(len(rows)), "disk-B/pending")
		b.ReportMetric(s.Stats().WriteAmpl, "write-amp")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
}

func mustOpenBench(b *testing.B) *Store {
	s, err := Open(benchOptions(b))
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func step(b *testing.B, name string, f func()) {
	start := time.Now()
	f()
	b.ReportMetric(float64(time.Since(start))/float64(*benchKeys), name+"-ns")
}

func commitTurn(b *testing.B, batch *Batch, turn int) {
	batch.SetMeta("progress", fmt.Append(nil, turn))
	if err := batch.Commit(); err != nil {
		b.Fatal(err)
	}
}

func benchRegister(b *testing.B, s *Store, batch *Batch, rows []Row) {
	for i, row := range rows {
		if v, err := s.Get(row.Key, nil); v != nil || err != nil {
			b.Fatalf("%s is known already: %v", row.Key, err)
		}
		batch.Put(nil, row)
		if i%benchTurn == benchTurn-1 || i == len(rows)-1 {
			commitTurn(b, batch, i)
		}
	}
}

// benchFire fires as the engine does: it scans refs, reads each state by its due key, and puts
// its done record.
func benchFire(b *testing.B, s *Store, batch *Batch, rows []Row, byKey map[trigger.Key]int) {
	after := DueKey{}
	for fired := 0; fired < len(rows); {
		due := make([]DueKey, 0, benchTurn)
		if err := s.ScanDue(after, func(at trigger.Instant, ref string) bool {
			due = append(due, DueKey{at, ref})
			return len(due) < benchTurn
		}); err != nil {
			b.Fatal(err)
		}
		r := s.NewDueReader()
		for _, k := range due {
			if _, ok, err := r.Get(k.Due, k.Ref); !ok || err != nil {
				b.Fatalf("%v is not there: %v", k, err)
			}
			_, key, _, _, _ := ParseRef(k.Ref)
			row := rows[byKey[key]]
			batch.Put(&row, finished(row))
		}
		if err := r.Close(); err != nil {
			b.Fatal(err)
		}
		after = due[len(due)-1]
		fired += len(due)
		commitTurn(b, batch, fired)
	}
}

func benchForget(b *testing.B, s *Store, batch *Batch, rows []Row, byKey map[trigger.Key]int) {
	for s.DoneCount() > 0 {
		n := 0
		if err := s.ScanForget(forever, func(_ trigger.Instant, key trigger.Key, _ []byte) bool {
			batch.Delete(finished(rows[byKey[key]]))
			n++
			return n < benchTurn
		}); err != nil {
			b.Fatal(err)
		}
		commitTurn(b, batch, n)
	}
}

// BenchmarkOpen measures a clean restart with all keys pending.
func BenchmarkOpen(b *testing.B) {
	o := benchOptions(b)
	s, err := Open(o)
	if err != nil {
		b.Fatal(err)
	}
	batch := s.NewBatch()
	for i := range *benchKeys {
		batch.Put(nil, benchRow(i))
		if i%benchTurn == 0 {
			commitTurn(b, batch, i)
		}
	}
	commitTurn(b, batch, 0)
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, err := Open(o)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDisk measures the disk space of a pending trigger after compaction, and the compressed
// size of its payload alone.
func BenchmarkDisk(b *testing.B) {
	for b.Loop() {
		s := mustOpenBench(b)
		batch := s.NewBatch()
		for i := range *benchKeys {
			batch.Put(nil, benchRow(i))
			if i%benchTurn == 0 {
				commitTurn(b, batch, i)
			}
		}
		commitTurn(b, batch, 0)
		b.ReportMetric(compacted(b, s.db)/float64(*benchKeys), "B/pending")
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(payloadOnly(b, *benchKeys)/float64(*benchKeys), "B/payload")
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkGetUnknown measures the lookup that every register of a new key does.
func BenchmarkGetUnknown(b *testing.B) {
	s := mustOpenBench(b)
	defer s.Close()
	batch := s.NewBatch()
	for i := range *benchKeys {
		batch.Put(nil, benchRow(i))
		if i%benchTurn == 0 {
			commitTurn(b, batch, i)
		}
	}
	commitTurn(b, batch, 0)
	keys := make([]trigger.Key, 1<<16)
	for i := range keys {
		keys[i] = benchRow(-1 - i).Key
	}
	i, found := 0, 0
	b.ReportAllocs()
	for b.Loop() {
		if v, err := s.Get(keys[i&(len(keys)-1)], nil); v != nil || err != nil {
			found++
		}
		i++
	}
	if found > 0 {
		b.Errorf("%d unknown keys were found", found)
	}
}

// BenchmarkGetKnown measures what the commands of a turn read whose triggers have fired: a herd of
// receipts, or a redrive. Their keys come about in the order in which the states were written.
func BenchmarkGetKnown(b *testing.B) {
	s := mustOpenBench(b)
	defer s.Close()
	batch := s.NewBatch()
	keys := make([]trigger.Key, *benchKeys)
	for i := range keys {
		row := benchRow(i)
		row.Key = trigger.Key(fmt.Sprintf("bench-%d", i))
		row.Timers, row.ForgetAt = nil, trigger.Instant(1_800_000_000_000+i)
		batch.Put(nil, row)
		if keys[i] = row.Key; i%benchTurn == benchTurn-1 || i == len(keys)-1 {
			commitTurn(b, batch, i)
		}
	}
	for _, turn := range []int{1, 300} {
		b.Run(fmt.Sprintf("turn=%d", turn), func(b *testing.B) {
			i, cpu := 0, cpuTime()
			var buf []byte
			for b.Loop() {
				r := s.NewStateReader()
				for range turn {
					var err error
					if buf, err = r.Get(keys[i%len(keys)], buf); len(buf) == 0 || err != nil {
						b.Fatalf("%s is not known: %v", keys[i%len(keys)], err)
					}
					i++
				}
				if err := r.Close(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpuTime()-cpu)/float64(i), "cpu-ns/get")
		})
	}
}
