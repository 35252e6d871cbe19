package e2e

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// rowsOfTables reads all rows of all tables of a keyspace: by table, each row as JSON, which tells null from empty.
func rowsOfTables(t *testing.T, db *gocql.Session, keyspace string) map[string]map[string]int {
	t.Helper()
	all := map[string]map[string]int{}
	scan(t, db, fmt.Sprintf("SELECT table_name FROM system_schema.tables WHERE keyspace_name = '%s'", keyspace),
		func(r map[string]any) { all[r["table_name"].(string)] = map[string]int{} })
	for name, rows := range all {
		scan(t, db, "SELECT JSON * FROM "+name, func(r map[string]any) { rows[fmt.Sprint(r["[json]"])]++ })
	}
	return all
}

// partlyRestored: the copy has some rows of each table, and lacks others that it had when the keyspace was lost.
// Else the rest of the test says nothing of a table.
func partlyRestored(t *testing.T, before, restored map[string]map[string]int) {
	t.Helper()
	static := []string{"schema_migrations", "dead_letter_tenants"} // its tenants of a month, which is one
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if name == "schema_lock" { // is empty unless somebody migrates
			continue
		}
		if len(before[name]) == 0 || len(restored[name]) == 0 {
			t.Errorf("%s has %d rows, and %d in the copy: nothing to compare", name, len(before[name]),
				len(restored[name]))
		}
		if maps.Equal(before[name], restored[name]) && !slices.Contains(static, name) {
			t.Errorf("%s is in the copy as it was at the end: nothing is completed", name)
		}
	}
}

// sameTables: every table has the same rows as before the keyspace was lost.
func sameTables(t *testing.T, before, after map[string]map[string]int) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		differ(t, name+" since the restore", before[name], after[name])
	}
	if len(after) != len(before) {
		t.Errorf("%d tables, there were %d", len(after), len(before))
	}
}

// awaitTopics waits until the history has applied all of its topics up to where they end now: events, dead letters,
// and what notifications said.
func awaitTopics(t *testing.T, db *gocql.Session, w *world) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	names, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	read := slices.DeleteFunc(names.Names(), func(name string) bool {
		return name != w.topic("events") && name != w.topic("dead-letter") && !strings.HasPrefix(name, w.topic("due."))
	})
	ends, err := admin.ListCommittedOffsets(t.Context(), read...)
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the history to read "+strings.Join(read, ", "), func() bool {
		behind := map[string]bool{}
		ends.Each(func(o kadm.ListedOffset) { behind[fmt.Sprint(o.Topic, "/", o.Partition)] = o.Offset > 0 })
		scan(t, db, "SELECT topic, partition, next_offset FROM progress", func(r map[string]any) {
			topic, partition := r["topic"].(string), r["partition"].(int)
			if end, ok := ends.Lookup(topic, int32(partition)); ok && r["next_offset"].(int64) >= end.Offset {
				behind[fmt.Sprint(topic, "/", partition)] = false
			}
		})
		return !slices.Contains(slices.Collect(maps.Values(behind)), true)
	})
}

// workSMS is a worker of channel sms, until the test ends. The first attempt at a trigger whose payload says so fails
// for good, and all else is delivered.
func workSMS(t *testing.T, w *world) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	follow := w.follow(t, "due.sms")
	producer := w.producer(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			follow.cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
				outcome, attempt := topics.OutcomeDelivered, header(r, "ce_wcattempt")
				if strings.Contains(string(r.Value), "Nobody is there") && attempt == "1" {
					outcome = topics.OutcomeFailed
				}
				value := fmt.Sprintf(`{"due_id":%q,"channel":"sms","outcome":%q,"attempt":%s,"detail":"no such line"}`,
					header(r, "ce_id"), outcome, attempt)
				receipt := &kgo.Record{
					Topic: w.topic("receipts"), Key: r.Key, Value: []byte(value), Partition: r.Partition,
				}
				if err := producer.ProduceSync(ctx, receipt).FirstErr(); err != nil && ctx.Err() == nil {
					t.Errorf("receipt: %v", err)
				}
			})
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// notifications are the lives of six notifications of a user: three are delivered and three become dead letters. One of
// the letters is redriven, and one of each kind is erased. It returns a letter and a delivered one that are left.
func notifications(t *testing.T, w *world, name string) (letter, delivered string) {
	t.Helper()
	id := func(i int) string { return fmt.Sprintf("%s-%d", name, i) }
	for i := range 6 {
		body := []string{"Nobody is there", "Take two"}[i%2]
		wants(t, id(i), w.call(t, http.MethodPut, "/v1/triggers/"+id(i), fmt.Sprintf(
			`{"delay":"0s","channel":"sms","user_id":"ann","tags":{"type":"pills"},"payload":{"title":"Pills","body":%q}}`,
			body)), 201)
	}
	happened := func(id string, of trigger.FactType) {
		t.Helper()
		await(t, fmt.Sprintf("%s of %s", of, id), func() bool {
			return slices.Contains(types(w.events(t)[id]), string(of))
		})
	}
	for i := range 6 {
		happened(id(i), []trigger.FactType{trigger.DeadLettered, trigger.DeliveryDelivered}[i%2])
	}
	await(t, "its letter to be listed", func() bool {
		_, code, _ := w.cli(t, "redrive", id(0))
		return code == 0
	})
	happened(id(0), trigger.DeliveryDelivered)
	for _, gone := range []string{id(1), id(2)} {
		erase(t, w, gone)
	}
	return id(4), id(3)
}

func erase(t *testing.T, w *world, id string) {
	t.Helper()
	w.must(t, "erase", id)
	await(t, "the erasure of "+id, func() bool {
		return slices.Contains(types(w.events(t)[id]), string(trigger.ErasedFact))
	})
}
