package pipeline_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

type quietPebble struct{}

func (quietPebble) Infof(string, ...any)              {}
func (quietPebble) Errorf(string, ...any)             {}
func (quietPebble) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// withStore stops a, changes its store behind its back, and starts it anew.
func withStore(t *testing.T, w *sim.World, change func(db *pebble.DB)) *sim.Node {
	t.Helper()
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	db, err := pebble.Open("store/0", &pebble.Options{FS: w.Disk("a"), Logger: quietPebble{}})
	if err != nil {
		t.Fatal(err)
	}
	change(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	a := w.Start("a")
	w.AwaitOwners()
	time.Sleep(time.Second)
	return a
}

// timersOf lists the entries of the due index that name a trigger, in their order.
func timersOf(t *testing.T, db *pebble.DB, key string) (keys [][]byte) {
	t.Helper()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte("d"), UpperBound: []byte("e")})
	if err != nil {
		t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		if bytes.HasPrefix(it.Key()[10:], append([]byte(key), 0)) {
			keys = append(keys, bytes.Clone(it.Key()))
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return keys
}

func kinds(r pipeline.AuditReport) (all []string) {
	for _, l := range r.Leaks {
		all = append(all, fmt.Sprintf("%s %s", l.Kind, l.Key))
	}
	slices.Sort(all)
	return all
}

// TestReconcile: timers are deleted from a store, and invented. Each is found,
// a dry run changes nothing, turns mend them from the states, and everything fires once.
func TestReconcile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 3, Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		at := func(d time.Duration) string { return begin.Add(d).UTC().Format(time.RFC3339Nano) }
		for i := range 20 {
			w.Send(fmt.Sprint("plain-", i), fmt.Sprintf(`{"op":"register","fire_at":%q}`, at(time.Hour)))
		}
		// One whose occurrence waits for a receipt has two timers; the state lies at the first.
		w.Send("two", fmt.Sprintf(`{"op":"register","recurrence":"every:1h","start":%q,"timezone":"UTC",`+
			`"channel":"r-push"}`, at(time.Minute)))
		time.Sleep(2 * time.Minute)

		a := withStore(t, w, func(db *pebble.DB) {
			two := timersOf(t, db, "two")
			if len(two) != 2 {
				t.Fatalf("the series has %d timers", len(two))
			}
			plain := timersOf(t, db, "plain-1")[0]
			moved := slices.Clone(plain)
			binary.BigEndian.PutUint64(moved[1:], uint64(begin.Add(30*time.Minute).UnixMilli()))
			nobody := bytes.Replace(plain, []byte("plain-1"), []byte("nobody-"), 1)
			for _, err := range []error{
				db.Delete(two[1], pebble.Sync), db.Set(moved, nil, pebble.Sync), db.Set(nobody, nil, pebble.Sync),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		want := []string{"timer_missing two", "timer_stray nobody-", "timer_stray plain-1"}
		for _, dry := range []bool{true, true, false} {
			r, err := a.Engine.Reconcile(t.Context(), 0, dry)
			if err != nil || !slices.Equal(kinds(r.AuditReport), want) || dry != (r.Mended == 0) {
				t.Fatalf("dry %v: %+v, %v", dry, r, err)
			}
		}
		r, err := a.Engine.Reconcile(t.Context(), 0, false)
		if err != nil || len(r.Leaks) != 0 || r.Triggers != 21 || r.Timers != 22 {
			t.Fatalf("afterwards: %+v, %v", r, err)
		}
		time.Sleep(59 * time.Minute) // until all have fired, and the receipt's time-out has gone
		fired, emitted := map[string]int{}, map[string]bool{}
		for _, topic := range []string{"default", "r-push"} {
			for _, r := range w.Dump(w.Names.Due(topic)) {
				fired[string(r.Key)]++
				attempt := pipelinetest.Header(r, "ce_id") + " " + pipelinetest.Header(r, "ce_wcattempt")
				if emitted[attempt] {
					t.Errorf("%s went out twice", attempt)
				}
				emitted[attempt] = true
			}
		}
		for i := range 20 {
			if k := fmt.Sprint("plain-", i); fired[k] != 1 {
				t.Errorf("%s fired %d times", k, fired[k])
			}
		}
		// The first occurrence, its second attempt after the time-out, and the next occurrence.
		if fired["two"] != 3 || len(fired) != 21 {
			t.Errorf("the series went out %d times, and %d triggers did", fired["two"], len(fired))
		}
	})
}

// TestReconcileDamaged: the entry that holds a state is gone. The store is built anew from
// topic state, and the trigger fires.
func TestReconcileDamaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 5, Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		for i := range 5 {
			w.Send(fmt.Sprint("k", i), fmt.Sprintf(`{"op":"register","fire_at":%q}`,
				begin.Add(time.Hour).UTC().Format(time.RFC3339Nano)))
		}
		time.Sleep(time.Second)
		a := withStore(t, w, func(db *pebble.DB) {
			if err := db.Delete(timersOf(t, db, "k3")[0], pebble.Sync); err != nil {
				t.Fatal(err)
			}
		})
		r, err := a.Engine.Reconcile(t.Context(), 0, true)
		if err != nil || !slices.Equal(kinds(r.AuditReport), []string{"state_damaged k3"}) {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err = a.Engine.Reconcile(t.Context(), 0, false); err == nil {
			t.Error("mended without opening the partition anew")
		}
		time.Sleep(time.Minute)
		if r, err = a.Engine.Reconcile(t.Context(), 0, true); err != nil || len(r.Leaks) != 0 || r.Triggers != 5 {
			t.Fatalf("afterwards: %+v, %v", r, err)
		}
		time.Sleep(time.Hour)
		if n := len(w.Dump(w.Names.Due("default"))); n != 5 {
			t.Fatalf("%d fired", n)
		}
	})
}

