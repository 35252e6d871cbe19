package broker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	txn "github.com/waterclock/waterclock/internal/producer" // broker has a producer of its own
)

func smallSegments(o *Options) {
	o.SegmentBytes, o.CompactBytes, o.RetentionInterval = 64<<10, 1, -1
}

// compactedAhead makes copies of all that a start would compact.
func compactedAhead(t *testing.T, b *Broker) map[floorKey]*ahead {
	t.Helper()
	g, err := b.retainOnce(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	copies, err := b.compactAhead(t.Context(), g.parts)
	if covered := b.compactedBy(copies); err != nil || covered == 0 {
		t.Fatalf("copies of %d bytes, %v", covered, err)
	}
	return copies
}

// fill writes records of about a kilobyte, under so many keys in turn.
func fill(t *testing.T, b *Broker, records, keys int) {
	t.Helper()
	cl := client(t, b)
	for n := range records {
		produce(t, cl, rec("a", 0, fmt.Sprint(n%keys), fmt.Sprint(n, strings.Repeat("x", 1000))))
	}
}

// wantNoCopies fails if anything of a compaction is left on disk.
func wantNoCopies(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(dir, cleanDir))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

// TestCompactsAhead: closed segments are compacted beside a broker that serves, whatever transactions are open
// there. A restart takes the copies: the last committed value of each key is where it was, and no other appears.
func TestCompactsAhead(t *testing.T) {
	for i := range 4 {
		seed := uint64(time.Now().UnixNano())
		t.Run(fmt.Sprintf("%d, seed %d", i, seed), func(t *testing.T) { compactAheadRandom(t, seed, i%2 == 0) })
	}
}

func compactAheadRandom(t *testing.T, seed uint64, commit bool) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	b := start(t, dir, smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	w := &mixed{t: t, rnd: rnd, short: client(t, b, kgo.TransactionalID("x")), plain: client(t, b)}
	w.long = client(t, b, kgo.TransactionalID("y"))
	w.write(150)
	w.begin() // where the copy ends a transaction is open, which ends behind it
	copies := compactedAhead(t, b)
	w.end(commit)
	w.write(50)
	w.end(true)
	before := read(t, b, "a", 0, committed())
	size, end := diskUse(t, partitionDir(b.data, "a", 0)), b.end("a", 0)
	if err := b.restart(t.Context(), copies); err != nil {
		t.Fatal(err)
	}
	wantNoCopies(t, dir)
	if got := diskUse(t, partitionDir(b.data, "a", 0)); got >= size*2/3 {
		t.Errorf("%d bytes, before %d", got, size)
	}
	second := start(t, copyDir(t, dir), func(o *Options) { o.SegmentBytes = 64 << 10 })
	for name, b := range map[string]*Broker{"restarted": b, "killed and started": second} {
		after := read(t, b, "a", 0, committed())
		if got, want := newest(after), newest(before); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s\n%v\nbefore\n%v", name, got, want)
		}
		was := map[string]bool{}
		for _, r := range before {
			was[fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value)] = true
		}
		for _, r := range after {
			if !was[fmt.Sprintf("%d %s=%s", r.Offset, r.Key, r.Value)] {
				t.Errorf("%s: %s=%.10s at %d was not there before", name, r.Key, r.Value, r.Offset)
			}
		}
		if got := b.end("a", 0); got != end {
			t.Errorf("%s: the log ends at %d, want %d", name, got, end)
		}
		transact(t, client(t, b, kgo.TransactionalID("z")), true, rec("a", 0, "0", "next"))
	}
}

// mixed writes to partition 0 of topic a: plain records, short transactions, and a long one that goes on beside them.
type mixed struct {
	t                  *testing.T
	rnd                *rand.Rand
	plain, short, long *kgo.Client
	open               bool // the long one
	last               *kgo.Record
	n                  int
}

func (w *mixed) record() *kgo.Record {
	w.n++
	r := rec("a", 0, fmt.Sprint(w.rnd.IntN(10)), fmt.Sprintf("%d-%s", w.n, strings.Repeat("x", 500+w.rnd.IntN(1000))))
	if w.rnd.IntN(8) == 0 {
		r.Value = nil
	}
	return r
}

func (w *mixed) write(rounds int) {
	for range rounds {
		recs := []*kgo.Record{w.record(), w.record(), w.record()}
		switch w.rnd.IntN(6) {
		case 0, 1:
			produce(w.t, w.plain, recs...)
		case 2:
			transact(w.t, w.short, true, recs...)
		case 3:
			transact(w.t, w.short, false, recs...)
		case 4:
			w.begin()
		case 5:
			w.end(w.rnd.IntN(2) == 0)
		}
	}
}

// begin goes on with the long transaction, or begins one.
func (w *mixed) begin() {
	if !w.open {
		if err := w.long.BeginTransaction(); err != nil {
			w.t.Fatal(err)
		}
		w.open = true
	}
	w.last = w.record()
	produce(w.t, w.long, w.last)
}

func (w *mixed) end(commit bool) {
	if !w.open {
		return
	}
	w.open = false
	if err := txn.EndTransaction(testContext(w.t), w.long, kgo.TransactionEndTry(commit), w.last); err != nil {
		w.t.Fatal(err)
	}
}

