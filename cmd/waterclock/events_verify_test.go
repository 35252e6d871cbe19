package main

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
)

// TestRecordAndVerify: the events of a `waterclock dev` are recorded, recorded once more into the
// same directory, and verified. Then a due event is missing.
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
		copied.AskedAt += time.Minute.Milliseconds() // as if everything was long ago
		files = append(files, copied)
	}
	bad := filepath.Join(t.TempDir(), "bad")
	if err := check.WriteDump(bad, check.NewHistory(h.Prefix, h.Partitions, files)); err != nil {
		t.Fatal(err)
	}
	run("events", "verify", "--from", bad).want(t, exitFailed, "C2 a ", "C10", "it is not there")
	run("events", "verify", "--from", bad, "-o", "ndjson", "--jq", "select(.class)|.class").want(t, exitFailed, "C2",
		"C10")
}

// What came and expired before the first record of a file is a gap, too.
func TestRecordOverAGapFromTheBeginning(t *testing.T) {
	brokers, dir := cluster(t), filepath.Join(t.TempDir(), "history")
	record := func(more ...string) result {
		return cli(t, nil, "", append([]string{"events", "record", "--dir", dir, "--brokers", brokers}, more...)...)
	}
	record().want(t, exitOK, "recorded 0 records")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("waterclock.rejected"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for range 5 {
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	expired := kadm.Offsets{}
	expired.Add(kadm.Offset{Topic: "waterclock.rejected", At: 5})
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), expired); err != nil {
		t.Fatal(err)
	}
	record().want(t, exitLoss, "recorded 0 records", "waterclock.rejected/0: offsets 0 to 4 have expired")
	record().want(t, exitOK, "recorded 0 records")

	// What was named once is recorded from then on, with its lane.
	if _, err := kadm.NewClient(cl).CreateTopics(t.Context(), 1, 1, nil, "own", "own.high"); err != nil {
		t.Fatal(err)
	}
	record("--topic", "own").want(t, exitOK)
	record().want(t, exitOK)
	h, err := check.OpenDump(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, topic := range []string{"own", "own.high"} {
		if !slices.ContainsFunc(h.Files(), func(f *check.File) bool { return f.Topic == topic }) {
			t.Errorf("the dump lacks topic %s", topic)
		}
	}
	record("--set", "topics.prefix=other.").want(t, exitFailed, `prefix "waterclock.", not "other."`)
	if _, err := kadm.NewClient(cl).DeleteTopics(t.Context(), "own.high"); err != nil {
		t.Fatal(err)
	}
	record().want(t, exitOK, "topic own.high is gone")
}

// A directory keeps to one cluster, and to its topics.
func TestRecordOfAnotherCluster(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	for i, brokers := range []string{cluster(t), cluster(t)} {
		cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("waterclock.events"),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		for range 3 - 2*i {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		r := cli(t, nil, "", "events", "record", "--dir", dir, "--brokers", brokers)
		if i == 0 {
			r.want(t, exitOK, "recorded 3 records")
		} else {
			r.want(t, exitFailed, "waterclock.", "another --dir")
		}
		h, err := check.OpenDump(dir) // what was refused has changed nothing
		if err != nil {
			t.Fatal(err)
		}
		records := 0
		for _, f := range h.Files() {
			if err := f.Records(func(*check.Record) { records++ }); err != nil {
				t.Error(err)
			}
		}
		if err := h.Close(); err != nil || records != 3 || len(h.Files()) < 8 {
			t.Errorf("%d records in %d files: %v", records, len(h.Files()), err)
		}
	}
}

// A recording with a gap reports the gap and keeps the rest.
func TestRecordOverAGap(t *testing.T) {
	brokers, dir := cluster(t), filepath.Join(t.TempDir(), "history")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("waterclock.events"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	produce := func(n int) {
		for range n {
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord("x")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	record := func() result { return cli(t, nil, "", "events", "record", "--dir", dir, "--brokers", brokers) }
	produce(2)
	record().want(t, exitOK, "recorded 2 records")
	produce(3)
	expired := kadm.Offsets{}
	expired.Add(kadm.Offset{Topic: "waterclock.events", At: 4})
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), expired); err != nil {
		t.Fatal(err)
	}
	record().want(t, exitLoss, "recorded 1 record", "waterclock.events/0: offsets 2 to 3 have expired",
		"records expired before they were recorded")
	produce(1)
	record().want(t, exitOK, "recorded 1 record")
}