// TestReconcileLostReceipt: a receipt is deleted before the engine has read it. The partition names
// the gap. Once that is accepted, the occurrence waits for its time-out, and goes out once more with
// the same ce_id: nobody takes it for delivered, and no audit finds a leak.
func TestReconcileLostReceipt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var accept []pipeline.Gap
		w := sim.New(t, sim.Options{Seed: 7, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.AcceptGaps = accept
		}})
		w.Start("a")
		w.AwaitOwners()
		w.Send("k", `{"op":"register","delay":0,"channel":"r-push"}`)
		time.Sleep(time.Minute)
		due := w.Dump(w.Names.Due("r-push"))
		if len(due) != 1 {
			t.Fatalf("%d due events", len(due))
		}
		id := pipelinetest.Header(due[0], "ce_id")
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		w.Receipt("k", fmt.Sprintf(`{"due_id":%q,"outcome":"delivered","attempt":1}`, id))
		if err := w.Cluster.DeleteRecords(w.Names.Receipts(), 0, -1); err != nil {
			t.Fatal(err)
		}
		a := w.Start("a")
		time.Sleep(20 * time.Second)
		if why := fmt.Sprint(a.Engine.Unready()); !strings.Contains(why, w.Names.Receipts()+"/0 begins at 1") {
			t.Fatalf("not ready: %s", why)
		}
		accept = gapsOf(t, a)
		w.Kill("a")
		a = w.Start("a")
		w.AwaitOwners()
		time.Sleep(59 * time.Minute) // the time-out is an hour after the emission
		r, err := a.Engine.Reconcile(t.Context(), 0, true)
		if err != nil || len(r.Leaks) != 0 || r.Triggers != 1 || r.Timers != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		due = w.Dump(w.Names.Due("r-push"))
		if len(due) != 2 || pipelinetest.Header(due[1], "ce_id") != id ||
			pipelinetest.Header(due[1], "ce_wcattempt") != "2" {
			t.Fatalf("%d due events, the last %v", len(due), due[len(due)-1].Headers)
		}
	})
}