// TestCopiesThatDoNotFit: a partition whose segments are others by now keeps them.
func TestCopiesThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact,delete")
	fill(t, b, 400, 10)
	copies := compactedAhead(t, b)
	if err := b.Trim("a", 0, 200); err != nil {
		t.Fatal(err)
	}
	fill(t, b, 400, 10)
	if n := b.compactedBy(copies); n != 0 {
		t.Errorf("a restart for %d bytes, of a copy that does not fit", n)
	}
	before := read(t, b, "a", 0)
	if err := b.restart(t.Context(), copies); err != nil {
		t.Fatal(err)
	}
	wantNoCopies(t, dir)
	if after := read(t, b, "a", 0); len(after) != 600 || len(before) != 600 {
		t.Errorf("%d records, before %d, want 600", len(after), len(before))
	}
}

// TestCopyOfWhatIsKeptNow: whoever sets a topic to keep all loses nothing that was written from then on.
func TestCopyOfWhatIsKeptNow(t *testing.T) {
	b := start(t, t.TempDir(), smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	fill(t, b, 200, 1)
	copies := compactedAhead(t, b)
	policy := "delete"
	resp, err := kadm.NewClient(client(t, b)).AlterTopicConfigs(testContext(t), []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "cleanup.policy", Value: &policy},
	}, "a")
	if err != nil || resp[0].Err != nil {
		t.Fatal(err, resp)
	}
	if err := b.restart(t.Context(), copies); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b, "a", 0); len(got) != 200 {
		t.Errorf("%d records, want all 200", len(got))
	}
}

// TestCopyBehindALongTransaction: what is copied byte for byte is no reason for a restart.
func TestCopyBehindALongTransaction(t *testing.T) {
	b := start(t, t.TempDir(), smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	w := &mixed{t: t, rnd: rand.New(rand.NewPCG(1, 1)), long: client(t, b, kgo.TransactionalID("y"))}
	w.begin()
	fill(t, b, 200, 1)
	g, err := b.retainOnce(time.Now())
	if err != nil || g.closed == 0 {
		t.Fatal(g.closed, err)
	}
	copies, err := b.compactAhead(t.Context(), g.parts)
	if n := b.compactedBy(copies); err != nil || len(copies) != 1 || n != 0 {
		t.Errorf("a restart for %d bytes, %v", n, err)
	}
	w.end(true)
}

// TestKilledInTheExchange: a start after a kill between any two steps finds all records.
func TestKilledInTheExchange(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	fill(t, b, 300, 10)
	copies := compactedAhead(t, b)
	want := newest(read(t, b, "a", 0))
	end := b.end("a", 0)
	if len(copies) != 1 {
		t.Fatalf("%d copies", len(copies))
	}
	var a *ahead
	for _, a = range copies {
	}
	for killed := range 5 {
		crash := copyDir(t, dir)
		withoutJournal(t, crash) // a start replays it, and removes it, before it exchanges anything
		part := partitionDir(filepath.Join(crash, dataDir), "a", 0)
		work := filepath.Join(crash, cleanDir)
		fresh, old := filepath.Join(work, "a-0.new"), filepath.Join(work, "a-0.old")
		all, err := listSegments(part)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range []func() error{
			func() error { return os.Rename(filepath.Join(work, "a-0.ahead"), fresh) },
			func() error {
				for _, s := range all[len(a.covers):] {
					name := segmentName(s.base)
					if err := linkOrCopy(filepath.Join(part, name), filepath.Join(fresh, name)); err != nil {
						return err
					}
				}
				return nil
			},
			func() error { return os.Rename(part, old) },
			func() error { return os.Rename(fresh, part) },
		} {
			if i == killed {
				break
			}
			if err := step(); err != nil {
				t.Fatal(err)
			}
		}
		second := start(t, crash, func(o *Options) { o.SegmentBytes = 64 << 10 })
		if got := newest(read(t, second, "a", 0)); fmt.Sprint(got) != fmt.Sprint(want) || second.end("a", 0) != end {
			t.Errorf("killed before step %d: up to %d\n%v\nwant up to %d\n%v", killed+1, second.end("a", 0), got,
				end, want)
		}
		wantNoCopies(t, crash)
	}
}

// TestCopiesAreDropped: a start after a kill finds copies that no restart took.
func TestCopiesAreDropped(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	fill(t, b, 200, 200)
	compactedAhead(t, b)
	after := copyDir(t, dir)
	second := start(t, after)
	wantNoCopies(t, after)
	if got := read(t, second, "a", 0); len(got) != 200 {
		t.Errorf("%d records, want 200", len(got))
	}
}

// TestCompactAheadEnds: a stop ends it at the next segment, and a topic that is deleted meanwhile is passed over.
func TestCompactAheadEnds(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir, smallSegments)
	create(t, b, "a", 1, "cleanup.policy", "compact")
	fill(t, b, 200, 200)
	g, err := b.retainOnce(time.Now())
	if err != nil {
		t.Fatal(err)
	}
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if copies, err := b.compactAhead(stopped, g.parts); err == nil || len(copies) > 0 {
		t.Errorf("after a stop: %d copies, %v", len(copies), err)
	}
	wantNoCopies(t, dir)
	g.parts[0].topic.Name = "deleted"
	if copies, err := b.compactAhead(t.Context(), g.parts); err != nil || len(copies) > 0 {
		t.Errorf("of a deleted topic: %d copies, %v", len(copies), err)
	}
}
