package statestore

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/waterclock/waterclock/internal/filetest"
	"github.com/waterclock/waterclock/trigger"
)

// After an erase and a compaction no file has a byte of the old state, nor of the user.
func TestEraseLeavesNoBytes(t *testing.T) {
	const canary, n = "canary4711", 500
	dir := filepath.Join(t.TempDir(), "store")
	holding := func() []string { t.Helper(); return filetest.Holding(t, dir, canary) }
	rows := make([]Row, n)
	write := func(change func(b *Batch, i int)) {
		t.Helper()
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		b := s.NewBatch()
		for i := range n {
			change(b, i)
		}
		mustCommit(t, b)
		if err := s.db.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(func(b *Batch, i int) {
		rows[i] = pending(trigger.Key(fmt.Sprint("k", i)), trigger.Instant(1000+i))
		rows[i].User, rows[i].Value = canary, []byte(canary)
		b.Put(nil, rows[i])
	})
	if len(holding()) == 0 {
		t.Fatal("the files do not have what is to be erased: nothing is tested")
	}
	write(func(b *Batch, i int) {
		b.Put(&rows[i], Row{Key: rows[i].Key, Value: []byte("erased"), Tenant: "default", ForgetAt: 9000})
	})
	// Pebble's manifest names the first and last keys of files. The first flush after Open writes
	// a new manifest, and Pebble keeps the previous one for another round.
	for round := range 2 {
		write(func(b *Batch, i int) { b.SetMeta(fmt.Sprint("round", round), []byte{byte(i)}) })
	}
	if names := holding(); len(names) != 0 {
		t.Errorf("%v have what was erased", names)
	}
}
