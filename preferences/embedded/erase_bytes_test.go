package embedded

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/filetest"
	"github.com/waterclock/waterclock/preferences"
)

// When an erasure is done and the store was opened anew, no file has a byte of the user's data.
func TestEraseLeavesNoBytes(t *testing.T) {
	const canary = "canary4711"
	dir := filepath.Join(t.TempDir(), "preferences")
	open := func() *Store {
		t.Helper()
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	holding := func() []string { t.Helper(); return filetest.Holding(t, dir, canary) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := open()
	at := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	var users []preferences.User
	for i := range 20 {
		u := preferences.User{Tenant: "default", ID: fmt.Sprint(canary, i)}
		users = append(users, u)
		must(s.Put(t.Context(), u, &preferences.Preferences{
			Zone: "Asia/Tokyo", Addresses: preferences.Addresses{Email: canary + "@example.com"},
		}))
		_, err := s.Admit(t.Context(), at, preferences.Limits{Window: time.Hour}, []preferences.Message{{
			User: u, Channel: "email", ID: canary + "@1#0", Occurrence: canary + "@1", Type: canary,
		}})
		must(err)
	}
	must(s.Close())
	s = open()
	if len(holding()) == 0 {
		t.Fatal("the files do not have what is to be erased: nothing is tested")
	}
	for _, u := range users {
		must(s.Erase(t.Context(), preferences.Erasure{User: u, At: at}))
	}
	for range users {
		e, ok, err := s.ClaimErasure(t.Context(), preferences.Turn{}, time.Minute)
		must(err)
		if !ok {
			t.Fatal("an erasure is lost")
		}
		must(s.FinishErasure(t.Context(), e))
	}
	must(s.Close())
	// Pebble's manifest names the first and last keys of files. The first flush after Open writes
	// a new manifest, and Pebble keeps the previous one for another round.
	for range 2 {
		s = open()
		must(s.Put(t.Context(), preferences.User{Tenant: "default", ID: "bob"}, &preferences.Preferences{}))
		must(s.db.Flush())
		must(s.Close())
	}
	must(open().Close())
	if names := holding(); len(names) != 0 {
		t.Errorf("%v have what was erased", names)
	}
}
