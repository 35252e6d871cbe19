package e2e

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/test/services"
)

// TestRestoreOfCassandra rehearses docs/operations/backup.md: a history is copied by nodetool snapshot while it is
// written, lost, and restored. What was written after the copy comes from topics events, dead-letter and due.*. Every
// table has the same rows then as before.
func TestRestoreOfCassandra(t *testing.T) {
	t.Parallel()
	cassandra := services.OwnCassandra(t)
	keyspace := newName("history_")
	tables := []string{"--cassandra-hosts", strings.Join(cassandra.Hosts, ","), "--cassandra-keyspace", keyspace}
	w := newServeWorld(t, "engine,api", tables...)
	history := start(t, "history", append(append([]string{"serve", "--roles", "history", "--data-dir", t.TempDir()},
		w.cluster.args...), tables...)...)
	history.ready(60 * time.Second)
	l := newLoad(t, w.brokers, w.prefix)
	stop := l.startAs("h", 50)
	awaitTables(t, cassandra.Hosts, keyspace)
	db := session(t, cassandra.Hosts, keyspace)
	workSMS(t, w)
	letter, delivered := notifications(t, w, "copied")
	await(t, "a history to copy", func() bool { return rows(t, db, "events_by_trigger") > 200 })
	awaitTopics(t, db, w)

	cassandra.Nodetool("snapshot", "-t", "first", "-kt", keyspace+".progress")
	time.Sleep(2 * time.Second) // nodes of a cluster are further apart than this
	cassandra.Nodetool("snapshot", "-t", "then", keyspace)
	backup := t.TempDir()
	copySnapshot(t, filepath.Join(cassandra.DataDir(), keyspace), "then", backup)
	copySnapshot(t, filepath.Join(cassandra.DataDir(), keyspace), "first", backup)
	notifications(t, w, "since")
	erase(t, w, letter)
	erase(t, w, delivered)
	stop()
	await(t, "all that is due to fire", func() bool {
		return len(l.violations(dump(t, w.brokers, w.topic("due.default")))) == 0
	})
	l.judge(w.brokers, w.prefix)
	log := w.events(t)
	inLog := 0
	for _, events := range log {
		inLog += len(events)
	}
	awaitTopics(t, db, w)
	before := rowsOfTables(t, db, keyspace)

	history.stop(20 * time.Second)
	db.Close()
	everywhere := session(t, cassandra.Hosts, "system")
	if err := everywhere.Query("DROP KEYSPACE " + keyspace).Exec(); err != nil {
		t.Fatal(err)
	}
	wants(t, "events without a keyspace", w.call(t, "GET", "/v1/triggers/h-0/events", ""), 503)

	create := "CREATE KEYSPACE " + keyspace + " WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}"
	if err := everywhere.Query(create).Exec(); err != nil {
		t.Fatal(err)
	}
	for _, table := range tablesIn(t, backup) {
		makeTable(t, everywhere, filepath.Join(backup, table, "schema.cql"))
		cassandra.Nodetool("import", keyspace, table, filepath.Join(backup, table))
	}
	db = session(t, cassandra.Hosts, keyspace)
	restored := rows(t, db, "events_by_trigger")
	if restored < 200 || restored >= inLog {
		t.Fatalf("%d events are restored of %d in the log, want more than 200 and not all", restored, inLog)
	}
	partlyRestored(t, before, rowsOfTables(t, db, keyspace))
	w.must(t, append([]string{"history", "switch"}, tables...)...)
	history.launch()
	history.ready(60 * time.Second)
	awaitTopics(t, db, w)
	sameTables(t, before, rowsOfTables(t, db, keyspace))
	judgeRows(t, db, log)
	judgeStates(t, db, log)
	judgeMinutes(t, db, log)
	answersFromHistory(t, w, log, "h-0", "h-1", "h-300", "h-500", "since-0", letter)
}

func rows(t *testing.T, db *gocql.Session, table string) (n int) {
	t.Helper()
	if err := db.Query("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// copySnapshot copies what nodetool snapshot has made of each table of a keyspace. A table that is there is replaced.
func copySnapshot(t *testing.T, keyspace, tag, to string) {
	t.Helper()
	made, err := filepath.Glob(filepath.Join(keyspace, "*", "snapshots", tag))
	if err != nil || len(made) == 0 {
		t.Fatalf("no snapshot %s below %s: %v", tag, keyspace, err)
	}
	for _, from := range made {
		table, _, _ := strings.Cut(filepath.Base(filepath.Dir(filepath.Dir(from))), "-")
		target := filepath.Join(to, table)
		if err := os.RemoveAll(target); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(target, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
}

func tablesIn(t *testing.T, backup string) (names []string) {
	t.Helper()
	all, err := fs.ReadDir(os.DirFS(backup), ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func makeTable(t *testing.T, db *gocql.Session, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for statement := range strings.SplitSeq(string(text), ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if err := db.Query(statement).Exec(); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}
