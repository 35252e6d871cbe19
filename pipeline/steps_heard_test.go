package pipeline_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestStepsAreHeard: a turn passes every step that there is, in order. A step that
// is not passed any more would be watched in vain.
func TestStepsAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		var mu sync.Mutex
		var heard []string
		w.OnStep(func(_ string, _ int32, step string) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, step)
		})
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(time.Second)
		mu.Lock()
		heard = heard[:0]
		mu.Unlock()
		w.Register("k", time.Now())
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		turn := []pipeline.Step{
			pipeline.StepBegin, pipeline.StepApply, pipeline.StepAdvance, pipeline.StepEmit,
			pipeline.StepFlush, pipeline.StepEnd, pipeline.StepCommitted, pipeline.StepStored, pipeline.StepPoll,
		}
		at := 0
		for _, step := range heard {
			if at < len(turn) && step == string(turn[at]) {
				at++
			}
		}
		if at < len(turn) {
			t.Errorf("%s was not passed in its order: %q", turn[at], heard)
		}
	})
}

// TestWaitingForDueTopic: an engine does not end itself because brokers say
// nothing of a due topic in the middle of a turn.
func TestWaitingForDueTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string,
			o *pipeline.Options,
		) {
			o.HangAfter = time.Second
		}})
		a := w.Start("a")
		w.AwaitOwners()
		for _, channel := range []string{"x", "y", "z"} { // each may wait for itself
			w.SendTo(0, "k-"+channel, `{"op":"register","delay":"20500ms","channel":"`+channel+`"}`)
		}
		time.Sleep(10 * time.Second)
		silent := true
		w.Cluster.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			about := req.(*kmsg.MetadataRequest).Topics
			return nil, nil, silent && len(about) == 1 && about[0].Topic != nil &&
				strings.Contains(*about[0].Topic, ".due.")
		})
		time.Sleep(20 * time.Second)
		silent = false
		time.Sleep(2 * time.Minute)
		if w.Node("a") != a || len(a.Engine.Partitions()) != 1 || !a.Engine.Ready() {
			t.Error("the engine has given up")
		}
		for _, channel := range []string{"x", "y", "z"} {
			if n := len(w.Dump(w.Names.Due(channel))); n != 1 {
				t.Errorf("%d due events on channel %s, want 1", n, channel)
			}
		}
	})
}
