package broker

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// held makes fsync wait: each call reports on began and then waits for release.
func held(t *testing.T, b *Broker) (began chan string, release func()) {
	began = make(chan string, 100)
	free := make(chan struct{})
	release = sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	b.syncer.fsync = func(f *os.File) error {
		began <- f.Name()
		<-free
		return f.Sync()
	}
	return began, release
}

// TestAnswersWaitForTheDisk: nothing is acknowledged, and nothing new is
// shown, while its fsync is under way.
func TestAnswersWaitForTheDisk(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Broker, cl *kgo.Client) error
	}{
		{"produce", func(t *testing.T, _ *Broker, cl *kgo.Client) error {
			return cl.ProduceSync(testContext(t), rec("a", 0, "k", "v")).FirstErr()
		}},
		{"offset commit", func(t *testing.T, _ *Broker, cl *kgo.Client) error {
			var os kadm.Offsets
			os.AddOffset("a", 0, 1, -1)
			return kadm.NewClient(cl).CommitAllOffsets(testContext(t), "g", os)
		}},
		{"transaction", func(t *testing.T, _ *Broker, cl *kgo.Client) error {
			transact(t, cl, true, rec("a", 0, "k", "v"))
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 1)
			cl := client(t, b)
			if c.name == "transaction" {
				cl = client(t, b, kgo.TransactionalID("x"))
				transact(t, cl, true, rec("a", 0, "k", "0"))
			} else {
				produce(t, cl, rec("a", 0, "k", "0")) // connections and files are open
			}
			other := client(t, b) // cl's answers wait in line
			if err := other.Ping(testContext(t)); err != nil {
				t.Fatal(err)
			}
			began, release := held(t, b)
			done := make(chan error, 1)
			go func() { done <- c.do(t, b, cl) }()
			name := <-began
			for range 20 { // time enough for an answer that does not wait
				if err := other.Ping(testContext(t)); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case err := <-done:
				t.Errorf("answered (%v) before %s was synced", err, name)
			default:
			}
			release()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFailedSync: an fsync that fails may have lost what it was to keep, so
// there is no second try.
func TestFailedSync(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	broken := errors.New("the disk is on fire")
	b.syncer.fsync = func(*os.File) error { return broken }
	if err := brief(t, b, kgo.DisableIdempotentWrite()).ProduceSync(testContext(t),
		rec("a", 0, "k", "v")).FirstErr(); err == nil {
		t.Error("acknowledged what was not synced")
	}
	<-b.Fatal()
	if !errors.Is(b.Err(), broken) {
		t.Errorf("stopped by %v", b.Err())
	}
}

// TestReadersWaitForTheDisk: what a reader sees cannot be lost any more.
func TestReadersWaitForTheDisk(t *testing.T) {
	b := start(t, t.TempDir())
	create(t, b, "a", 1)
	reader := client(t, b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"a": {0: kgo.NewOffset().AtStart()}}))
	produce(t, client(t, b), rec("a", 0, "k", "0"))
	if fs := reader.PollFetches(testContext(t)); fs.Err() != nil {
		t.Fatal(fs.Err())
	}
	writer := client(t, b, kgo.DisableIdempotentWrite())
	if err := writer.Ping(testContext(t)); err != nil {
		t.Fatal(err)
	}
	began, release := held(t, b)
	written := make(chan error, 1)
	go func() { written <- writer.ProduceSync(testContext(t), rec("a", 0, "k", "1")).FirstErr() }()
	<-began // kfake has it, and has woken the reader
	seen := make(chan kgo.Fetches, 1)
	go func() { seen <- reader.PollFetches(testContext(t)) }()
	other := client(t, b)
	for range 20 {
		if err := other.Ping(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case fs := <-seen:
		t.Fatalf("read %q before it was synced", values(fs.Records()))
	case <-written:
		t.Fatal("acknowledged before it was synced")
	default:
	}
	release()
	if err := <-written; err != nil {
		t.Error(err)
	}
	wantValues(t, (<-seen).Records(), "1")
}

// TestReadersSyncOnce: what nobody waits for is made durable for the first who reads, and not for everybody after.
func TestReadersSyncOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, b *Broker)
	}{
		{"timeout", func(t *testing.T, b *Broker) {
			cl := client(t, b, kgo.TransactionalID("x"), kgo.TransactionTimeout(200*time.Millisecond))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce(t, cl, rec("a", 0, "k", "v"))
			read(t, b, "a", 0, committed()) // returns once it has timed out
		}},
		{"refused init", func(t *testing.T, b *Broker) {
			cl := client(t, b, kgo.TransactionalID("x"))
			if err := cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			produce(t, cl, rec("a", 0, "k", "v"))
			if err := initX(t, b, time.Hour); err == nil {
				t.Error("a timeout of an hour was accepted")
			}
		}},
		{"marker of an operator", func(t *testing.T, b *Broker) { writeMarker(t, b) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t, t.TempDir())
			create(t, b, "a", 1)
			c.do(t, b)
			adm := kadm.NewClient(client(t, b))
			ends := func() {
				if _, err := adm.ListEndOffsets(testContext(t), "a"); err != nil {
					t.Fatal(err)
				}
			}
			ends()
			var syncs atomic.Int64
			fsync := b.syncer.fsync
			b.syncer.fsync = func(f *os.File) error {
				syncs.Add(1)
				return fsync(f)
			}
			ends()
			if n := syncs.Load(); n > 0 {
				t.Errorf("%d syncs for a reader of what is on disk", n)
			}
		})
	}
}

// TestOffsetsSurviveAPowerCutAfterAStart: a process was killed when the offsets of a transaction were in the page cache
// alone. The start that finds them there empties the outcome log, so it syncs them before.
func TestOffsetsSurviveAPowerCutAfterAStart(t *testing.T) {
	b := start(t, t.TempDir(), unsynced)
	create(t, b, "a", 1)
	end := endOf(t, client(t, b, kgo.TransactionalID("x")))
	writeIn(t, b, end, 0, 0, "v")
	addOffset(t, b, end, "g", 1)
	commitX(t, b, end)
	eventually(t, "the offsets are written", func() bool { return len(commitsOf(t, b, "g")) == 1 })
	killed := copyDir(t, b.opts.Dir)

	var durable []byte // of groups.log
	known := int64(-1) // size of the outcome log when groups.log was synced first
	b = start(t, killed, func(o *Options) {
		o.fsync = func(f *os.File) error {
			if filepath.Base(f.Name()) != "groups.log" {
				return nil
			}
			if known < 0 {
				known = outcomes(t, killed)
			}
			var err error
			durable, err = os.ReadFile(f.Name())
			return err
		}
	})
	wantOffset(t, b, "g", "a", 1)
	if known <= int64(len(outcomeMagic)) {
		t.Errorf("the outcome log had %d bytes when groups.log was synced: nobody knew of the offsets", known)
	}
	cut := copyDir(t, killed)
	if err := os.WriteFile(filepath.Join(cut, dataDir, "groups.log"), durable, 0o600); err != nil {
		t.Fatal(err)
	}
	wantOffset(t, start(t, cut), "g", "a", 1)
}
