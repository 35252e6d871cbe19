package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

// TestTruncatedLog loses the end of one partition of commands, as an unclean
// election does: its only replica in sync dies, and one that was away since
// before becomes the leader. What the engine has read is not there any more, and
// producers write other records to those offsets. The partition is refused by name, the
// others go on, and --accept-gap lets it go on.
func TestTruncatedLog(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	const partitions, lost = 3, 0
	t.Parallel() // it waits, most of the time, and its brokers are its own
	k := services.Kafka(t, services.Nodes(3), services.Property("unclean.leader.election.enable", "true"),
		services.Property("min.insync.replicas", "1"))
	c := newClusterOn(t, k.Bootstrap, partitions)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.DefaultProduceTopic(c.prefix+"commands"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MetadataMinAge(200*time.Millisecond), kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	commands := c.prefix + "commands"
	registerOn(t, adm, commands, lost, 2, 1)
	node := c.nodes(t, 1, partitions)[0]
	l := newLoad(t, c.brokers, c.prefix)
	register := func(name string, partition int32, n int) (keys []string) {
		t.Helper()
		for i := 0; len(keys) < n; i++ {
			key := fmt.Sprintf("%s-%d", name, i)
			if topics.Partition([]byte(key), partitions) == partition {
				l.one(key, time.Now().Add(time.Second), false)
				keys = append(keys, key)
			}
		}
		return keys
	}
	due := c.prefix + "due.default"
	awaitKeys(t, c.brokers, due, register("before", lost, 3)...)

	k.Stop(1) // from here on, node 2 alone has what is written
	await(t, "node 2 to be alone in sync", func() bool {
		return slices.Equal(insync(t, adm, commands, lost),
			[]int32{2})
	})
	awaitKeys(t, c.brokers, due, register("unseen", lost, 3)...)
	k.Kill9(2)
	k.Restart(1)
	await(t, "node 1 to lead", func() bool { return leaderOf(t, adm, commands, lost) == 1 })
	overwrite := register("after", lost, 5) // where the lost ones stood, and beyond
	if slices.ContainsFunc(overwrite, func(key string) bool { return l.unknown[key] }) {
		t.Fatal("the new leader takes no records")
	}

	// Whether the owner goes on by itself or opens anew: it must be refused now.
	await(t, "the partition to be refused", func() bool { return refusedOf(node, lost) != "" })
	if node.ended() {
		t.Fatal("the process ended for one partition")
	}
	said := readyz(node)
	t.Logf("/readyz: %s", said)
	gap := regexp.MustCompile(`--accept-gap (\d+:\d+)`).FindStringSubmatch(said)
	if gap == nil || !strings.HasPrefix(gap[1], fmt.Sprint(lost, ":")) {
		t.Fatalf("/readyz does not say how to go on")
	}
	awaitKeys(t, c.brokers, due, register("other", 1, 3)...)
	awaitKeys(t, c.brokers, due, register("another", 2, 3)...)
	if fired := keysOf(dump(t, c.brokers, due)); slices.Contains(fired, overwrite[0]) {
		t.Errorf("%s fired: the partition was resumed as if nothing had been", overwrite[0])
	}

	node.stop(20 * time.Second)
	node.args = append(node.args, "--accept-gap", gap[1])
	node.launch()
	await(t, "the partition to go on", func() bool {
		return refusedOf(node, lost) == "" &&
			strings.HasPrefix(readyz(node), "ready")
	})
	awaitKeys(t, c.brokers, due, overwrite...)
	awaitKeys(t, c.brokers, due, register("accepted", lost, 3)...)
	k.Restart(2)
	node.stop(20 * time.Second)
	node.args = node.args[:len(node.args)-2]
	node.launch()
	node.ready(60 * time.Second) // it served once, and is not needed again
	awaitKeys(t, c.brokers, due, register("later", lost, 3)...)
}

// registerOn moves a partition to certain brokers, of which the first leads.
func registerOn(t *testing.T, adm *kadm.Client, topic string, partition int32, brokers ...int32) {
	t.Helper()
	var req kadm.AlterPartitionAssignmentsReq
	req.Assign(topic, partition, brokers)
	if _, err := adm.AlterPartitionAssignments(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	await(t, "the partition to have moved", func() bool {
		return len(insync(t, adm, topic,
			partition)) == len(brokers)
	})
	var one kadm.TopicsSet
	one.Add(topic, partition)
	_, _ = adm.ElectLeaders(t.Context(), kadm.ElectPreferredReplica, one) // an error if it leads already
	await(t, "the first broker to lead", func() bool { return leaderOf(t, adm, topic, partition) == brokers[0] })
}

// detail is what the brokers say of a partition; false while none answers.
func detail(t *testing.T, adm *kadm.Client, topic string, partition int32) (kadm.PartitionDetail, bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	all, err := adm.ListTopics(ctx, topic)
	if err != nil {
		return kadm.PartitionDetail{}, false
	}
	p, ok := all[topic].Partitions[partition]
	return p, ok
}

func insync(t *testing.T, adm *kadm.Client, topic string, partition int32) []int32 {
	t.Helper()
	p, _ := detail(t, adm, topic, partition)
	return p.ISR
}

func leaderOf(t *testing.T, adm *kadm.Client, topic string, partition int32) int32 {
	t.Helper()
	if p, ok := detail(t, adm, topic, partition); ok {
		return p.Leader
	}
	return -1
}

// refusedOf is why a partition is refused, by /v1/partitions.
func refusedOf(p *process, partition int) string {
	resp, err := http.Get("http://" + p.http + "/v1/partitions")
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	var body struct {
		Items []struct {
			Partition int
			Refused   string
		}
	}
	if json.NewDecoder(resp.Body).Decode(&body) != nil {
		return ""
	}
	for _, i := range body.Items {
		if i.Partition == partition {
			return i.Refused
		}
	}
	return ""
}

// awaitKeys waits until each of the keys has fired.
func awaitKeys(t *testing.T, brokers []string, topic string, keys ...string) {
	t.Helper()
	for _, key := range keys {
		awaitKey(t, brokers, topic, key)
	}
}
