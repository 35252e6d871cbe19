package cassandra

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

func TestParseReplication(t *testing.T) {
	for _, c := range []struct{ in, cql, err string }{
		{"1", "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}", ""},
		{" 3 ", "{'class': 'NetworkTopologyStrategy', 'replication_factor': 3}", ""},
		{"west:2,east:3", "{'class': 'NetworkTopologyStrategy', 'east': 3, 'west': 2}", ""},
		{"dc1=2", "{'class': 'NetworkTopologyStrategy', 'dc1': 2}", ""},
		{`{"dc1": 3, "dc-2": 1}`, "{'class': 'NetworkTopologyStrategy', 'dc-2': 1, 'dc1': 3}", ""},
		{"0", "", "within 1 and 9"},
		{"10", "", "within 1 and 9"},
		{"", "", "want a number"},
		{"dc1", "", "want a number"},
		{"dc1:x", "", "want a number"},
		{"dc1:3,dc1:2", "", "twice"},
		{"d'c:3", "", "not the name"},
		{"class:3", "", "not the name"},
	} {
		r, err := ParseReplication(c.in)
		switch {
		case c.err == "" && (err != nil || r.cql() != c.cql):
			t.Errorf("%q: %s, %v; want %s", c.in, r.cql(), err, c.cql)
		case c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)):
			t.Errorf("%q: %v; want %q", c.in, err, c.err)
		}
	}
}

func TestOptionsValidate(t *testing.T) {
	if err := (Options{Hosts: []string{"c1", "c2"}}).Validate(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	err := Options{
		Hosts: []string{"c1:1", "c2:2"}, Keyspace: "x; DROP", Replication: Replication{Factor: 99}, Retention: -1,
		Concurrency: 5000, Timeout: -1, Password: "p",
	}.Validate()
	for _, word := range []string{
		"cassandra.hosts", "cassandra.keyspace", "cassandra.replication", "Retention",
		"Concurrency", "Timeout", "Password",
	} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("no word on %s in: %v", word, err)
		}
	}
}

// fakeSession counts its Close calls.
type fakeSession struct{ closed int }

func (f *fakeSession) Close() { f.closed++ }

