package pipeline_test

import (
	"maps"
	"sync"
	"testing"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// commandsHeard counts what the engine tells of commands.
type commandsHeard struct {
	pipeline.NoListener
	mu  sync.Mutex
	all map[string]int
}

func (c *commandsHeard) Command(op, result string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[op+" "+result]++
}

// A refusal is told with its op wherever the op can be read.
func TestRefusalsAreReportedWithTheirOp(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	heard := &commandsHeard{all: map[string]int{}}
	w.Start("a", func(o *pipeline.Options) { o.Listener = heard })
	rejected := w.Tail(w.Names.Rejected())
	w.Send("k", `{"op":"register","delay":"1h"}`)
	w.Send("k", `{"op":"snooze","fro":"5m"}`)
	w.Send("k", `{"op":"register","delay":"1h","fire_at":"2030-01-01T00:00:00Z"}`)
	w.Send("k", `{"op":"resmue"}`)
	w.Send("k", `garbage`)
	w.Receipt("k", `{`)
	rejected.Take(5)
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{
		"register ok": 1, "snooze unknown_field": 1, "register conflicting_time": 1,
		" unknown_op": 1, " not_a_command": 1, " invalid": 1,
	}
	if !maps.Equal(heard.all, want) {
		t.Errorf("told of %v, want %v", heard.all, want)
	}
}
