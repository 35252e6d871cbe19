package pipeline

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/trigger"
	"github.com/waterclock/waterclock/wheel"
)

// timersWith has room for n timers, and these due times in the store.
func timersWith(t *testing.T, n int, due map[trigger.Key]trigger.Instant) *timers {
	t.Helper()
	st := memStore(t)
	b := st.NewBatch()
	for key, at := range due {
		b.Put(nil, rowOf(key, at))
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	return &timers{
		store: st, wheelEntries: n, pacedEntries: n, wheel: wheel.New(wheel.Options{MaxEntries: n}, 0),
		hydrated: statestore.DueKey{Due: -1},
	}
}

func rowOf(key trigger.Key, at trigger.Instant) statestore.Row {
	tm := trigger.Timer{Due: at, Kind: trigger.TimerSeries, Occurrence: "o"}
	return statestore.Row{Key: key, Timers: []trigger.Timer{tm}, Value: []byte("v")}
}

// fire is one poll and one turn: what fires, of n at most.
func (ts *timers) fire(t *testing.T, now trigger.Instant, n int) (keys []trigger.Key) {
	t.Helper()
	if _, err := ts.hydrate(now); err != nil {
		t.Fatal(err)
	}
	if most := ts.mostHeld(); ts.held() > most {
		t.Errorf("at %d: %d timers are held, of %d", now, ts.held(), most)
	}
	ts.advance(now, now)
	b := ts.store.NewBatch()
	for _, d := range ts.ready.Take(n, now).Due {
		if d.Due > now {
			t.Errorf("at %d: %q is early", now, d.Ref)
		}
		_, key, _, _, _ := statestore.ParseRef(d.Ref)
		if v, err := ts.store.Get(key, nil); err != nil || v == nil {
			continue // it was read twice
		}
		keys = append(keys, key)
		b.Delete(rowOf(key, d.Due))
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestBacklogIsLeftInTheStore: one tenant has more overdue than there is room for. Another
// tenant's timers, which lie behind it, fire at once; nothing is passed; all fire once.
func TestBacklogIsLeftInTheStore(t *testing.T) {
	due := map[trigger.Key]trigger.Instant{}
	for i := range 500 {
		due[trigger.Key(fmt.Sprint("a/", i))] = trigger.Instant(i)
	}
	due["b/overdue"], due["b/now"], due["b/later"] = 499, 100_000, 100_005
	ts := timersWith(t, 40, due)
	fired := map[trigger.Key]trigger.Instant{}
	for now := trigger.Instant(100_000); len(fired) < len(due); now++ {
		if now > 100_200 {
			t.Fatalf("%d of %d fired", len(fired), len(due))
		}
		for _, key := range ts.fire(t, now, 10) {
			if at, ok := fired[key]; ok {
				t.Errorf("%s fired at %d and at %d", key, at, now)
			}
			fired[key] = now
		}
		for key, at := range due {
			if _, ok := fired[key]; !ok && (ts.next() > at || ts.cursor() > at || ts.unfired() > at) {
				t.Fatalf("at %d: %s of %d has not fired; next %d, cursor %d", now, key, at, ts.next(), ts.cursor())
			}
		}
	}
	for key, want := range map[trigger.Key]trigger.Instant{"b/overdue": 100_002, "b/now": 100_000, "b/later": 100_005} {
		if fired[key] > want {
			t.Errorf("%s fired at %d, want %d", key, fired[key], want)
		}
	}
	if ts.skipped != nil {
		t.Errorf("left: %+v", ts.skipped)
	}
}

// TestArmedWithoutRoom: commands arm more timers of the near future than there is room for. Each
// fires once, none early.
func TestArmedWithoutRoom(t *testing.T) {
	ts := timersWith(t, 10, nil)
	if _, err := ts.hydrate(0); err != nil {
		t.Fatal(err)
	}
	b := ts.store.NewBatch()
	for i := range 100 {
		row := rowOf(trigger.Key(fmt.Sprint("a/", i)), trigger.Instant(1000-i))
		b.Put(nil, row)
		ts.arm(row.Key, row.Timers[0], false)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if ts.held() > ts.mostHeld() || ts.next() > 901 {
		t.Errorf("%d are held, the next is at %d", ts.held(), ts.next())
	}
	n := 0
	for now := trigger.Instant(1); now <= 1100; now++ {
		n += len(ts.fire(t, now, 10))
	}
	if n != 100 {
		t.Errorf("%d of 100 fired", n)
	}
}
