package main

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/check"
)

// TestRecordAndVerify: what a `waterclock dev` did is recorded, again into the
// same directory, and judged; then a due event is missing.
func TestRecordAndVerify(t *testing.T) {
	kafka, _ := startDev(t)
	dir := filepath.Join(t.TempDir(), "history")
	brokers := []string{"--brokers", kafka}
	run := func(args ...string) result { return cli(t, nil, "", append(brokers, args...)...) }
	run("schedule", "a", "--in", "100ms", "--wait").want(t, exitOK)
	run("events", "record", "--dir", dir).want(t, exitOK, "recorded")
	run("schedule", "b", "--in", "1h").want(t, exitOK)
	run("cancel", "b").want(t, exitOK)
	time.Sleep(200 * time.Millisecond)
	run("events", "record", "--dir", dir).want(t, exitOK, "recorded")
	run("events", "verify", "--from", dir).want(t, exitOK, "2 triggers", "0 violations")
	run("events", "verify", "-o", "json", "--jq", ".counts").want(t, exitOK, "{}")
	run("events", "verify", "--from", t.TempDir()).want(t, exitUsage, "events record")
	run("events", "record").want(t, exitUsage, "--dir")

	h, err := check.OpenDump(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	var files []*check.File
	for _, f := range h.Files() {
		copied := check.NewFile(f.FileMeta)
		if err := f.Records(func(r *check.Record) {
			if f.Topic != "waterclock.due.default" {
				copied.Append(r)
			}
		}); err != nil {
			t.Fatal(err)
		}
		copied.AskedAt += time.Minute.Milliseconds() // all of it is long ago
		files = append(files, copied)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := check.WriteDump(bad, check.NewHistory(h.Prefix, h.Partitions, files)); err != nil {
		t.Fatal(err)
	}
	run("events", "verify", "--from", bad).want(t, exitFailed, "C2 a ", "C10", "it is not there")
	run("events", "verify", "--from", bad, "-o", "ndjson", "--jq", "select(.class)|.class").want(t, exitFailed, "C2", "C10")
}
