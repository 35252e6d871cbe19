package broker

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// disk knows what a power cut would leave: of each file, what it held when it
// was last synced. Names of files are taken to be durable, but for segments
// that were never synced.
type disk struct {
	mu      sync.Mutex
	dir     string
	durable map[string][]byte // by path below dir
}

// mount takes what b has on disk now as durable, and then listens to its syncs.
func mount(t *testing.T, b *Broker) *disk {
	d := &disk{dir: b.opts.Dir, durable: map[string][]byte{}}
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			d.keep(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	b.syncer.fsync = func(f *os.File) error {
		time.Sleep(time.Millisecond) // as a disk does, so that cuts fall into it
		d.mu.Lock()
		defer d.mu.Unlock()
		d.keep(f.Name())
		return nil
	}
	return d
}

func (d *disk) keep(path string) {
	if raw, err := os.ReadFile(path); err == nil {
		d.durable[d.name(path)] = raw
	}
}

func (d *disk) name(path string) string {
	rel, _ := filepath.Rel(d.dir, path)
	return rel
}

// cut makes to what the machine finds after a power cut now: of what was not
// synced any sectors, zeros in place of those that are missing.
func (d *disk) cut(t *testing.T, to string, rnd *rand.Rand) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	err := filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		name := d.name(path)
		if err != nil || name == lockFile {
			return err
		}
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if appended(name) {
			durable, ok := d.durable[name]
			if !ok {
				return nil
			}
			raw = tear(durable, raw, rnd)
		}
		return os.WriteFile(filepath.Join(to, name), raw, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// appended says whether a file is written without being synced by who writes.
func appended(name string) bool {
	return strings.HasSuffix(name, ".dat") || strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "journal.")
}

func tear(durable, written []byte, rnd *rand.Rand) []byte {
	size := len(durable)
	if len(written) > size && rnd.IntN(2) == 0 {
		size += rnd.IntN(len(written) - size + 1)
	}
	out := make([]byte, size)
	copy(out, durable)
	for at := 0; at < size; at += 512 {
		if end := min(at+512, size, len(written)); at < end && rnd.IntN(2) == 0 {
			copy(out[at:end], written[at:end])
		}
	}
	return out
}

// TestPowerCut cuts the power again and again while transactions, plain
// produces and offset commits are under way: of what was acknowledged nothing
// is lost, though hardly any of it had been synced where it lies.
func TestPowerCut(t *testing.T) {
	cuts := 6
	if testing.Short() {
		cuts = 3
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := start(t, t.TempDir(), func(o *Options) { o.SegmentBytes = 64 << 10 })
	b.syncer.runBytes = 100 << 10
	setup(t, b.Addr())
	d := mount(t, b)

	l := &ledger{
		committed: map[string]bool{}, aborted: map[string]bool{}, plain: map[string]int64{},
		offsets: map[string]int64{},
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() { l.transact(ctx, b.Addr(), w, rand.New(rand.NewPCG(seed, uint64(w)+2))) })
	}
	wg.Go(func() { l.pump(ctx, b.Addr()) })
	defer wg.Wait()
	defer cancel()
	turns := map[uint64]bool{}
	for range cuts {
		l.more(t, 20+rnd.IntN(50))
		known := l.copy()
		after := t.TempDir()
		d.cut(t, after, rnd)
		turns[b.syncer.runNumber()] = true
		second := start(t, after)
		known.verify(t, second.Addr())
		stop(t, second)
	}
	if len(turns) < 2 {
		t.Error("the journal was never written over")
	}
}

func (s *syncer) runNumber() uint64 {
	s.work.Lock()
	defer s.work.Unlock()
	return s.journal.run.number
}

func (l *ledger) copy() *ledger {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &ledger{
		committed: maps.Clone(l.committed), aborted: maps.Clone(l.aborted),
		plain: maps.Clone(l.plain), offsets: maps.Clone(l.offsets),
	}
}

// TestDeletedTopicIsNotReplayed: the journal holds a topic's records, and the
// topic is deleted, and made anew.
func TestDeletedTopicIsNotReplayed(t *testing.T) {
	for _, by := range []string{"name", "id"} {
		t.Run("by "+by, func(t *testing.T) {
			dir := t.TempDir()
			b := start(t, dir)
			create(t, b, "a", 1)
			produce(t, client(t, b), rec("a", 0, "k", "old, and reaching behind the new one"))
			produce(t, client(t, b), rec("a", 0, "k", "old, a batch of its own"))
			req, topic := kmsg.NewPtrDeleteTopicsRequest(), kmsg.NewDeleteTopicsRequestTopic()
			req.TopicNames = []string{"a"}
			if topic.Topic = &req.TopicNames[0]; by == "id" {
				topic.Topic, topic.TopicID = nil, b.topics.named("a").id
			}
			req.Topics = append(req.Topics, topic)
			resp, err := req.RequestWith(testContext(t), client(t, b))
			if err != nil || resp.Topics[0].ErrorCode != 0 {
				t.Fatal(err, resp)
			}
			create(t, b, "a", 1)
			produce(t, client(t, b), rec("a", 0, "k", "new"))
			crash := copyDir(t, dir)
			wantValues(t, read(t, start(t, crash), "a", 0), "new")
		})
	}
}

// TestOutcomeAheadOfItsData: what is not synced reaches the disk in any order,
// so that a commit nobody was told of may be there before its data. The tails
// it speaks of may hold part of a batch of others that was being written.
func TestOutcomeAheadOfItsData(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	cl := client(t, b, kgo.TransactionalID("x"))
	for _, v := range []string{"old", "new"} {
		transact(t, cl, true, rec("a", 0, "k", v), rec("a", 1, "k", v))
	}
	for _, c := range []struct {
		name string
		more int64 // bytes of partition 1 behind the data; the outcome speaks of at least 0
		want []string
	}{
		{"a byte is missing", -1, []string{"old"}},
		{"the data is there", 0, []string{"old", "new"}},
		{"a batch of others was begun", 20, []string{"old", "new"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := copyDir(t, dir)
			withoutJournal(t, after)
			outcomes := commitsIn(t, after)
			if len(outcomes) != 2 || len(outcomes[1].parts) != 2 {
				t.Fatalf("%d outcomes", len(outcomes))
			}
			for i := range outcomes[1].parts {
				end := &outcomes[1].parts[i]
				size := end.size // without the marker, or with its beginning
				if end.partition == 1 {
					size += c.more
					end.size += max(0, c.more)
				}
				if err := os.Truncate(filepath.Join(partitionDir(filepath.Join(after, dataDir), "a", end.partition),
					segmentName(end.base)), size); err != nil {
					t.Fatal(err)
				}
			}
			writeOutcomes(t, after, outcomes)
			second := start(t, after)
			for p := range int32(2) {
				wantValues(t, read(t, second, "a", p, committed()), c.want...)
			}
		})
	}
}

// TestTopicDeletedBeforeTheCommit: a topic of a transaction is deleted, after its commit was written down and before
// kfake turned to it. The commit holds for the other one, though the next topic of that name is shorter.
func TestTopicDeletedBeforeTheCommit(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	create(t, b, "b", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	for _, topic := range []string{"a", "b"} {
		raw := inTxn(sequenced(end.ProducerID, end.ProducerEpoch, 0, "v"))
		if p := produceIn(t, b, "x", topic, 0, raw); p.ErrorCode != 0 {
			t.Fatalf("error %d", p.ErrorCode)
		}
	}
	o, _, err := b.txns.prepare(end)
	if err != nil {
		t.Fatal(err)
	}
	b.txns.prepared(o)
	if _, err := kadm.NewClient(client(t, b)).DeleteTopic(testContext(t), "a"); err != nil {
		t.Fatal(err)
	}
	if resp := endTxn(t, b, end, 5); resp.ErrorCode != 0 {
		t.Fatalf("the commit: error %d", resp.ErrorCode)
	}
	create(t, b, "a", 1)
	after := copyDir(t, dir)
	withoutJournal(t, after)
	path := segment0(after, "b", 0)
	cut(t, path, size(t, path)-markerSize)
	wantValues(t, read(t, start(t, after), "b", 0, committed()), "v")
}

// TestOlderOutcomeBehindOneAhead: an outcome that is ahead of its data does not hold. The one before it does, though
// producer and epoch are the same.
func TestOlderOutcomeBehindOneAhead(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 1)
	cl := oldClient(t, b, "x")
	for _, v := range []string{"old", "new"} {
		transact(t, cl, true, rec("a", 0, "k", v))
	}
	after := copyDir(t, dir)
	withoutJournal(t, after)
	outcomes := commitsIn(t, after)
	if len(outcomes) != 2 || outcomes[0].epoch != outcomes[1].epoch {
		t.Fatalf("%d outcomes", len(outcomes))
	}
	end := outcomes[0].parts[0]
	cut(t, filepath.Join(partitionDir(filepath.Join(after, dataDir), "a", 0), segmentName(end.base)), end.size)
	wantValues(t, read(t, start(t, after), "a", 0, committed()), "old")
}

// TestRecordsUpToTheSize: a round takes what a file held when it came to it, and
// so ends however fast others write. A segment that leads to /dev/full has no
// end at all, and once filled the disk with a journal of zeros; /proc/version
// goes beyond its size of 0 as well.
func TestRecordsUpToTheSize(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "x.log")
	if err := os.Symlink("/proc/version", path); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(dir, (*os.File).Sync)
	if err != nil {
		t.Fatal(err)
	}
	defer j.close()
	f := newFollower(target{path, aLog})
	defer f.close()
	if err := f.recordFile(j, path, math.MaxInt64); err != nil || f.end.byte != 0 {
		t.Errorf("recorded %d bytes of 0, %v", f.end.byte, err)
	}
}

