package e2e

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/test/services"
)

// The brokers' versions before and after. The second is the services' own.
const (
	brokersFrom = "4.2.1"
	brokersTo   = "4.3.1"
)

// TestBrokerUpgrade replaces three brokers by the next version, one after
// another under load, and then raises the cluster's metadata version, as
// Kafka's upgrade guide has it.
func TestBrokerUpgrade(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	const partitions = 6
	t.Parallel() // it waits, most of the time, and its brokers are its own
	k := services.Kafka(t, services.Nodes(3), services.Version(brokersFrom))
	c := newClusterOn(t, k.Bootstrap, partitions)
	nodes := c.nodes(t, 2, partitions)
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.brokers...), kgo.MetadataMinAge(200*time.Millisecond),
		kgo.MetadataMaxAge(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	l := newLoad(t, c.brokers, c.prefix)
	stop := l.startAs("u", 60)
	for n := 1; n <= 3; n++ {
		await(t, "all replicas to be in sync", func() bool { return allInSync(t, adm, 3) })
		k.Upgrade(n, brokersTo)
		time.Sleep(2 * time.Second)
	}
	await(t, "all replicas to be in sync", func() bool { return allInSync(t, adm, 3) })
	was, is := raiseMetadataVersion(t, cl)
	if is <= was {
		t.Errorf("metadata.version was %d and is %d: the brokers were not upgraded", was, is)
	}
	time.Sleep(3 * time.Second)
	c.recovers(t, partitions, stop, nodes...)
	l.judge(c.brokers, c.prefix)
}

// allInSync says whether every partition of every topic has all its replicas.
func allInSync(t *testing.T, adm *kadm.Client, replicas int) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	all, err := adm.ListTopicsWithInternal(ctx)
	if err != nil {
		return false
	}
	whole := true
	all.EachPartition(func(p kadm.PartitionDetail) { whole = whole && len(p.ISR) == replicas })
	return whole
}

// raiseMetadataVersion makes the newest that all brokers support the cluster's.
func raiseMetadataVersion(t *testing.T, cl *kgo.Client) (was, is int16) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	newest := func() (finalized, supported int16) {
		ask := kmsg.NewPtrApiVersionsRequest()
		ask.ClientSoftwareName, ask.ClientSoftwareVersion = "waterclock-test", "1"
		resp, err := ask.RequestWith(ctx, cl)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range resp.FinalizedFeatures {
			if f.Name == "metadata.version" {
				finalized = f.MaxVersionLevel
			}
		}
		for _, f := range resp.SupportedFeatures {
			if f.Name == "metadata.version" {
				supported = f.MaxVersion
			}
		}
		return finalized, supported
	}
	was, supported := newest()
	req := kmsg.NewPtrUpdateFeaturesRequest()
	one := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
	one.Feature, one.MaxVersionLevel, one.UpgradeType = "metadata.version", supported, 1
	req.FeatureUpdates = append(req.FeatureUpdates, one)
	resp, err := req.RequestWith(ctx, cl)
	if err != nil {
		t.Fatal(err)
	}
	if resp.ErrorCode != 0 {
		t.Fatalf("raise metadata.version from %d to %d: error %d %v", was, supported, resp.ErrorCode, resp.ErrorMessage)
	}
	await(t, "metadata.version to be raised", func() bool { is, _ = newest(); return is == supported })
	t.Logf("metadata.version was %d and is %d", was, is)
	return was, is
}
