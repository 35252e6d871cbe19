package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/pipeline/recovery"
	"github.com/waterclock/waterclock/topics"
)

// TestRunEngineFails: the engine ends itself while a measurement runs, because somebody has added
// partitions. The measurement ends as well, with the engine's error.
func TestRunEngineFails(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c, err := config.Load(config.Options{Env: []string{
		"WATERCLOCK_BROKERS=" + cluster.ListenAddrs()[0], "WATERCLOCK_DATA_DIR=" + t.TempDir(),
		"WATERCLOCK_TOPICS_PARTITIONS=2", "WATERCLOCK_TOPICS_REPLICATION=1",
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: c, Logger: slog.New(slog.DiscardHandler)}
	err = RunEngine(t.Context(), o, func(ctx context.Context, e *Engine) error {
		cl, err := kgo.NewClient(e.Kafka()...)
		if err != nil {
			return err
		}
		defer cl.Close()
		added, err := kadm.NewClient(cl).UpdatePartitions(ctx, 3, topics.Names{}.Commands())
		if err = errors.Join(err, added.Error()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(2 * time.Minute):
			return errors.New("the engine has failed, and nobody said so")
		}
	})
	if !errors.Is(err, recovery.ErrPartitions) {
		t.Errorf("it ended with %v", err)
	}
}