// TestWaitAfterClose: an answer that comes late is not taken for a failed disk.
func TestWaitAfterClose(t *testing.T) {
	dir := t.TempDir()
	s, err := newSyncer(dir, nil, &listings{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	s.close()
	path := filepath.Join(dir, "x.log")
	if err := os.WriteFile(path, []byte("late"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(target{path, aLog}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("error %v", err)
	}
}

// TestWrittenWhileSyncing: what is appended to a file after emptyJournal has synced
// it goes to the journal.
func TestWrittenWhileSyncing(t *testing.T) {
	dir := t.TempDir()
	s, err := newSyncer(dir, nil, &listings{}, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	path := filepath.Join(dir, "x.log")
	write := func(what string) {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(what); err != nil {
			t.Fatal(err)
		}
	}
	x := target{path, aLog}
	write("a")
	if err := s.wait(x); err != nil {
		t.Fatal(err)
	}
	meanwhile := sync.OnceFunc(func() { write("b") })
	s.fsync = func(f *os.File) error {
		err := f.Sync()
		if f.Name() == path {
			meanwhile()
		}
		return err
	}
	if err := s.emptyJournal(); err != nil {
		t.Fatal(err)
	}
	if err := s.wait(x); err != nil {
		t.Fatal(err)
	}
	list, err := loadJournal(dir)
	if err != nil || len(list) != 1 || list[0].at != 1 || string(list[0].data) != "b" {
		t.Errorf("the journal has %+v, %v; want b at 1", list, err)
	}
}
