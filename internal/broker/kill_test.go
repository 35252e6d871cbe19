package broker

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	txn "github.com/waterclock/waterclock/internal/producer" // broker has a producer of its own
)

var killsFlag = flag.Int("kills", 0,
	"how often TestKill kills the broker, half with fsync and half without; 0: 200, with -short 20, in a soak 1,000")

func kills() int {
	switch {
	case *killsFlag > 0:
		return *killsFlag
	case testing.Short():
		return 20
	case os.Getenv("WATERCLOCK_TEST_SOAK") != "":
		return 1000
	}
	return 200
}

// childDir makes the test binary a broker on that directory instead.
const childDir = "BROKER_TEST_CHILD_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	os.Exit(m.Run())
}

// child serves until its standard input ends, which is when its parent dies,
// and says where.
func child(dir string) int {
	b, err := Start(context.Background(), Options{
		Dir: dir, Listen: os.Getenv("BROKER_TEST_LISTEN"), Sync: os.Getenv("BROKER_TEST_SYNC") == "1",
		Logger: childLog(), SegmentBytes: 64 << 10, CompactBytes: 4 << 10,
	})
	if err != nil {
		fmt.Println("error", err)
		return 1
	}
	fmt.Println("addr", b.Addr())
	io.Copy(io.Discard, os.Stdin)
	return 0
}

type process struct {
	cmd  *exec.Cmd
	addr string
	in   io.Closer
}

func spawn(t *testing.T, dir, listen string, sync bool) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, "BROKER_TEST_LISTEN="+listen)
	if sync {
		cmd.Env = append(cmd.Env, "BROKER_TEST_SYNC=1")
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "addr ")
	if !ok {
		cmd.Process.Kill()
		t.Fatalf("broker did not start: %s", line)
	}
	return &process{cmd, addr, in}
}

func (p *process) kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// ledger is what the writers know: transaction n of writer w was acknowledged
// as committed, aborted, or nothing was heard.
type ledger struct {
	mu        sync.Mutex
	committed map[string]bool
	aborted   map[string]bool
	plain     map[string]int64 // acknowledged plain records and their offsets
	offsets   map[string]int64 // the last acknowledged offset commit by partition
}

// txnParts is how many partitions a transaction spans: the more, the likelier
// a kill falls between two of its markers.
const txnParts = 12

// TestKill kills the broker again and again while transactions, plain
// produces and offset commits are under way. Killing a process loses nothing
// that was written, so it holds with and without fsync.
func TestKill(t *testing.T) {
	for _, c := range []struct {
		name string
		sync bool
	}{
		{"synced", true},
		{"not synced", false},
	} {
		t.Run(c.name, func(t *testing.T) { killLoop(t, c.sync) })
	}
}

func killLoop(t *testing.T, fsync bool) {
	dir := t.TempDir()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, -kills %d", seed, kills())
	rnd := rand.New(rand.NewPCG(seed, 1))
	l := &ledger{
		committed: map[string]bool{}, aborted: map[string]bool{}, plain: map[string]int64{},
		offsets: map[string]int64{},
	}

	p := spawn(t, dir, "127.0.0.1:0", fsync)
	defer func() { p.kill() }()
	setup(t, p.addr)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() { l.transact(ctx, p.addr, w, rand.New(rand.NewPCG(seed, uint64(w)+2))) })
	}
	wg.Go(func() { l.pump(ctx, p.addr) })
	for range kills() / 2 {
		time.Sleep(time.Duration(20+rnd.IntN(230)) * time.Millisecond)
		p.kill()
		p = spawn(t, dir, p.addr, fsync)
	}
	l.more(t, 20)
	cancel()
	wg.Wait()
	p.kill() // whatever the writers left open ends now
	p = spawn(t, dir, p.addr, fsync)
	l.verify(t, p.addr)
}

func setup(t *testing.T, addr string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	s := func(v string) *string { return &v }
	for topic, configs := range map[string]map[string]*string{
		"txn":   {"message.timestamp.type": s("LogAppendTime")},
		"plain": {"message.timestamp.type": s("LogAppendTime")},
		"state": {"cleanup.policy": s("compact")},
	} {
		parts := int32(3)
		if topic == "txn" {
			parts = txnParts
		}
		if _, err := adm.CreateTopic(testContext(t), parts, 1, configs, topic); err != nil {
			t.Fatal(err)
		}
	}
}

func killClient(addr string, opts ...kgo.Opt) *kgo.Client {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RetryBackoffFn(func(int) time.Duration { return 5 * time.Millisecond }),
		kgo.RetryTimeout(3 * time.Second),
		kgo.TransactionTimeout(10 * time.Second),
	}, opts...)...)
	if err != nil {
		panic(err)
	}
	return cl
}

// transact writes transactions until ctx ends: one record to each partition
// of txn, one to state, and sometimes an abort.
func (l *ledger) transact(ctx context.Context, addr string, w int, rnd *rand.Rand) {
	for n := 0; ctx.Err() == nil; {
		cl := killClient(addr, kgo.TransactionalID("writer-"+strconv.Itoa(w)))
		for ctx.Err() == nil {
			n++
			if err := l.one(ctx, cl, fmt.Sprintf("%d-%d", w, n), w, rnd.IntN(5) == 0); err != nil {
				break
			}
		}
		cl.CloseAllowingRebalance()
	}
}

