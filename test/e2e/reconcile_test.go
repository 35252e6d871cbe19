package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/test/built"
)

// TestReconcile takes a timer out of a stopped server's store, and adds one that belongs to
// nobody. A dry run names both, a run mends them, and the next finds nothing. The rows of
// the history are compared as well (sinktest.CheckRow loses some).
func TestReconcile(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "dev", "--kafka-listen", built.FreeAddr(t), "--data-dir", data, "--set", "topics.partitions=1")
	p.ready(30 * time.Second)
	cli := func(want int, args ...string) string {
		t.Helper()
		out, code, stderr := waterclock(t, "", append(args, "--url", "http://"+p.http)...)
		if code != want {
			t.Fatalf("%v: exit code %d, want %d: %s%s", args, code, want, out, stderr)
		}
		return out
	}
	for _, id := range []string{"a", "b", "c"} {
		cli(0, "schedule", id, "--every", "every:1d", "--start", "2060-01-01T00:00:00Z", "--tz", "UTC")
	}
	cli(0, "snooze", "b", "--for", "1h") // now it has two timers
	if found := reconciled(t, cli(0, "reconcile", "-o", "ndjson")); len(found) != 0 {
		t.Fatalf("leaks of a server that is well: %v", found)
	}
	p.stop(20 * time.Second)

	edit(t, filepath.Join(data, "store", "0"), func(db *pebble.DB) {
		timers := keysWith(t, db, "d", "b\x00")
		if len(timers) != 2 {
			t.Fatalf("%q", timers)
		}
		nobody := strings.Replace(timers[1], "b\x00", "nobody\x00", 1)
		if err := db.Delete([]byte(timers[1]), pebble.Sync); err != nil {
			t.Fatal(err)
		}
		if err := db.Set([]byte(nobody), nil, pebble.Sync); err != nil {
			t.Fatal(err)
		}
	})
	p.launch()
	p.ready(30 * time.Second)

	want := map[string]string{"timer_missing b": "", "timer_stray nobody": ""}
	for _, dry := range []bool{true, false} {
		args, code := []string{"reconcile", "-o", "ndjson"}, 0
		if dry {
			args, code = append(args, "--dry-run"), 1
		}
		found := reconciled(t, cli(code, args...))
		for leak := range want {
			if mended, ok := found[leak]; !ok || mended == dry {
				t.Errorf("dry run %v: %s: found %v, mended %v", dry, leak, ok, mended)
			}
		}
		if len(found) != len(want) {
			t.Errorf("dry run %v: %v", dry, found)
		}
	}
	if found := reconciled(t, cli(0, "reconcile", "-o", "ndjson")); len(found) != 0 {
		t.Errorf("left: %v", found)
	}
	if n := p.sum("waterclock_reconcile_leaks_total"); n != 4 { // each once by either run
		t.Errorf("%v leaks were counted", n)
	}
}

// reconciled maps each leak to whether it was mended.
func reconciled(t *testing.T, out string) map[string]bool {
	t.Helper()
	found := map[string]bool{}
	for _, line := range lines(t, out) {
		var r struct {
			Leaks []struct {
				Kind      string `json:"kind"`
				TriggerID string `json:"trigger_id"`
				Mended    bool   `json:"mended"`
			} `json:"leaks"`
			Error string `json:"error"`
			Rows  int    `json:"rows"`
		}
		text, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &r); err != nil || r.Error != "" || r.Rows != 3 {
			t.Fatalf("%s: %v", text, err)
		}
		for _, l := range r.Leaks {
			found[l.Kind+" "+l.TriggerID] = l.Mended
		}
	}
	return found
}

func edit(t *testing.T, dir string, change func(*pebble.DB)) {
	t.Helper()
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	change(db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// keysWith lists the keys of a table that contain a text.
func keysWith(t *testing.T, db *pebble.DB, table, text string) (keys []string) {
	t.Helper()
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte(table), UpperBound: []byte{table[0] + 1}})
	if err != nil {
		t.Fatal(err)
	}
	for it.First(); it.Valid(); it.Next() {
		if strings.Contains(string(it.Key()), text) {
			keys = append(keys, string(it.Key()))
		}
	}
	if err := it.Close(); err != nil {
		t.Fatal(err)
	}
	return keys
}
