package pipeline

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/waterclock/waterclock/statestore"
)

// memStore opens an empty store in memory.
func memStore(t *testing.T) *statestore.Store {
	t.Helper()
	st, err := statestore.Open(statestore.Options{Dir: "s", FS: vfs.NewMem()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { st.Close() })
	return st
}
