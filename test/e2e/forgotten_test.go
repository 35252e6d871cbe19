package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// TestForgottenMarker kills a cluster of one broker with an owner's transaction
// under way: once before its end, once right after. Kafka 4.3.1 ends it without
// a marker in partitions that have no leader at that moment, which are all
// (pipeline/dangling). The next owner's first commit would make true what was
// aborted; and what was committed would not be seen before that.
func TestForgottenMarker(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	t.Parallel() // it waits, most of the time, and its brokers are its own
	k := services.Kafka(t, services.Own())
	c := newClusterOn(t, k.Bootstrap, 1)
	due := c.prefix + "due.default"
	a := c.nodes(t, 1, 1)[0]
	l := newLoad(t, c.brokers, c.prefix)
	l.one("first", time.Now().Add(time.Second), false)
	awaitKey(t, c.brokers, due, "first")

	for _, ghost := range []struct {
		key    string
		commit bool
	}{{"aborted", false}, {"committed", true}} {
		a.stop(20 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		// over when the broker is back
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.TransactionalID(c.prefix+"engine-0"),
			kgo.TransactionTimeout(time.Second),
			kgo.RecordPartitioner(kgo.ManualPartitioner()))
		if err != nil {
			t.Fatal(err)
		}
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: due, Key: []byte(ghost.key)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if ghost.commit {
			if err := cl.EndTransaction(ctx, kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
		}
		k.Kill9(1)
		cl.Close()
		k.Restart(1)
		ended := awaitEnding(t, c.brokers, c.prefix+"engine-0")
		if committed := ended == "CompleteCommit"; committed != ghost.commit {
			t.Fatalf("%s: the transaction's state is %s", ghost.key, ended)
		}
		t.Logf("%s: the broker says %s; left open: %v", ghost.key, ended, leftOpen(t, c.brokers, due))

		a.launch()
		a.ready(60 * time.Second)
		awaitOwners(t, a, 1, 1)
		awaitEnded(t, c.brokers, due)
		after := ghost.key + "-after"
		l.one(after, time.Now().Add(time.Second), false)
		awaitKey(t, c.brokers, due, after)
		if seen := slices.Contains(keysOf(dump(t, c.brokers, due)), ghost.key); seen != ghost.commit {
			t.Errorf("%s: seen is %v", ghost.key, seen)
		}
	}
}

// awaitEnding waits until the coordinator is through with a transaction.
func awaitEnding(t *testing.T, brokers []string, id string) string {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		found, err := kadm.NewClient(cl).DescribeTransactions(t.Context(), id)
		if state := found[id].State; err == nil && strings.HasPrefix(state, "Complete") {
			return state
		}
		if time.Now().After(deadline) {
			t.Fatalf("transaction %s: %+v, %v", id, found[id], err)
		}
	}
}

// leftOpen says whether a transaction is open in a partition of topics.
func leftOpen(t *testing.T, brokers []string, topics ...string) (open bool) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	stable, err := adm.ListCommittedOffsets(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(end kadm.ListedOffset) {
		s, _ := stable.Lookup(end.Topic, end.Partition)
		open = open || s.Offset < end.Offset
	})
	return open
}

// awaitEnded waits until no transaction is open in topics.
func awaitEnded(t *testing.T, brokers []string, topics ...string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); leftOpen(t, brokers,
		topics...); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("a transaction is still open in %v", topics)
		}
	}
}

func keysOf(rs []*kgo.Record) (keys []string) {
	for _, r := range rs {
		keys = append(keys, string(r.Key))
	}
	return keys
}

func awaitKey(t *testing.T, brokers []string, topic, key string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !slices.Contains(keysOf(dump(t, brokers, topic)),
		key); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s did not fire", key)
		}
	}
}
