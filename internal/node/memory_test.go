package node

import (
	"log/slog"
	"reflect"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/memory"
	"github.com/waterclock/waterclock/sinks"
)

// TestMemoryIsShared: the limit reaches the Go runtime, and its shares reach
// the engine.
func TestMemoryIsShared(t *testing.T) {
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(was) })
	c, err := config.Load(config.Options{Env: []string{
		"WATERCLOCK_MEMORY_LIMIT=700MiB", "WATERCLOCK_TOPICS_PARTITIONS=16",
		"WATERCLOCK_DATA_DIR=" + t.TempDir(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != 700<<20 {
		t.Errorf("the Go runtime has a limit of %d", got)
	}
	want, o := n.shares, n.engineOptions()
	if o.MemTableBytes != int(want.MemTable) || o.OutcomeMemory != int(want.Outcomes) ||
		o.ForwardMemory != int(want.Outbox) || o.FetchBytes != int(want.Fetch) || o.TimerMemory != want.Timers ||
		o.DecodedBytes != int(want.Decoded) || o.Pressed == nil || o.Pressed() {
		t.Errorf("the engine has %+v, want %+v", o, want)
	}
	if wait, _ := n.overloaded(); wait != 0 || n.notes() != nil {
		t.Errorf("calm, but %v %v", wait, n.notes())
	}
	n.memory = memory.NewWatcher(1 << 20) // less than any process uses
	if wait, why := n.overloaded(); wait == 0 || why == "" {
		t.Error("full, and nothing is shed")
	}
	if notes := strings.Join(n.notes(), ""); !strings.Contains(notes, "of 1 MiB") || !strings.Contains(notes, "429") {
		t.Errorf("notes: %q", notes)
	}
}

// TestThrottledByAQuota: one answer that pauses the clients for long is worth a word to probes and to callers.
func TestThrottledByAQuota(t *testing.T) {
	n := &node{throttle: kafkaconn.NewThrottle(nil, nil)}
	n.throttle.OnBrokerThrottle(kgo.BrokerMetadata{}, 400*time.Millisecond, true)
	if why := n.throttledWhy(); why != "" {
		t.Errorf("a short pause: %s", why)
	}
	n.throttle.OnBrokerThrottle(kgo.BrokerMetadata{}, 5*time.Second, true)
	if why := n.throttledWhy(); !strings.Contains(why, "a quota of Kafka") || !strings.Contains(why, "5s") {
		t.Errorf("a long one: %q", why)
	}
}

// TestMemtablesOfDev: they are small, unless the operator chose the size of the cache.
func TestMemtablesOfDev(t *testing.T) {
	for _, c := range []struct {
		cache string
		want  int
	}{{"auto", 4 << 20}, {"256MiB", 16 << 20}, {"32MiB", 2 << 20}} {
		cfg, err := config.Load(config.Options{Dev: true, Env: []string{
			"WATERCLOCK_STORE_CACHE=" + c.cache, "WATERCLOCK_DATA_DIR=" + t.TempDir(),
		}})
		if err != nil {
			t.Fatal(err)
		}
		n, err := newNode(Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)}, kgo.ClientID("embedded"))
		if err != nil {
			t.Fatal(err)
		}
		if got := n.engineOptions().MemTableBytes; got != c.want {
			t.Errorf("store.cache %s: one memtable has %d bytes, want %d", c.cache, got, c.want)
		}
	}
}

// sharesOf starts a process of these settings as far as its options.
func sharesOf(t *testing.T, env ...string) *node {
	t.Helper()
	was := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(was) })
	c, err := config.Load(config.Options{Env: append(env, "WATERCLOCK_DATA_DIR="+t.TempDir())})
	if err != nil {
		t.Fatal(err)
	}
	n, err := newNode(Options{Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRolesShareTheLimit: what a process has beside an engine takes from the same limit, and each part
// is given its bound.
func TestRolesShareTheLimit(t *testing.T) {
	const limit = 256 << 20
	alone := sharesOf(t, "WATERCLOCK_MEMORY_LIMIT=256MiB", "WATERCLOCK_ROLES=engine")
	n := sharesOf(t, "WATERCLOCK_MEMORY_LIMIT=256MiB", "WATERCLOCK_BROKERS=a:1,b:1,c:1",
		"WATERCLOCK_ROLES=engine,api,history,webhook,push,export", "WATERCLOCK_OUTBOX_DIR="+t.TempDir(),
		"WATERCLOCK_EXPORT_DIR="+t.TempDir(), "WATERCLOCK_CASSANDRA_HOSTS=d:1", "WATERCLOCK_EXPORT_PLAIN_USERS=true")
	if n.shares.Cache >= alone.shares.Cache || n.shares.Sum(partsOf(n.cfg, false)) > limit*2/3 {
		t.Errorf("an engine alone has %+v, beside other roles %+v", alone.shares, n.shares)
	}
	s := n.shares
	g := &gateway.Options{}
	n.boundReads(g)
	if g.PagesInFlight != min(s.Pages, 32<<20) || g.BodiesInFlight != s.Bodies || g.LinesInFlight != s.Lines ||
		g.CommandBytes != int(s.Commands) || g.StreamBytes != int32(s.Stream) || s.Stream == 0 {
		t.Errorf("the API has %+v, want %+v", g, s)
	}
	if o := n.reader("t", "g", sinks.Hooks{}); o.MaxBuffered != int32(s.Read) || o.MaxBytes != int(s.Read) ||
		s.Read == 0 || s.Read > 4<<20 {
		t.Errorf("a reader of the history has %+v, want %+v", o, s)
	}
	if o := n.contentReader(); o.MaxBuffered != int32(s.Read) {
		t.Errorf("the reader of contents has %+v, want %+v", o, s)
	}
	cl, err := kgo.NewClient(n.exportClient()...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if got := cl.OptValue(kgo.FetchMaxBytes); got != int32(s.ExportFetch) || s.ExportFetch == 0 || s.Folded == 0 {
		t.Errorf("a fetch of the export has %v, want %+v", got, s)
	}
	for _, channel := range []string{"webhook", "push"} {
		kit := kitOf(n.kitOptions(channel))
		if kit("bufferBytes") != s.Buffer || kit("fetchBytes") != s.WorkerFetch || kit("memory") != s.Receipts ||
			kit("bufferRecords") == 0 || s.Buffer == 0 {
			t.Errorf("the worker of %s has a buffer of %d and fetches of %d bytes, want %+v", channel,
				kit("bufferBytes"), kit("fetchBytes"), s)
		}
	}
	if got := tableShare(n.cfg); got == 0 || got >= 16<<20 {
		t.Errorf("a memtable of an embedded history has %d bytes", got)
	}
	n.memory = memory.NewWatcher(0)
	if got := n.engineOptions().DecodedBytes; got != 0 {
		t.Errorf("without a limit %d bytes may be decoded, and not as many as limits.batch_bytes", got)
	}
}

// kitOf returns what options of the worker kit say: the kit shows it to nobody.
func kitOf(opts []worker.Option) func(field string) int64 {
	kit := reflect.New(reflect.TypeFor[worker.Option]().In(0).Elem())
	for _, o := range opts {
		reflect.ValueOf(o).Call([]reflect.Value{kit})
	}
	return func(field string) int64 { return kit.Elem().FieldByName(field).Int() }
}
