package engine

import (
	"slices"
	"testing"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
)

// TestNewestGroup checks that a slow receiver gets the last description of the group, and that the
// sender never waits.
func TestNewestGroup(t *testing.T) {
	groups := make(chan group, 1)
	for _, name := range []string{"first", "second", "third"} {
		newest(groups, group{me: name})
	}
	if g := <-groups; g.me != "third" || len(groups) > 0 {
		t.Errorf("received %q, and %d more wait", g.me, len(groups))
	}
}

// TestMeasuredPartitions checks that the lag of every partition that is shown is measured, and no
// other: 64 members would each ask for all partitions every second.
func TestMeasuredPartitions(t *testing.T) {
	e := &Engine{
		process: &pipeline.Process{}, owned: map[int32]*ownership{2: {}}, lost: map[int32]*ownership{0: {}},
	}
	e.process.Partitions, e.process.Names = 4, topics.Names{Prefix: "wc."}
	var ids []int32
	for _, at := range e.measured() {
		ids = append(ids, at.Partition)
		if at.Topic != "wc.commands" {
			t.Errorf("measures %v", at)
		}
	}
	if !slices.Equal(ids, []int32{0, 2}) {
		t.Errorf("measures partitions %v, want 0 and 2", ids)
	}
}
