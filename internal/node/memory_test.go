package node

import (
	"log/slog"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkaconn"
	"github.com/waterclock/waterclock/internal/memory"
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
	want, o := memory.Share(700<<20, 16, 0), n.engineOptions()
	if o.MemTableBytes != want.MemTable || o.OutcomeMemory != want.Outcomes || o.ForwardMemory != want.Outbox ||
		o.FetchBytes != want.Fetch || o.Pressed == nil || o.Pressed() {
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
		n, err := newNode(Options{Config: cfg, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		n.shareMemoryOfDev()
		if got := n.engineOptions().MemTableBytes; got != c.want {
			t.Errorf("store.cache %s: one memtable has %d bytes, want %d", c.cache, got, c.want)
		}
	}
}
