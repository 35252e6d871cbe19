package pipeline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/pipeline/quota"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/trigger"
)

// TestCountPending: an opening counts what is pending without reading a state, because reading
// millions takes minutes. The states here cannot be read.
func TestCountPending(t *testing.T) {
	st := memStore(t)
	b := st.NewBatch()
	put := func(key trigger.Key, forgetAt trigger.Instant, timers ...trigger.Timer) {
		b.Put(nil, recovery.Row(&trigger.State{Key: key, ForgetAt: forgetAt}, timers, []byte("unreadable")))
	}
	for i := range trigger.Instant(3) {
		put(trigger.Key(fmt.Sprint("few/due", i)), 0, trigger.Timer{Due: 1000 + i, Kind: trigger.TimerSeries})
		put(trigger.Key(fmt.Sprint("few/done", i)), 1000+i)
	}
	put("few/paused", 0)
	put("other/due", 0, trigger.Timer{Due: 1000, Kind: trigger.TimerSeries})
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	open := func(most int64) (*opening, *Process) {
		o := &Process{quotas: quota.New(func(tenant string) quota.Limit {
			if tenant == "few" {
				return quota.Limit{MaxPending: most}
			}
			return quota.Limit{}
		}, 1)}
		return &opening{Partition: &Partition{opts: o, store: st}}, o
	}
	for most, admits := range map[int64]bool{4: false, 5: true} { // four are pending
		o, _ := open(most)
		if err := o.openQuotas(t.Context()); err != nil {
			t.Fatal(err)
		}
		if limit, _ := o.quota.Admit("few", 0, false); (limit == "") != admits {
			t.Errorf("at most %d: refused by %q", most, limit)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	o, _ := open(4)
	if err := o.openQuotas(over); !errors.Is(err, context.Canceled) {
		t.Errorf("the opening has no time left, and goes on: %v", err)
	}
	o, process := open(0)
	process.NoMaxPending, o.store = true, nil
	if err := o.openQuotas(t.Context()); err != nil {
		t.Errorf("nobody's pending triggers are limited, and they are counted: %v", err)
	}
}
