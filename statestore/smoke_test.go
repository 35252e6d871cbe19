package statestore

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/waterclock/waterclock/trigger"
)

func TestLife(t *testing.T) {
	s, err := Open(Options{Dir: "/p0", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	tm := trigger.Timer{Due: 5000, Priority: trigger.Normal, Kind: trigger.TimerSeries, Occurrence: "1"}
	r1 := Row{Key: "a", Value: []byte("one"), Timers: []trigger.Timer{tm}, Tenant: "default", User: "u", Zone: "Europe/Berlin"}
	b := s.NewBatch()
	b.Put(nil, r1)
	b.SetMeta("progress", []byte("x"))
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	r := s.NewDueReader()
	v, ok, err := r.Get(5000, Ref(tm, "a"))
	if string(v) != "one" || !ok || err != nil {
		t.Fatal(v, ok, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r2 := Row{Key: "a", Value: []byte("two"), ForgetAt: 9000, Tenant: "default", User: "u"}
	b.Put(&r1, r2)
	b.DropDueBelow(5001)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get("a", nil); string(v) != "two" || err != nil {
		t.Fatalf("%q %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(s.opts); err != nil {
		t.Fatal(err)
	}
	if s.DoneCount() != 1 || s.PendingCount() != 0 {
		t.Fatal(s.DoneCount(), s.PendingCount())
	}
	b = s.NewBatch()
	b.Delete(r2)
	if err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	if v, err := s.Get("a", nil); v != nil || err != nil {
		t.Fatalf("%q %v", v, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
