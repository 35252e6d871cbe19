package fold

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/logtest"
)

func logger() (*slog.Logger, *logtest.Buffer) {
	b := &logtest.Buffer{}
	return slog.New(New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelInfo}))), b
}

// A warning that repeats is written at once, and then once for each interval with
// its count, for each broker. When it ends, nothing more is written.
func TestFolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logger()
		for i := range 300 { // 30 s
			for _, addr := range []string{"a:9092", "b:9092"} {
				log.Warn("no connection", "addr", addr, "broker", i%3, "err", errors.New("refused"))
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		for _, addr := range []string{"a:9092", "b:9092"} {
			if n := strings.Count(out.String(), "addr="+addr); n != 4 {
				t.Errorf("%d lines of %s, want 1 at once and one for each of three intervals:\n%s", n, addr, out)
			}
		}
		total := 0
		for rest := out.String(); ; {
			_, after, found := strings.Cut(rest, "repeated=")
			if !found {
				break
			}
			var n int
			fmt.Sscan(after, &n)
			total, rest = total+n, after
		}
		if total != 600-2 {
			t.Errorf("the folded lines count %d, want 598:\n%s", total, out)
		}
		before := len(out.String())
		log.Warn("no connection", "addr", "a:9092")
		if len(out.String()) == before {
			t.Error("a warning after a silence was held back")
		}
		time.Sleep(time.Minute)
	})
}

// Warnings of several partitions become one line that names them.
func TestFoldsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logger()
		for range 5 {
			for p := range 16 {
				log.With("partition", p).Warn("partition failed; opening it again", "error", "fenced")
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("%d lines, want 2:\n%s", n, out)
		}
		if !strings.Contains(out.String(), `repeated=79 within=10s partitions="0 1 10 11`) {
			t.Errorf("the folded line does not name the partitions:\n%s", out)
		}
	})
}

// What is no repetition is written whole: information, other errors, other
// partitions' errors, and the audit.
func TestDoesNotFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, out := logger()
		for i := range 20 {
			log.Info("serving")
			log.Warn("audit", "tenant", "a")
			log.Error("refused", "partition", i)
			log.Error("handler panicked", "error", fmt.Sprint("number ", i))
		}
		if n := strings.Count(out.String(), "\n"); n != 80 {
			t.Errorf("%d lines, want 80", n)
		}
		time.Sleep(time.Minute)
	})
}

// However many different lines there are, so many are followed.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &logtest.Buffer{}
		h := New(slog.NewTextHandler(b, nil))
		log := slog.New(h)
		for i := range 3 * maxLines {
			log.Error("failed", "error", i)
		}
		followed := func() int {
			h.lines.mu.Lock()
			defer h.lines.mu.Unlock()
			return len(h.lines.open)
		}
		if n := followed(); n > maxLines {
			t.Errorf("%d lines are followed", n)
		}
		time.Sleep(time.Minute)
		if n := followed(); n > 0 {
			t.Errorf("%d lines are followed after a minute of silence", n)
		}
	})
}
