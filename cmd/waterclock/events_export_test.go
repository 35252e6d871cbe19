package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// An export reports what it did, continues after its last run, and refuses with the exit codes of
// docs/cli.md.
func TestEventsExport(t *testing.T) {
	brokers, dir := cluster(t), filepath.Join(t.TempDir(), "lake")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("waterclock.events"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	produce := func(days ...int) {
		for _, day := range days {
			text := fmt.Sprintf(`{"type":"occurrence.fired","trigger":"k","event_us":%d}`, int64(day)*86_400_000_000+1)
			if err := cl.ProduceSync(t.Context(), kgo.StringRecord(text)).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(args ...string) result {
		return cli(t, nil, "", append([]string{"--brokers", brokers, "events"}, args...)...)
	}
	export := func(args ...string) result { return run(append([]string{"export", "--dir", dir}, args...)...) }
	run("export").want(t, exitUsage, "--dir")
	run("views", "--dir", dir).want(t, exitNotFound, "has no export yet")
	run("views").want(t, exitUsage, "--dir")
	export("--accept-gap", "x").want(t, exitUsage, "PARTITION:OFFSET")
	export("--accept-gap", "99:1").want(t, exitUsage, "--accept-gap 99:1", "no such partition in waterclock.events")
	export("--set", "export.user_hash_key=short").want(t, exitUsage, "shorter than 16 bytes")
	export("--set", "topics.prefix=other.").want(t, exitNotFound, "there is no topic other.events")
	export("--url", "http://127.0.0.1:1").want(t, exitOK) // the brokers are named as well

	produce(20000, 20000, 20001, 20001)
	export().want(t, exitOK, "exported 4 events to "+dir+": 1 file sealed, 2 events in the tail",
		"user ids and tags are left out")
	export("-o", "json", "--jq", ".events").want(t, exitOK, "2\n")
	run("views", "--dir", dir).want(t, exitOK, "views.sql", "16 views")
	if text, err := os.ReadFile(filepath.Join(dir, "views.sql")); err != nil || len(text) == 0 {
		t.Error(err)
	}
	export("--set", "export.plain_users=true").want(t, exitUsage, "foreign_directory", "export.plain_users")

	produce(20001, 20001)
	expired := kadm.Offsets{}
	expired.Add(kadm.Offset{Topic: "waterclock.events", At: 5})
	if _, err := kadm.NewClient(cl).DeleteRecords(t.Context(), expired); err != nil {
		t.Fatal(err)
	}
	export().want(t, exitLoss, "export_gap", "offsets 4 to 4", "--accept-gap 0:4")
	export("--accept-gap", "0:2").want(t, exitLoss, "export_gap")
	export("--accept-gap", "0:4").want(t, exitOK, "exported 3 events", "1 file sealed", "1 event in the tail")
	export().want(t, exitOK)

	file := filepath.Join(dir, "events", "date=2024-10-04", "p=00", "0-1.parquet")
	if err := os.Truncate(file, 10); err != nil {
		t.Fatal(err)
	}
	export().want(t, exitLoss, "damaged_directory", "has 10 bytes")
}

// The directory may come from a setting, and the secret from a file.
func TestEventsExportSettings(t *testing.T) {
	brokers, dir := cluster(t), filepath.Join(t.TempDir(), "lake")
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	set := []string{"--brokers", brokers, "--set", "export.dir=" + dir, "--set", "export.user_hash_key=file:" + key}
	r := cli(t, nil, "", append(set, "events", "export")...)
	r.want(t, exitOK, "exported 0 events to "+dir)
	cli(t, nil, "", append(set, "events", "views")...).want(t, exitOK, dir)
	cli(t, nil, "", append(set, "--set", "export.plain_users=true", "events", "export")...).want(t, exitUsage,
		"omit one of them")
}
