// Package loadtest measures Waterclock on this machine: how fast triggers are
// registered and fired, and how late. `waterclock bench` is its command line;
// bench/README.md has the method.
//
// # Files
//
//	engine.go     an engine in this process: registers/s, fires/s, lateness, lost, doubled and early records
//	lives.go      what the life of a trigger costs, and Kafka's own speed with the same records
//	fairness.go   how late others are beside one tenant's herd
//	http.go       the HTTP API of a server in another process: what is measured, in which order
//	http_load.go  the requests of each measurement
//	http_server.go  the server under test, and the bare handler that it is compared with
//	http_client.go an HTTP client that costs next to nothing
//	webhook.go    the webhook worker in another process: callbacks/s and what they cost
//	breaker.go    others' calls while very many due events wait behind an open breaker
//	redrive.go    very many dead letters tried again
//	phones.go     an engine and the push worker in this process, and servers that take pushes and mails
//	campaign.go   how late priority high is beside a campaign of priority low
//	reminders.go  from the due time until the provider has the push
//	notify.go     what the providers send alone
//	child.go      a process of this program, and what it uses
//	tools.go      payloads, clients, quantiles, CPU and memory
package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
)

// Setup is where a measurement runs.
type Setup struct {
	Config *config.Config // is changed: data directory, brokers, prefix, group
	Logger *slog.Logger
	// Embedded starts a broker of its own in a temporary directory. Without it
	// the brokers of the settings are used, and topics of its own there.
	Embedded bool
	Commit   string // of this program, for the result
}

func (s Setup) machine() Machine {
	return Machine{runtime.NumCPU(), runtime.Version(), s.Commit, loadAverage()}
}

// Machine is what a result was measured on, and of which commit.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
	Load   string `json:"load_average,omitempty"` // of the last minute, when the measurement began
}

// loadAverage is Linux's; "" elsewhere.
func loadAverage() string {
	all, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	minute, _, _ := strings.Cut(string(all), " ")
	return minute
}

// Lateness is in milliseconds.
type Lateness struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// besideEngine calls f beside an engine of our own. broker says what kind of
// broker it runs on.
func (s Setup) besideEngine(
	ctx context.Context, sync bool, f func(e *node.Engine, broker string) error, opts ...kgo.Opt,
) error {
	c := s.Config
	dir, err := os.MkdirTemp("", "waterclock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.DataDir = dir
	o := node.Options{Config: c, Logger: s.Logger}
	if !s.Embedded {
		c.Topics.Prefix = "waterclock-bench-" + node.NewID() + "."
		c.Group = c.Topics.Prefix + "engine"
		var reach []kgo.Opt
		err := node.RunEngine(ctx, o, func(e *node.Engine) error {
			reach = e.Kafka()
			return f(e, "kafka")
		}, opts...)
		return errors.Join(err, removeTopics(reach, c.Topics.Prefix))
	}
	b, err := broker.Start(ctx, broker.Options{
		Dir: filepath.Join(dir, "broker"), Listen: "127.0.0.1:0", Sync: sync, Logger: s.Logger,
	})
	if err != nil {
		return err
	}
	defer b.Close()
	c.Brokers = []string{b.Addr()}
	opts = append(opts, kgo.Dialer(b.Dial))
	return node.RunEngine(ctx, o, func(e *node.Engine) error { return f(e, "embedded") }, opts...)
}

// removeTopics deletes our own topics, also if the measurement was ended early.
func removeTopics(reach []kgo.Opt, prefix string) error {
	if reach == nil {
		return nil // the engine did not come to make them, or it is not known how to reach the brokers
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(reach...)
	if err != nil {
		return err
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	all, err := adm.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("remove the topics %s*: %w", prefix, err)
	}
	ours := slices.DeleteFunc(all.Names(), func(name string) bool { return !strings.HasPrefix(name, prefix) })
	if len(ours) == 0 {
		return nil
	}
	gone, err := adm.DeleteTopics(ctx, ours...)
	if err = cmp.Or(err, gone.Error()); err != nil {
		return fmt.Errorf("remove the topics %s*: %w", prefix, err)
	}
	return nil
}
