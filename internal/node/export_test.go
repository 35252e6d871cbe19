package node

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/analytics"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// The role export writes the event log to export.dir until it is stopped.
func TestExportRole(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, topics.Names{}.Events()))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	dir := filepath.Join(t.TempDir(), "lake")
	c, err := config.Load(config.Options{Flags: map[string]string{"roles": "export", "export.dir": dir}})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{
		cfg: c, log: slog.New(slog.DiscardHandler), clients: []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)},
	}
	life := newRoles(time.Minute, n.log)
	if err := n.startExport(life); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if all, err := analytics.Manifests(dir); err == nil && len(all) > 0 && all[0].Partitions == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("nothing is exported")
		}
	}
	if left := life.end(); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
}

// The role does not start without a directory. A process without the role starts no export.
func TestExportRoleWithoutADirectory(t *testing.T) {
	for roles, ok := range map[string]bool{"export": false, "api": true} {
		c, err := config.Load(config.Options{Dev: true, Flags: map[string]string{"roles": roles}})
		if err != nil {
			t.Fatal(err)
		}
		n := &node{cfg: c, log: slog.New(slog.DiscardHandler)}
		life := newRoles(time.Minute, n.log)
		if err := n.startExport(life); (err == nil) != ok || len(life.running) > 0 {
			t.Errorf("roles %s: %v", roles, err)
		}
	}
}

// A refusal does not end the role, so that the engine in the same process goes on.
func TestExportRoleOutlivesARefusal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	refused := make(chan struct{})
	log := slog.New(onError{slog.DiscardHandler, func() { close(refused) }})
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	brokers := []kgo.Opt{kgo.SeedBrokers(cluster.ListenAddrs()...)}
	cl, err := kgo.NewClient(append(analytics.ClientOptions(), brokers...)...)
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	o := analytics.Options{Client: cl, Topic: "a", Dir: t.TempDir(), Logger: log}
	if _, err := analytics.New(o).Export(ctx); err != nil {
		t.Fatal(err)
	}
	o.Topic = "b" // the directory belongs to topic a
	done := make(chan error, 1)
	go func() { done <- runExport(ctx, o, brokers) }()
	select {
	case <-refused:
	case err := <-done:
		t.Fatalf("the role ended: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// onError calls f for the first error in the log.
type onError struct {
	slog.Handler

	f func()
}

func (h onError) Enabled(context.Context, slog.Level) bool { return true }

func (h onError) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		h.f()
	}
	return nil
}
