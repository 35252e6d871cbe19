package pipeline

import (
	"fmt"
	"slices"
	"testing"

	"github.com/waterclock/waterclock/pipeline/fair"
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
	seen := map[trigger.Key]bool{} // in this turn
	for _, d := range ts.ready.Take(n, now).Due {
		if d.Due > now {
			t.Errorf("at %d: %q is early", now, d.Ref)
		}
		_, key, _, _, _ := statestore.ParseRef(d.Ref)
		if v, err := ts.store.Get(key, nil); err != nil || v == nil || seen[key] {
			continue // it was read twice
		}
		seen[key] = true
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

// TestRoomWhileNothingFires: turns without a fire, as while Kafka's answer is awaited, let what was skipped take half
// of the reserve and no more. What falls due of another tenant then has room, and fires first.
func TestRoomWhileNothingFires(t *testing.T) {
	const most = 160
	due := map[trigger.Key]trigger.Instant{}
	for i := range 5 * most {
		due[trigger.Key(fmt.Sprint("a/", i))] = trigger.Instant(i)
	}
	ts := timersWith(t, most, due)
	now := trigger.Instant(100_000)
	for range 20 {
		now++
		if fired := ts.fire(t, now, 0); len(fired) > 0 {
			t.Fatal(fired)
		}
	}
	if ts.skipped == nil || ts.free() < most/reserveShare/2-1 {
		t.Fatalf("%d of a reserve of %d are free", ts.free(), most/reserveShare)
	}
	ts.armed(t, now, keyDue{key: "b/1", at: now + 1}, keyDue{key: "b/2", at: now + 1})
	if fired := ts.fire(t, now+1, 10); !slices.Contains(fired, "b/1") || !slices.Contains(fired, "b/2") {
		t.Errorf("fired %v", fired)
	}
}

// TestLeftTimersCome: what is left in the store for want of room counts as due once, when it is passed.
func TestLeftTimersCome(t *testing.T) {
	const most, all = 40, 500
	due := map[trigger.Key]trigger.Instant{}
	for i := range all {
		due[trigger.Key(fmt.Sprint("a/", i))] = trigger.Instant(i)
	}
	ts := timersWith(t, most, due)
	came, took := 0, 0
	for now := trigger.Instant(100_000); ts.store.PendingCount() > 0; now++ {
		if now > 100_200 {
			t.Fatalf("%d have not fired", ts.store.PendingCount())
		}
		ts.fire(t, now, 10)
		ts.ready.Flows(func(_ string, f fair.Flow) { came, took = came+f.Came, took+f.Took })
	}
	if came != all || took != all {
		t.Errorf("%d fell due and %d fired, of %d", came, took, all)
	}
}

// armed is a turn that arms timers of these keys.
func (ts *timers) armed(t *testing.T, now trigger.Instant, due ...keyDue) {
	t.Helper()
	b := ts.store.NewBatch()
	for _, d := range due {
		row := rowOf(d.key, d.at)
		b.Put(nil, row)
		ts.arm(row.Key, row.Timers[0], d.paced, now)
	}
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
}

type keyDue struct {
	key   trigger.Key
	at    trigger.Instant
	paced bool
}

// run fires n timers a poll, one poll a millisecond, and returns when each fired.
func (ts *timers) run(t *testing.T, from, to trigger.Instant, n int) map[trigger.Key]trigger.Instant {
	t.Helper()
	fired := map[trigger.Key]trigger.Instant{}
	for now := from; now <= to; now++ {
		for _, key := range ts.fire(t, now, n) {
			if at, ok := fired[key]; ok {
				t.Errorf("%s fired at %d and at %d", key, at, now)
			}
			fired[key] = now
		}
	}
	return fired
}

// TestArmedWithoutRoom: commands arm more timers of the near future than there is room for, the
// last ones first. Each fires once, and on time.
func TestArmedWithoutRoom(t *testing.T) {
	ts := timersWith(t, 10, nil)
	if _, err := ts.hydrate(0); err != nil {
		t.Fatal(err)
	}
	var due []keyDue
	for i := range 100 {
		due = append(due, keyDue{key: trigger.Key(fmt.Sprint("a/", i)), at: trigger.Instant(1000 - i)})
	}
	ts.armed(t, 0, due...)
	if ts.held() > ts.mostHeld() || ts.next() > 901 {
		t.Errorf("%d are held, the next is at %d", ts.held(), ts.next())
	}
	fired := ts.run(t, 1, 1100, 10)
	for _, d := range due {
		if at := fired[d.key]; at != d.at {
			t.Errorf("%s of %d fired at %d", d.key, d.at, at)
		}
	}
}

// TestArmedBeforeWhatIsReadAhead: memory is full of what one tenant has planned for minutes from now.
// Timers of another one, for the next moments and for now, do not wait for those.
func TestArmedBeforeWhatIsReadAhead(t *testing.T) {
	ts := timersWith(t, 40, nil)
	if _, err := ts.hydrate(0); err != nil {
		t.Fatal(err)
	}
	var later []keyDue
	for i := range 1000 {
		later = append(later, keyDue{key: trigger.Key(fmt.Sprint("a/", i)), at: 200_000 + trigger.Instant(i)})
	}
	ts.armed(t, 0, later...)
	ts.armed(t, 1, keyDue{key: "b/soon", at: 50}, keyDue{key: "b/now", at: 1}, keyDue{key: "b/later", at: 200_500})
	fired := ts.run(t, 2, 100, 10)
	if len(fired) != 2 || fired["b/now"] != 2 || fired["b/soon"] != 50 {
		t.Errorf("fired: %v", fired)
	}
	fired = ts.run(t, 199_000, 201_100, 10)
	if len(fired) != 1001 || fired["b/later"] != 200_500 {
		t.Errorf("%d fired, b/later at %d", len(fired), fired["b/later"])
	}
}

// TestArmedBeforeTheSkipped: what is armed with an older due time than all that was left in the store
// finds no room either, and fires all the same.
func TestArmedBeforeTheSkipped(t *testing.T) {
	due := map[trigger.Key]trigger.Instant{}
	for i := range 100 {
		due[trigger.Key(fmt.Sprint("a/", i))] = 100 + trigger.Instant(i)
	}
	ts := timersWith(t, 10, due)
	if _, err := ts.hydrate(1000); err != nil {
		t.Fatal(err)
	}
	var older []keyDue
	for i := range 30 {
		older = append(older, keyDue{key: trigger.Key(fmt.Sprint("a/older", i)), at: 50 + trigger.Instant(i)})
	}
	ts.armed(t, 1000, older...)
	n := 0
	for now := trigger.Instant(1000); now < 1100 && n < 130; now++ {
		fired := ts.run(t, now, now, 10)
		n += len(fired)
		older = slices.DeleteFunc(older, func(d keyDue) bool { return fired[d.key] != 0 })
		if len(older) > 0 && ts.next() > older[0].at {
			t.Errorf("%s has not fired, and the next is of %d", older[0].key, ts.next())
		}
	}
	if n != 130 {
		t.Errorf("%d of 130 fired", n)
	}
}

// TestSkippedBeforeWhatIsReadAhead: memory is full of what falls due in minutes, and something
// overdue was left in the store.
func TestSkippedBeforeWhatIsReadAhead(t *testing.T) {
	ts := timersWith(t, 40, nil)
	if _, err := ts.hydrate(0); err != nil {
		t.Fatal(err)
	}
	var later []keyDue
	for i := range ts.mostHeld() {
		later = append(later, keyDue{key: trigger.Key(fmt.Sprint("a/", i)), at: 200_000 + trigger.Instant(i)})
	}
	ts.armed(t, 0, later...)
	overdue := keyDue{key: "a/overdue", at: 1}
	ts.armed(t, 1, overdue)
	ts.newWheel(1) // as if they had been armed since
	for _, d := range later {
		row := rowOf(d.key, d.at)
		ts.put(statestore.DueKey{Due: d.at, Ref: statestore.Ref(row.Timers[0], d.key)})
	}
	row := rowOf(overdue.key, overdue.at)
	ts.skip(statestore.DueKey{Due: overdue.at, Ref: statestore.Ref(row.Timers[0], overdue.key)})
	if fired := ts.run(t, 2, 4, 10); fired[overdue.key] != 2 {
		t.Errorf("it fired at %d", fired[overdue.key])
	}
}

// TestPacedAreBounded: of the timers that go at the pacer's rate a bounded number is in memory, in
// whatever order they come.
func TestPacedAreBounded(t *testing.T) {
	ts := timersWith(t, 40, nil)
	ts.pacedEntries = 10
	if _, err := ts.hydrate(100_000); err != nil {
		t.Fatal(err)
	}
	for i := range 200 {
		key := trigger.Key(fmt.Sprint("a/", i))
		ts.armed(t, 100_000, keyDue{key, 1000 - trigger.Instant(i), true})
		if n := ts.ready.Paced(); n > ts.pacedEntries {
			t.Fatalf("%d wait for the pacer, of %d", n, ts.pacedEntries)
		}
	}
	if fired := ts.run(t, 100_000, 100_200, 10); len(fired) != 200 {
		t.Errorf("%d of 200 fired", len(fired))
	}
}

// TestCatchUpBesideABacklog: what was left because it goes at the pacer's rate does not wait until
// another tenant's backlog has fired.
func TestCatchUpBesideABacklog(t *testing.T) {
	due := map[trigger.Key]trigger.Instant{}
	for i := range 2000 {
		due[trigger.Key(fmt.Sprint("a/", i))] = trigger.Instant(i)
	}
	ts := timersWith(t, 40, due)
	ts.pacedEntries = 2
	if _, err := ts.hydrate(100_000); err != nil {
		t.Fatal(err)
	}
	var paced []keyDue
	for i := range 20 {
		paced = append(paced, keyDue{trigger.Key(fmt.Sprint("c/", i)), 1, true})
	}
	ts.armed(t, 100_000, paced...)
	fired := ts.run(t, 100_000, 100_100, 4)
	for _, d := range paced {
		if fired[d.key] == 0 {
			t.Errorf("%s has not fired, %d others have", d.key, len(fired))
		}
	}
}

// TestManyTenantsOverloaded: more tenants than there is room for have more due than fires. One that has a timer now
// and then is on time.
func TestManyTenantsOverloaded(t *testing.T) {
	due := map[trigger.Key]trigger.Instant{}
	for at := range 400 {
		for i := range 60 {
			due[trigger.Key(fmt.Sprintf("t%02d/%d", i, at))] = trigger.Instant(at)
		}
	}
	var rare []trigger.Key
	for at := 50; at < 400; at += 50 {
		key := trigger.Key(fmt.Sprint("zz/", at))
		due[key] = trigger.Instant(at)
		rare = append(rare, key)
	}
	ts := timersWith(t, 800, due)
	fired := ts.run(t, 0, 420, 40)
	for _, key := range rare {
		if at, ok := fired[key]; !ok || at > due[key]+40 {
			t.Errorf("%s of %d fired at %d", key, due[key], at)
		}
	}
}