func TestLinkRecreates(t *testing.T) {
	now, made := time.Unix(1000, 0), []*fakeSession{}
	refuse := errors.New("no hosts available in the pool")
	l := &link[*fakeSession]{
		after: 30 * time.Second, now: func() time.Time { return now },
		log: slog.New(slog.DiscardHandler),
	}
	l.create = func(context.Context) (*fakeSession, error) {
		made = append(made, &fakeSession{})
		return made[len(made)-1], nil
	}
	get := func() *fakeSession {
		t.Helper()
		s, err := l.get(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	for _, step := range []struct {
		name     string
		after    time.Duration
		err      error
		sessions int
	}{
		{"a failure at once", time.Second, refuse, 1},
		{"still within 30 s", 29 * time.Second, refuse, 1},
		{"past 30 s of failures", 2 * time.Second, refuse, 2},
		{"a new session has its own 30 s", 30 * time.Second, refuse, 2},
		{"a success in between", 0, nil, 2},
		{"30 s after it", 30 * time.Second, refuse, 2},
		{"and more", time.Second, refuse, 3},
	} {
		now = now.Add(step.after)
		get()
		l.report(step.err)
		get()
		if len(made) != step.sessions {
			t.Fatalf("%s: %d sessions made, want %d", step.name, len(made), step.sessions)
		}
	}
	l.close()
	for i, s := range made {
		if s.closed != 1 {
			t.Errorf("session %d was closed %d times", i, s.closed)
		}
	}
	if _, err := l.get(context.Background()); !errors.Is(err, errClosed) {
		t.Errorf("after close: %v", err)
	}
}

// A caller waits for the driver only as long as its context permits. A GET has 2 s; the driver's
// attempt to connect takes longer.
func TestLinkWaitsAsLongAsItsCaller(t *testing.T) {
	answer := make(chan error)
	attempts := 0
	l := &link[*fakeSession]{after: time.Second, now: time.Now, log: slog.New(slog.DiscardHandler)}
	l.create = func(context.Context) (*fakeSession, error) {
		attempts++
		return &fakeSession{}, <-answer
	}
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	for range 3 {
		waiting.Go(func() {
			if _, err := l.get(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("a caller who left: %v", err)
			}
		})
	}
	cancel()
	waiting.Wait()
	patient := make(chan error)
	go func() { _, err := l.get(context.Background()); patient <- err }()
	answer <- nil // for the attempt of the caller that left, or of the patient one
	if err := <-patient; err != nil {
		t.Errorf("a patient caller: %v", err)
	}
	if _, err := l.get(context.Background()); err != nil || attempts != 1 {
		t.Errorf("%d attempts, %v", attempts, err)
	}
	l.close()
}

// New works without a Cassandra; the first call returns the error.
func TestNobodyThere(t *testing.T) {
	s, err := New(Options{Hosts: []string{"127.0.0.1:1"}, Timeout: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Ping(context.Background()); !errors.Is(err, sinks.ErrUnavailable) {
		t.Errorf("ping: %v", err)
	}
	if err := s.Apply(context.Background(), []sinks.EventRecord{{Poison: true}}); !errors.Is(err,
		sinks.ErrUnavailable) {
		t.Errorf("apply: %v", err)
	}
}

// The token ranges are adjacent and leave nothing out.
func TestTokenRanges(t *testing.T) {
	for i := range scanRanges {
		from, to := tokenRange(i)
		if from > to {
			t.Errorf("part %d: %d > %d", i, from, to)
		}
		if i > 0 {
			if _, before := tokenRange(i - 1); before+1 != from {
				t.Errorf("part %d begins at %d, the one before ends at %d", i, from, before)
			}
		}
	}
	first, _ := tokenRange(0)
	_, last := tokenRange(scanRanges - 1)
	if first != -1<<63 || last != 1<<63-1 {
		t.Errorf("the ring is cut to %d … %d", first, last)
	}
}

// A TTL is never beyond what a cluster in compatibility mode accepts.
func TestTTL(t *testing.T) {
	const now = 1795000000
	w := &writes{now: now}
	for _, c := range []struct {
		name  string
		until int64
		ttl   int32
		ok    bool
	}{
		{"a minute left", now + 60, 60, true},
		{"a second left", now + 1, 1, true},
		{"none left", now, 0, false},
		{"past", now - 1000, 0, false},
		{"in a century", now + 100*365*86400, lastExpiry - now, true},
	} {
		if ttl, ok := w.ttl(c.until); ttl != c.ttl || ok != c.ok {
			t.Errorf("%s: %d %v, want %d %v", c.name, ttl, ok, c.ttl, c.ok)
		}
	}
}

func TestErasSince(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	for _, c := range []struct {
		from, to string
		want     []int
	}{
		{"2026-11-30", "2026-11-30", []int{202611}},
		{"2025-11-30", "2026-02-01", []int{202511, 202512, 202601, 202602}},
		{"2026-12-31", "2027-01-01", []int{202612, 202701}},
		{"2026-12-31", "2026-11-01", nil},
	} {
		if got := erasSince(trigger.At(at(c.from)), at(c.to)); !slices.Equal(got, c.want) {
			t.Errorf("%s to %s: %v", c.from, c.to, got)
		}
	}
}

// TestIsOneCopy: which keyspaces lose rows with one node.
func TestIsOneCopy(t *testing.T) {
	const class = "org.apache.cassandra.locator.NetworkTopologyStrategy"
	for _, c := range []struct {
		replication map[string]string
		want        bool
	}{
		{map[string]string{"class": class, "dc1": "1"}, true},
		{map[string]string{"class": "org.apache.cassandra.locator.SimpleStrategy", "replication_factor": "1"}, true},
		{map[string]string{"class": class, "dc1": "3"}, false},
		{map[string]string{"class": class, "dc1": "1", "dc2": "1"}, false},
		{map[string]string{"class": class}, false},
	} {
		if got := isOneCopy(c.replication); got != c.want {
			t.Errorf("%v: %v", c.replication, got)
		}
	}
}

// A connection logs in with the password that is current when it is opened, also for a cluster that was configured
// before.
func TestRotatedPassword(t *testing.T) {
	s, err := New(Options{Hosts: []string{"127.0.0.1:1"}, Username: "u", Password: "old"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := cluster(s.opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, password := range []string{"old", "new", "newer"} {
		if password != "old" {
			s.SetPassword(password)
		}
		said, _, err := c.Authenticator.Challenge([]byte("org.apache.cassandra.auth.PasswordAuthenticator"))
		if want := "\x00u\x00" + password; string(said) != want || err != nil {
			t.Errorf("a connection says %q, %v; want %q", said, err, want)
		}
	}
	if _, _, err := c.Authenticator.Challenge([]byte("evil.Authenticator")); err == nil {
		t.Error("a server that is none of Cassandra's gets the password")
	}
}