func (l *ledger) one(ctx context.Context, cl *kgo.Client, id string, w int, abort bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	recs := []*kgo.Record{{Topic: "state", Partition: int32(w), Key: []byte(id[len(id)-1:]), Value: []byte(id)}}
	for p := range int32(txnParts) {
		recs = append(recs, &kgo.Record{Topic: "txn", Partition: p, Key: []byte(id), Value: []byte(id)})
	}
	if err := cl.ProduceSync(ctx, recs...).FirstErr(); err != nil {
		cl.EndTransaction(ctx, kgo.TryAbort)
		return err
	}
	if err := txn.EndTransaction(ctx, cl, kgo.TransactionEndTry(!abort), recs...); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if abort {
		l.aborted[id] = true
	} else {
		l.committed[id] = true
	}
	return nil
}

// pump produces plain records one after another, and commits offsets.
func (l *ledger) pump(ctx context.Context, addr string) {
	cl := killClient(addr, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(1))
	defer cl.CloseAllowingRebalance()
	adm := kadm.NewClient(cl)
	for n := int64(0); ctx.Err() == nil; n++ {
		r := &kgo.Record{Topic: "plain", Partition: int32(n % 3), Value: []byte(strconv.FormatInt(n, 10))}
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		if cl.ProduceSync(short, r).FirstErr() == nil {
			l.mu.Lock()
			l.plain[string(r.Value)] = r.Offset
			l.mu.Unlock()
		}
		var os kadm.Offsets
		os.AddOffset("plain", 0, n, -1)
		if err := adm.CommitAllOffsets(short, "pump", os); err == nil {
			l.mu.Lock()
			l.offsets["plain-0"] = n
			l.mu.Unlock()
		}
		cancel()
	}
}

// more waits until n further transactions were committed.
func (l *ledger) more(t *testing.T, n int) {
	t.Helper()
	count := func() int {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.committed)
	}
	for want, end := count()+n, time.Now().Add(30*time.Second); count() < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("writers stand still after the last kill")
		}
	}
}

func (l *ledger) verify(t *testing.T, addr string) {
	t.Helper()
	b := &Broker{addr: addr}
	seen := map[string][]int32{}
	for p := range int32(txnParts) {
		for _, r := range read(t, b, "txn", p, committed()) {
			seen[string(r.Value)] = append(seen[string(r.Value)], p)
			if r.Attrs.TimestampType() != 1 {
				t.Fatalf("record %d of txn/%d has no append time", r.Offset, p)
			}
		}
	}
	for id := range l.committed {
		if len(seen[id]) == 0 {
			t.Errorf("lost: committed transaction %s", id)
		}
	}
	unknown := 0
	for id, parts := range seen {
		if slices.Sort(parts); len(slices.Compact(parts)) != txnParts || len(parts) != txnParts {
			t.Errorf("torn: transaction %s is in partitions %v", id, parts)
		}
		if l.aborted[id] {
			t.Errorf("resurrected: aborted transaction %s", id)
		}
		if !l.committed[id] {
			unknown++
		}
	}
	l.verifyPlain(t, b)
	l.verifyState(t, b, seen)
	l.verifyOffsets(t, b)
	t.Logf("%d committed, %d aborted, %d plain acknowledged; %d transactions committed without an answer",
		len(l.committed), len(l.aborted), len(l.plain), unknown)
}

func (l *ledger) verifyPlain(t *testing.T, b *Broker) {
	t.Helper()
	at := map[string]int64{}
	for p := range int32(3) {
		for _, r := range read(t, b, "plain", p) {
			at[fmt.Sprintf("%s@%d", r.Value, r.Offset)] = r.Offset
		}
	}
	for v, off := range l.plain {
		if _, ok := at[fmt.Sprintf("%s@%d", v, off)]; !ok {
			t.Errorf("lost: plain record %s acknowledged at offset %d", v, off)
		}
	}
}

// verifyState checks the compacted topic: the newest committed record of each
// key is there, and nothing of a transaction that txn does not show.
func (l *ledger) verifyState(t *testing.T, b *Broker, seen map[string][]int32) {
	t.Helper()
	for w := range int32(3) {
		newest := map[string]string{}
		for _, r := range read(t, b, "state", w, committed()) {
			newest[string(r.Key)] = string(r.Value)
			if len(seen[string(r.Value)]) == 0 {
				t.Errorf("torn: state has %s, txn has not", r.Value)
			}
		}
		want := map[string]int{}
		for id := range seen {
			writer, n, _ := strings.Cut(id, "-")
			num, _ := strconv.Atoi(n)
			if key := id[len(id)-1:]; writer == strconv.Itoa(int(w)) {
				want[key] = max(want[key], num)
			}
		}
		for key, n := range want {
			if id := fmt.Sprintf("%d-%d", w, n); newest[key] != id {
				t.Errorf("state of key %s is %s, want %s", key, newest[key], id)
			}
		}
	}
}

func (l *ledger) verifyOffsets(t *testing.T, b *Broker) {
	t.Helper()
	os, err := kadm.NewClient(client(t, b)).FetchOffsets(testContext(t), "pump")
	if err != nil {
		t.Fatal(err)
	}
	o, _ := os.Lookup("plain", 0)
	if o.At < l.offsets["plain-0"] {
		t.Errorf("lost: group offset %d, acknowledged %d", o.At, l.offsets["plain-0"])
	}
	if raw, _ := json.Marshal(o); o.Err != nil {
		t.Errorf("group offset: %s", raw)
	}
}

// childLog writes what a start repaired to standard error, if asked to.
func childLog() *slog.Logger {
	if os.Getenv("BROKER_TEST_LOG") == "" {
		return quiet
	}
	return slog.New(slog.NewTextHandler(os.Stderr, nil))
}
