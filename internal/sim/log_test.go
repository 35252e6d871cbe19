package sim_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/plugin/kslog"

	"github.com/waterclock/waterclock/internal/fold"
	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// The log of a week full of faults must be readable. Nodes run for some minutes of it, with a
// fault every few seconds. The log of a day, from all nodes together, must fit on a few pages.
func TestLogOfABadWeek(t *testing.T) {
	for seed := range uint64(2) {
		folded, raw := badWeek(t, seed, fold.New), badWeek(t, seed, func(h slog.Handler) *fold.Handler { return nil })
		days := byDay(folded)
		for day, n := range days {
			if n > linesADay {
				t.Errorf("seed %d: %d lines on day %s, want at most %d", seed, n, day, linesADay)
			}
		}
		t.Logf("seed %d: %d lines, %d without folding; by day %v", seed, strings.Count(folded, "\n"),
			strings.Count(raw, "\n"), days)
		if !strings.Contains(folded, "partitions gained") || !strings.Contains(folded, "repeated=") {
			t.Error("this judged nothing")
		}
	}
}

const linesADay = 150

func badWeek(t *testing.T, seed uint64, with func(slog.Handler) *fold.Handler) string {
	t.Helper()
	out := &logtest.Buffer{}
	synctest.Test(t, func(t *testing.T) {
		h := slog.Handler(slog.NewTextHandler(out, nil))
		if f := with(h); f != nil {
			h = f
		}
		var mu sync.Mutex
		clients := map[string]kgo.Opt{}
		o := sim.LiveWith(t, sim.Plan{Seed: seed, Partitions: 4}, func(node string, o *pipeline.Options) {
			mu.Lock()
			defer mu.Unlock()
			log := slog.New(h).With("node", node)
			o.Logger = log
			if clients[node] == nil {
				clients[node] = kgo.WithLogger(kslog.New(slog.New(warnings{h}).With("node", node)))
			}
			o.Kafka = append(o.Kafka, clients[node])
		})
		for _, v := range o.Violations {
			t.Error(v)
		}
		time.Sleep(2 * fold.Interval)
	})
	return out.String()
}

// warnings drops what the Kafka client logs at level info, as a process does.
type warnings struct{ slog.Handler }

func (w warnings) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (w warnings) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnings{w.Handler.WithAttrs(attrs)}
}

// byDay counts log lines by the day of their time.
func byDay(log string) map[string]int {
	days := map[string]int{}
	for line := range strings.Lines(log) {
		if day, _, ok := strings.Cut(strings.TrimPrefix(line, "time="), "T"); ok {
			days[day]++
		}
	}
	return days
}
