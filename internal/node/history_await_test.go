package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/sinks"
)

// absentHistory answers nothing before an instant.
type absentHistory struct {
	sinks.History
	from  time.Time
	asked int
}

func (h *absentHistory) Progress(context.Context) (map[int32]sinks.Progress, error) {
	h.asked++
	if time.Now().Before(h.from) {
		return nil, errors.New("no such keyspace")
	}
	return nil, nil
}

// A process asks for the history without having an event: in the role history that makes the tables, and
// an API finds them within a second. /readyz names what is waited for.
func TestHistoryIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &absentHistory{from: time.Now().Add(10*time.Second + time.Millisecond)}
		c, err := config.Load(config.Options{Flags: map[string]string{"cassandra.keyspace": "past"}})
		if err != nil {
			t.Fatal(err)
		}
		log := &logtest.Buffer{}
		n := &node{history: h, cfg: c, log: slog.New(slog.NewTextHandler(log, nil))}
		life := newRoles(time.Minute, n.log)
		life.start("history tables", n.awaitHistory)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		said := strings.Join(n.historyNotes(), "")
		if !strings.Contains(said, "keyspace past") || !strings.Contains(said, "role history") ||
			!strings.Contains(said, "no such keyspace") {
			t.Errorf("/readyz says %q", said)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if said := n.historyNotes(); said != nil || h.asked != 12 {
			t.Errorf("/readyz says %q after %d questions", said, h.asked)
		}
		if log.String() != "" { // it made its tables
			t.Errorf("the log has\n%s", log)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if h.asked != 12 {
			t.Errorf("%d questions", h.asked)
		}
		if left := life.end(); left != nil {
			t.Errorf("%v still run", left)
		}
	})
}
