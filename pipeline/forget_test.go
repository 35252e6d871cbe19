package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestForgetTheLeast: done records whose horizon has passed make room. Of the
// others none is dropped that there is room for then.
func TestForgetTheLeast(t *testing.T) {
	for _, c := range []struct{ over, fresh, room, left int }{
		{over: 5, fresh: 3, room: 7, left: 3}, // one too many, and five are over
		{over: 5, fresh: 3, room: 2, left: 2},
		{over: 0, fresh: 3, room: 2, left: 2},
		{over: 5, fresh: 3, room: 10, left: 3},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			st := memStore(t)
			b := st.NewBatch()
			for i := range c.over + c.fresh {
				s := &trigger.State{
					Key: trigger.Key(fmt.Sprint("k", i)), Status: trigger.Fired, Revision: 1,
					ForgetAt: trigger.Instant(1000 + i),
				}
				if i >= c.over {
					s.ForgetAt += 1_000_000
				}
				value, err := topics.AppendState(nil, s)
				if err != nil {
					t.Fatal(err)
				}
				b.Put(nil, recovery.Row(s, nil, value))
			}
			if err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			p := &Partition{store: st}
			o := &Process{Options: Options{MaxDone: int64(c.room), Listener: NoListener{}}}
			d := doneRecords{opts: o, store: st, load: p.load}
			turn := &turn{now: 100_000, overlay: map[trigger.Key]*entry{}, states: st.NewStateReader()}
			defer turn.states.Close()
			if err := d.forget(turn, 0); err != nil {
				t.Fatal(err)
			}
			left := c.over + c.fresh
			for _, e := range turn.order {
				if e.dirty && e.state == nil {
					left--
				}
			}
			if left != c.left {
				t.Errorf("%d are left", left)
			}
		})
	}
}

// TestForgetAnUnreadableRecord: a done record that cannot be read fails the turn, so that the
// store is put aside. Otherwise it would end every scan, and nothing would be forgotten any more.
func TestForgetAnUnreadableRecord(t *testing.T) {
	st := memStore(t)
	b := st.NewBatch()
	b.Put(nil, recovery.Row(&trigger.State{Key: "k", ForgetAt: 1000}, nil, []byte("damaged")))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	o := &Process{Options: Options{MaxDone: 10, Listener: NoListener{}}}
	d := doneRecords{opts: o, store: st, load: func(*turn, trigger.Key) (*entry, error) {
		return nil, statestore.ErrCorrupt
	}}
	if err := d.forget(&turn{now: 100_000}, 0); !errors.Is(err, statestore.ErrCorrupt) {
		t.Errorf("%v, and the turn goes on", err)
	}
}
