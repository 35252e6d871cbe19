package node

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/built"
)

// TestReadyzOfAdminListen: where acts are refused because they cannot be recorded, /readyz says so
// on admin.listen too.
func TestReadyzOfAdminListen(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	ctx, cancel := context.WithCancel(t.Context())
	c, served := serve(ctx, t, "WATERCLOCK_BROKERS="+strings.Join(cluster.ListenAddrs(), ","),
		"WATERCLOCK_ADMIN_LISTEN="+built.FreeAddr(t), "WATERCLOCK_TOPICS_PARTITIONS=1",
		"WATERCLOCK_TOPICS_REPLICATION=1")
	defer func() { cancel(); <-served }()
	awaitStatus(t, served, "GET", "http://"+c.Admin.Listen+"/readyz", "")
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).DeleteTopics(ctx, "waterclock.audit"); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		_, _ = request("DELETE", fmt.Sprintf("http://%s/v1/triggers/k%d", c.Listen, i), "")
		_, said := call(t, "GET", "http://"+c.Admin.Listen+"/readyz", "")
		if strings.Contains(said, "waterclock.audit") {
			return
		}
		if i == 100 {
			t.Fatal("admin.listen never says that acts are not recorded")
		}
		time.Sleep(50 * time.Millisecond)
	}
}
