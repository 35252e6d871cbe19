package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/embedded"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// appendEvents appends events of a trigger to the log, one a second from an hour ago.
func appendEvents(t *testing.T, brokers, key string, from, n int) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	began := time.Now().Add(-time.Hour).Truncate(time.Hour)
	for i := from; i < from+n; i++ {
		at := began.Add(time.Duration(i) * time.Second)
		e := topics.Event{
			EventID: fmt.Sprintf("0-%d", at.UnixMicro()), Type: "trigger.replaced", Version: 1, Trigger: key,
			Tenant:   "default",
			Revision: int64(i + 1),
			Seq:      int64(i + 1), OccurredAt: at.UTC().Format("2006-01-02T15:04:05.000Z"), EventUS: at.UnixMicro(),
			State: "PENDING",
		}
		value, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(t.Context(), &kgo.Record{
			Topic: "waterclock.events", Key: []byte(key),
			Value: value,
		}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// appendDue appends a due event of a trigger, with content.
func appendDue(t *testing.T, brokers, key string) {
	t.Helper()
	now := trigger.At(time.Now())
	k, v, headers := topics.DueRecord(&trigger.Fire{
		Key: trigger.Key(key), Occurrence: "o", Attempt: 1, Fired: now, Nominal: now, Revision: 1,
		Spec: &trigger.Spec{UserID: "u", Payload: []byte(`{"title":"Tea"}`)},
	}, topics.DueEnv{Cluster: "c"})
	rec := &kgo.Record{Topic: "waterclock.due.default", Key: k, Value: v}
	for _, h := range headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if err := cl.ProduceSync(t.Context(), rec).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

func TestHistoryRebuild(t *testing.T) {
	brokers := cluster(t)
	data := t.TempDir()
	live := filepath.Join(data, "history")
	run := func(args ...string) result {
		return cli(t, nil, "", append([]string{"history", "rebuild", "--brokers", brokers, "--data-dir", data},
			args...)...)
	}
	appendEvents(t, brokers, "tea", 0, 5)
	run().want(t, exitOK, "replayed 5 events", "history-rebuild", "there is no history at "+live, "--data-dir")
	run("-o", "json", "--jq", ".compared").want(t, exitOK, "false")
	run("-o", "json", "--jq", ".ends | length > 1, add").want(t, exitOK, "true\n5")
	appendDue(t, brokers, "tea")
	run().want(t, exitOK, "content of 1 emissions; that is all of it")
	run("-o", "json", "--jq", ".contents, .contents_since").want(t, exitOK, "1\nnull")
	if err := os.Rename(filepath.Join(data, "history-rebuild"), live); err != nil {
		t.Fatal(err)
	}
	run().want(t, exitOK, "old 5, new 5: same")
	run("-o", "json", "--jq", ".same, .compared").want(t, exitOK, "true\ntrue")
	run("--dir", live).want(t, exitUsage, "is in use")

	appendEvents(t, brokers, "tea", 5, 1)
	appendEvents(t, brokers, "milk", 2, 1) // missing from the tables in use
	r := run("--dir", filepath.Join(data, "third"))
	r.want(t, exitFailed, "replayed 7 events", "milk", "the fresh tables differ")
	run("--dir", filepath.Join(data, "third"), "--no-compare").want(t, exitOK, "replayed 7 events")
	if strings.Contains(r.err, "replaying") {
		t.Errorf("a bar where there is no terminal: %q", r.err)
	}
}

// The projectors went on with the old tables after the rebuild. The switch sets all three groups back to what
// the new tables hold.
func TestHistorySwitch(t *testing.T) {
	brokers, fresh := cluster(t), filepath.Join(t.TempDir(), "fresh")
	appendEvents(t, brokers, "tea", 0, 5)
	appendDue(t, brokers, "tea")
	cli(t, nil, "", "history", "rebuild", "--brokers", brokers, "--dir", fresh, "--no-compare").want(t, exitOK,
		"replayed 5 events")
	appendEvents(t, brokers, "tea", 5, 3)
	appendEvents(t, brokers, "milk", 0, 2) // on a partition that was empty
	appendDue(t, brokers, "tea")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	for group, topic := range map[string]string{
		"waterclock-history": "waterclock.events", "waterclock-history-letters": "waterclock.dead-letter",
		"waterclock-history-content": "waterclock.due.default",
	} {
		ends, err := admin.ListEndOffsets(t.Context(), topic)
		if err == nil {
			err = admin.CommitAllOffsets(t.Context(), group, ends.Offsets())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	h, err := embedded.Open(embedded.Options{Dir: fresh})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	c, err := config.Load(config.Options{Flags: map[string]string{"brokers": brokers}})
	if err != nil {
		t.Fatal(err)
	}
	moves := func() (moved []string) {
		t.Helper()
		var out, note strings.Builder
		a := newApp(stdio{out: &out, err: &note})
		a.out.format = "json"
		var all []sinks.Moved
		if err := errors.Join(a.switchTo(t.Context(), c, h), json.Unmarshal([]byte(out.String()), &all)); err != nil {
			t.Fatal(err)
		}
		if want := plural(len(all), "offset"); !strings.HasPrefix(note.String(), want) {
			t.Errorf("it says %q, want %q", note.String(), want)
		}
		for _, m := range all {
			moved = append(moved, fmt.Sprintf("%s: %d to %d", m.Group, m.From, m.To))
		}
		slices.Sort(moved)
		return moved
	}
	want := []string{
		"waterclock-history-content: 2 to 1", "waterclock-history: 2 to 0", "waterclock-history: 8 to 5",
	}
	if got := moves(); !slices.Equal(got, want) {
		t.Errorf("set %q, want %q", got, want)
	}
	if got := moves(); len(got) != 0 {
		t.Errorf("the second time it set %q", got)
	}
}

func TestHistoryUsage(t *testing.T) {
	cli(t, nil, "", "history", "migrate").want(t, exitUsage, "cassandra.hosts")
	cli(t, nil, "", "history", "switch").want(t, exitUsage, "cassandra.hosts")
	brokers := cluster(t)
	cli(t, nil, "", "history", "rebuild", "--brokers", brokers, "--keyspace", "x").want(t, exitUsage,
		"--keyspace needs cassandra.hosts")
	cli(t, nil, "", "history", "rebuild", "--brokers", brokers, "--cassandra-hosts", "127.0.0.1:1", "--dir",
		"x").want(t,
		exitUsage, "--dir is for histories without Cassandra")
	cli(t, nil, "", "history", "rebuild", "--brokers", brokers, "--cassandra-hosts", "127.0.0.1:1", "--keyspace",
		"waterclock").want(t, exitUsage, "is in use")
	cli(t, nil, "", "history", "rebuild", "--brokers", nobody(t)).want(t, exitFailed, "no broker answers")
}

// docs/formats/events.md: history.retention (90d) is independent of the log's retention, for
// every kind of tables, and also for rebuilt tables.
func TestHistoryRetention(t *testing.T) {
	const day = 24 * time.Hour
	for _, flags := range []map[string]string{
		{},
		{"events.retention": "unlimited", "events.payload": "false"},
		{"events.retention": "10d"},
		{"history.retention": "200d"},
	} {
		want := 90 * day
		if flags["history.retention"] != "" {
			want = 200 * day
		}
		flags["cassandra.hosts"] = "127.0.0.1"
		c, err := config.Load(config.Options{Flags: flags})
		if err != nil {
			t.Fatal(err)
		}
		o, err := node.CassandraOptions(c)
		if err != nil {
			t.Fatal(err)
		}
		if embedded := node.EmbeddedOptions(c, t.TempDir()).Retention; o.Retention != want || embedded != want {
			t.Errorf("%v: kept for %s in Cassandra, for %s in a directory, want %s", flags, o.Retention, embedded, want)
		}
	}
}
