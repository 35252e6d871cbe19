package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/preferences/preferencestest"
	"github.com/waterclock/waterclock/test/services"
)

func TestConformance(t *testing.T) {
	preferencestest.Run(t, func(t testing.TB) func() preferences.Store {
		at := services.PostgresDatabase(t)
		return func() preferences.Store { return open(t, at) }
	})
}

func open(t testing.TB, at string) *Store {
	t.Helper()
	s, err := New(Options{URL: at, Within: 20 * time.Second, MaxUsers: preferencestest.MaxUsers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// Instances that start at once migrate one after the other.
func TestMigrateAtOnce(t *testing.T) {
	at := services.PostgresDatabase(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := open(t, at).Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// queries counts the queries that are sent to the server.
type queries struct{ n atomic.Int64 }

func (q *queries) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	q.n.Add(1)
	return ctx
}

func (q *queries) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Get sends one query for any number of users.
func TestOneQuery(t *testing.T) {
	s := open(t, services.PostgresDatabase(t))
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, count := s.pool.Config(), &queries{}
	c.ConnConfig.Tracer = count
	pool, err := pgxpool.NewWithConfig(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	s.pool.Close()
	s.pool = pool
	users := make([]preferences.User, preferencestest.BatchSize)
	for i := range users {
		users[i] = preferences.User{Tenant: "default", ID: fmt.Sprint(i)}
	}
	if _, err := s.Get(t.Context(), users); err != nil || count.n.Load() != 1 {
		t.Errorf("%d queries for %d users: %v", count.n.Load(), len(users), err)
	}
}

// If a server does not answer, a call ends at the bound, even with many callers at once. The next
// call tries anew.
func TestAway(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	s, err := New(Options{URL: "postgres://u:secret@" + silent.Addr().String() + "/x", Within: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begun := time.Now()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			_, err := s.Get(t.Context(), []preferences.User{{Tenant: "default", ID: "u"}})
			if !errors.Is(err, preferences.ErrAway) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("8 callers waited %v", took)
	}
}

func TestBadURL(t *testing.T) {
	for _, at := range []string{"postgres://u:hunter2@h:port/x", "postgres://u:hunter2@h/x?sslmode=what"} {
		if _, err := New(Options{URL: at}); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func BenchmarkBatch(b *testing.B) { preferencestest.Bench(b, open(b, services.PostgresDatabase(b))) }

func TestAddresses(t *testing.T) {
	s := open(t, services.PostgresDatabase(t))
	defer s.Close()
	preferencestest.RunAddresses(t, s)
	preferencestest.RunOptOuts(t, s)
}

// The time to decide on a message does not depend on how many messages its user has had.
// Otherwise a flood to one user would delay every batch with messages to others.
func TestManyClaims(t *testing.T) {
	s := open(t, services.PostgresDatabase(t))
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	const many = `
INSERT INTO waterclock_message_claims
SELECT 'evil', 'ada', 'push', 'evil/' || i || '#0', 'evil/' || i, '', '', now(), now() + interval '1 day'
FROM generate_series(1, 20000) AS i`
	for _, statement := range []string{many, "ANALYZE waterclock_message_claims"} {
		if _, err := s.pool.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	one := columnsOf([]preferences.Message{
		{User: preferences.User{Tenant: "evil", ID: "ada"}, Channel: "push", Occurrence: "evil/x", Type: "news"},
	})
	rows, err := s.pool.Query(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF) "+readSent, one.tenants, one.users,
		one.channels, one.occurrences, one.types, time.Now().Add(-time.Hour), 3)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(plan, "\n")
	if most := mostRows(t, text); most > 100 {
		t.Errorf("%d rows are read for one message:\n%s", most, text)
	}
}

// The limits hold whatever isolation the database has by default. A snapshot from before the wait for
// a lock would miss what others have claimed meanwhile.
func TestLimitsByAnyIsolation(t *testing.T) {
	at, err := url.Parse(services.PostgresDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	at.RawQuery += "&default_transaction_isolation=repeatable%20read"
	s := open(t, at.String())
	if err := s.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := preferences.Message{User: preferences.User{Tenant: "acme", ID: "ada"}, Channel: "sms"}
	held, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := held.Exec(t.Context(), lockUsers, []int64{recipientOf(m).lock()}); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for i := range 2 {
		m := m
		m.ID, m.Occurrence = fmt.Sprintf("acme/%d#0", i), fmt.Sprintf("acme/%d", i)
		wg.Go(func() {
			l := preferences.Limits{Caps: []preferences.Cap{{Most: 1, Within: time.Hour}}}
			codes, err := s.Admit(t.Context(), now, l, []preferences.Message{m})
			if err != nil {
				t.Error(err)
			} else if codes[0] == "" {
				admitted.Add(1)
			}
		})
	}
	const waiting = `
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	for n := 0; n < 2; time.Sleep(time.Millisecond) {
		if err := s.pool.QueryRow(t.Context(), waiting).Scan(&n); err != nil {
			t.Fatal(err)
		}
	}
	if err := held.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if n := admitted.Load(); n != 1 {
		t.Errorf("a cap of one admitted %d messages", n)
	}
}

var rowsRead = regexp.MustCompile(`actual rows=(\d+)|Rows Removed by [A-Za-z ]+: (\d+)`)

// mostRows returns the largest number of rows that a step of a query plan has read.
func mostRows(t *testing.T, plan string) (most int) {
	t.Helper()
	all := rowsRead.FindAllStringSubmatch(plan, -1)
	if len(all) == 0 {
		t.Fatalf("no plan:\n%s", plan)
	}
	for _, m := range all {
		n, err := strconv.Atoi(m[1] + m[2])
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	return most
}
