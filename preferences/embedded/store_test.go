package embedded

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/preferencestest"
)

func TestConformance(t *testing.T) {
	preferencestest.Run(t, func(t testing.TB) func() preferences.Store {
		dir := filepath.Join(t.TempDir(), "preferences")
		return func() preferences.Store { return open(t, dir) }
	})
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(Options{Dir: dir, MaxUsers: preferencestest.MaxUsers})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A checkpoint has all earlier puts, and the moves.
func TestCheckpoint(t *testing.T) {
	dir := t.TempDir()
	s := open(t, filepath.Join(dir, "a"))
	defer s.Close()
	u := preferences.User{Tenant: "default", ID: "ada"}
	if err := s.Put(t.Context(), u, &preferences.Preferences{Zone: "Asia/Tokyo"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	c := open(t, filepath.Join(dir, "b"))
	defer c.Close()
	if m, ok, err := c.Claim(t.Context(), nil, 1); !ok || err != nil || m.Zone != "Asia/Tokyo" {
		t.Fatalf("the copy has %+v %v %v", m, ok, err)
	}
}

func TestClosedAndNewer(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.db.Set([]byte("format"), []byte("9"), nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("the second Close: %v", err)
	}
	if _, err := s.Get(t.Context(), nil); err == nil {
		t.Error("a closed store answers")
	}
	if _, err := Open(Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "newer waterclock") {
		t.Errorf("a newer format: %v", err)
	}
	if _, err := Open(Options{Dir: filepath.Join(os.DevNull, "x")}); err == nil {
		t.Error("no directory, and no error")
	}
}

func BenchmarkBatch(b *testing.B) {
	s := open(b, b.TempDir())
	defer s.Close()
	preferencestest.Bench(b, s)
}

func TestAddresses(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	preferencestest.RunAddresses(t, s)
	preferencestest.RunOptOuts(t, s)
}

// The time to decide on a message does not depend on how many messages its user has had.
// Otherwise a flood to one user would delay all others.
func TestManyClaims(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	const many = 3000
	l := preferences.Limits{Window: time.Hour, Caps: []preferences.Cap{{Most: 3, Within: time.Hour}}}
	at := time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
	ada := preferences.User{Tenant: "evil", ID: "ada"}
	note := func(i int, kind string) preferences.Message {
		id := fmt.Sprint("evil/", i)
		return preferences.Message{User: ada, Channel: "push", ID: id + "#0", Occurrence: id, Type: kind, High: true}
	}
	list := make([]preferences.Message, many)
	for i := range list {
		list[i] = note(i, "")
	}
	if _, err := s.Admit(t.Context(), at, l, list); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"", "news"} {
		read, err := sent(s.db, at.Add(time.Second), l, note(many, kind))
		if err != nil || len(read) > 4 {
			t.Errorf("type %q: %d claims are read, %v", kind, len(read), err)
		}
	}
}
