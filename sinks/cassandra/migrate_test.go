package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	schema "github.com/waterclock/waterclock/schemas/cassandra"
	"github.com/waterclock/waterclock/test/services"
)

func freshKeyspace(t *testing.T) Options {
	t.Helper()
	o := Options{Hosts: services.Cassandra(t).Hosts, Keyspace: fmt.Sprintf("test_%08x", rand.Uint32())}
	t.Cleanup(func() { dropKeyspace(t, o) })
	return o
}

func known(t *testing.T) []migration {
	t.Helper()
	all, err := loadMigrations(schema.Migrations)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// next returns a migration that is in no release yet.
func next(after []migration, cql ...string) migration {
	return migration{version: len(after) + 1, name: "next", checksum: strings.Repeat("0", 64), statements: cql}
}

func TestMigrateTwice(t *testing.T) {
	o := freshKeyspace(t)
	first, err := Migrate(context.Background(), o)
	if err != nil || len(first.Applied) != len(known(t)) || first.Version != len(known(t)) {
		t.Fatalf("first: %+v, %v", first, err)
	}
	second, err := Migrate(context.Background(), o)
	if err != nil || len(second.Applied) != 0 || second.Version != first.Version {
		t.Fatalf("second: %+v, %v", second, err)
	}
	if err := openTest(t, o).Ping(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// When many processes start at once, one of them applies each migration.
func TestMigrateConcurrently(t *testing.T) {
	o := freshKeyspace(t)
	var mu sync.Mutex
	var applied []string
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			done, err := Migrate(context.Background(), o)
			mu.Lock()
			defer mu.Unlock()
			applied = append(applied, done.Applied...)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if want := known(t); len(applied) != len(want) {
		t.Errorf("applied %v, want each of %d once", applied, len(want))
	}
}

// A migrator that died between two statements leaves no row. The next one restarts the migration.
func TestMigrateResumes(t *testing.T) {
	o := freshKeyspace(t)
	broken := slices.Clone(known(t))
	broken[0].statements = append(slices.Clone(broken[0].statements[:2]), "CREATE NONSENSE")
	if _, err := migrate(context.Background(), o.withDefaults(), broken); err == nil ||
		!strings.Contains(err.Error(), "0001_history: statement 3") {
		t.Fatalf("a migration that fails: %v", err)
	}
	if err := openTest(t, o).Ping(context.Background()); !errors.Is(err, ErrSchema) {
		t.Errorf("a half-made schema is used: %v", err)
	}
	done, err := Migrate(context.Background(), o)
	if err != nil || len(done.Applied) != len(known(t)) {
		t.Fatalf("resumed: %+v, %v", done, err)
	}
}

func TestMigrateUpgrades(t *testing.T) {
	o := freshKeyspace(t).withDefaults()
	if _, err := Migrate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	now := len(known(t))
	newer := append(known(t), next(known(t), "ALTER TABLE progress ADD IF NOT EXISTS note text"))
	done, err := migrate(context.Background(), o, newer)
	if err != nil || len(done.Applied) != 1 || done.Applied[0] != fmt.Sprintf("%04d_next", now+1) {
		t.Fatalf("upgrade: %+v, %v", done, err)
	}
	// From here on, this binary is the older one.
	_, err = Migrate(context.Background(), o)
	requireRefusal(t, err, fmt.Sprintf("is at version %d (next) and this binary knows up to %d", now+1, now),
		"newer waterclock")
	requireRefusal(t, openTest(t, o).Ping(context.Background()), fmt.Sprintf("is at version %d", now+1),
		"newer waterclock")
}

func TestSchemaRefusals(t *testing.T) {
	o := freshKeyspace(t).withDefaults()
	changed := slices.Clone(known(t))
	changed[0].checksum = strings.Repeat("f", 64)
	if _, err := migrate(context.Background(), o, changed); err != nil {
		t.Fatal(err)
	}
	_, err := Migrate(context.Background(), o)
	requireRefusal(t, err, "a released migration was changed")
	requireRefusal(t, openTest(t, o).Ping(context.Background()), "a released migration was changed")
}

// A schema that is behind is refused until it is migrated. Then the same store works.
func TestSchemaBehind(t *testing.T) {
	o := freshKeyspace(t).withDefaults()
	if _, err := migrate(context.Background(), o, []migration{next(nil,
		"CREATE TABLE IF NOT EXISTS other (k int PRIMARY KEY)")}); err != nil {
		t.Fatal(err)
	}
	session, err := oneNode(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	if err := session.Query(`TRUNCATE schema_migrations`).Exec(); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, o)
	requireRefusal(t, s.Ping(context.Background()),
		fmt.Sprintf("is at version 0 and this binary needs %d", len(known(t))), "run its migrations first")
	if _, err := Migrate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(context.Background()); err != nil {
		t.Errorf("after the migration: %v", err)
	}
}

func requireRefusal(t *testing.T, err error, words ...string) {
	t.Helper()
	if !errors.Is(err, ErrSchema) {
		t.Fatalf("want a refusal of the schema: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("no %q in: %v", w, err)
		}
	}
}

// A migrator waits while another holds the lock. A caller may give up.
func TestMigrateWaitsForTheLock(t *testing.T) {
	o := freshKeyspace(t).withDefaults()
	if _, err := prepare(context.Background(), o, known(t)); err != nil {
		t.Fatal(err)
	}
	session, err := oneNode(o, o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	other := &migrator{opts: o, session: session, owner: "other"}
	if err := other.lock(context.Background()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if _, err := Migrate(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("migrated under another's lock: %v", err)
	}
	if err := other.renew(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := other.unlock(); err != nil {
		t.Fatal(err)
	}
	if err := other.renew(context.Background()); !errors.Is(err, errLockLost) {
		t.Errorf("a lock that is gone is renewed: %v", err)
	}
	if _, err := Migrate(context.Background(), o); err != nil {
		t.Fatal(err)
	}
}

func TestLoadMigrations(t *testing.T) {
	const ok = "-- why\nCREATE TABLE a (\n  k int PRIMARY KEY -- a key; of a\n);\nALTER TABLE a ADD b int;\n"
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		want  string
	}{
		{"two in order", fstest.MapFS{"0001_a.cql": file(ok), "0002_b.cql": file(ok)}, ""},
		{
			"a gap",
			fstest.MapFS{"0001_a.cql": file(ok), "0003_b.cql": file(ok)},
			"0003_b.cql: its number should be 0002",
		},
		{
			"a number twice",
			fstest.MapFS{"0001_a.cql": file(ok), "0001_b.cql": file(ok)},
			"0001_b.cql: its number should be 0002",
		},
		{"no number", fstest.MapFS{"a.cql": file(ok)}, "want NNNN_name.cql"},
		{"nothing in it", fstest.MapFS{"0001_a.cql": file("-- nothing\n;\n")}, "no statement"},
	} {
		all, err := loadMigrations(c.files)
		if c.want == "" && (err != nil || len(all) != 2 || len(all[0].statements) != 2) {
			t.Errorf("%s: %+v, %v", c.name, all, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: want %q, got %v", c.name, c.want, err)
		}
	}
}

// Released migrations never change. Add a new one, and its line here.
func TestReleasedMigrations(t *testing.T) {
	released := []string{
		"history 7164f8bf944028d2", "dead_letters c4bce2acf68f8dfe", "notifications 20877fb8be1462ca",
		"rules 9fa139770616382c", "effective c1ebd8a1531a6279",
	}
	for i, m := range known(t) {
		if i >= len(released) {
			t.Fatalf("%04d_%s is not listed here", m.version, m.name)
		}
		if got := m.name + " " + m.checksum; !strings.HasPrefix(got, released[i]) {
			t.Errorf("%04d is %.40s…, released as %s", m.version, got, released[i])
		}
	}
}
