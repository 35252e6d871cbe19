package broker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kfake"
)

// first is the first error of its kind.
type first struct {
	mu   sync.Mutex
	err  error
	done chan struct{} // closed when there is one
}

func newFirst() *first { return &first{done: make(chan struct{})} }

func (f *first) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// set keeps the first error.
func (f *first) set(err error) (isFirst bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err != nil {
		return false
	}
	f.err = err
	close(f.done)
	return true
}

// fatal is the first error that stopped the broker.
type fatal struct {
	*first
	onFail func(error) // Options.OnFatal
	log    *slog.Logger
}

// set keeps the first error, and tells of it.
func (f *fatal) set(err error) (isFirst bool) {
	stopped := fmt.Errorf("broker stopped, its disk failed: %w", err)
	if !f.first.set(stopped) {
		return false
	}
	f.log.Error("broker stopped: its disk failed, restart it when that is repaired", "error", err)
	if f.onFail != nil {
		go f.onFail(stopped)
	}
	return true
}

// fail stops serving. It may be called from kfake's loop, so it asks kfake
// nothing.
func (b *node) fail(err error) {
	if !b.stopped(err) {
		return
	}
	go func() {
		b.doors.Close()
		b.conns.closeAll()
	}()
}

// Logf takes kfake's log. kfake goes on after a failed write as if nothing
// had happened, and says so only here: before it answers.
func (b *node) Logf(level kfake.LogLevel, format string, args ...any) {
	if err := writeError(format, args); err != nil {
		b.fail(err)
		return
	}
	if strings.HasPrefix(format, "txn timeout abort: txn_id=%s producer_id=%d epoch=%d ") {
		pid, ok := args[1].(int64)
		epoch, fine := args[2].(int16)
		if ok && fine {
			b.txns.timedOut(pid, epoch) // we are in its loop, before it acts
		}
	}
	if strings.HasPrefix(format, "txn: EndTxn slow") {
		level = kfake.LogLevelInfo // 5 ms are nothing on a busy machine
	}
	if l, ok := levels[level]; ok {
		b.log.Log(context.Background(), l, "kafka: "+fmt.Sprintf(format, args...))
	}
}

// kfake's information is one line a request, so it counts as debugging.
var levels = map[kfake.LogLevel]slog.Level{
	kfake.LogLevelError: slog.LevelError,
	kfake.LogLevelWarn:  slog.LevelWarn,
	kfake.LogLevelInfo:  slog.LevelDebug,
}

// writeError returns the error of a message about a file that could not be
// written: those name an *fs.PathError, or begin like kfake's messages.
func writeError(format string, args []any) error {
	about := strings.HasPrefix(format, "persist ") || strings.HasPrefix(format, "compact ") ||
		strings.HasPrefix(format, "endTx: failed") || strings.HasPrefix(format, "save session")
	for _, a := range args {
		err, ok := a.(error)
		if !ok {
			continue
		}
		var pe *fs.PathError
		if about || errors.As(err, &pe) {
			return fmt.Errorf(strings.ReplaceAll(format, "%v", "%w"), args...)
		}
	}
	if about {
		return fmt.Errorf(format, args...)
	}
	return nil
}
