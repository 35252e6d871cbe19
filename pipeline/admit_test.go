package pipeline

import (
	"testing"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// While a member of the group cannot read steps, a register with some is refused:
// that member could own the partition next. What stands there already goes on.
func TestEscalationAmongVersions(t *testing.T) {
	for name, c := range map[string]struct {
		agreed, stands topics.Format
		steps          int
		refused        bool
	}{
		"without steps":             {topics.Oldest, topics.Oldest, 0, false},
		"all read it":               {topics.Deliveries, topics.Oldest, 2, false},
		"one does not":              {topics.Oldest, topics.Oldest, 2, true},
		"such states stand already": {topics.Oldest, topics.Deliveries, 2, false},
	} {
		o := &Process{}
		o.AgreeOn(c.agreed)
		p := &Partition{opts: o, progress: topics.Progress{Format: c.stands}}
		spec := &trigger.Spec{Escalation: make([]trigger.Step, c.steps)}
		if err := p.admitVersion(spec); (err != nil) != c.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
