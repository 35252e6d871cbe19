package pipeline_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/logtest"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// The log says, without being asked for details, who takes a partition from whom.
func TestTakeOverIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Buffer
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(name string, o *pipeline.Options) {
			if name == "b" {
				o.Logger = slog.New(slog.NewTextHandler(&log, nil))
			}
		}})
		w.Start("a")
		w.AwaitOwners()
		w.Register("k", time.Now().Add(time.Hour))
		time.Sleep(5 * time.Second)
		w.Kill("a")
		w.Start("b")
		w.AwaitOwners()
		for _, want := range []string{
			`msg="taking the partition over"`, "from=a", "term=2",
			`msg="the partition is open"`, "after=",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, log.String())
			}
		}
	})
}
