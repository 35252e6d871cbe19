// Package loadtest measures Waterclock on this machine: how fast triggers are registered and
// fired, and how late. `waterclock bench` is its command line; bench/README.md describes the
// method.
//
// # Files
//
//	engine.go     an engine in this process: registers/s, fires/s, lateness, lost, doubled and early records
//	turns.go      what the time of its turns goes to
//	far.go        brokers that answer late
//	lives.go      what the life of a trigger costs, and Kafka's own speed with the same records
//	requests.go   the requests that clients send to brokers
//	fairness.go   how late other tenants are during one tenant's herd
//	http.go       the HTTP API of a server in another process: what is measured, in which order
//	http_load.go  the requests of each measurement
//	http_server.go  the server under test, and the bare handler that it is compared with
//	console.go    the reads of consoles, and what a hundred of them cost
//	http_client.go a minimal HTTP client, so that its own cost is small
//	webhook.go    the webhook worker in another process: callbacks/s and what they cost
//	breaker.go    another tenant's calls while very many due events wait behind an open breaker
//	redrive.go    redriving very many dead letters
//	phones.go     an engine and the push worker in this process, and servers that accept pushes and mails
//	campaign.go   how late priority high is during a campaign of priority low
//	reminders.go  from the due time until the provider has the push
//	notify.go     the providers alone: pushes/s and mails/s
//	child.go      a process of this program, and what it uses
//	stall.go      ends a measurement that stands still
//	tools.go      payloads, clients, quantiles, CPU and memory
package loadtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"github.com/waterclock/waterclock/pipeline"
)

// Setup says where a measurement runs.
type Setup struct {
	Config *config.Config // is modified: data directory, brokers, prefix and group
	Logger *slog.Logger
	// Embedded starts a broker in a temporary directory. Otherwise the measurement uses the
	// brokers of the settings, with its own topics.
	Embedded bool
	Commit   string // commit of this program, for the result

	Delay time.Duration // added to all that brokers answer the engine
	step  func(partition int32, step pipeline.Step)
}

func (s Setup) machine() Machine {
	return Machine{runtime.NumCPU(), runtime.Version(), s.Commit, loadAverage()}
}

// Machine describes the machine and the commit that were measured.
type Machine struct {
	CPUs   int    `json:"cpus"`
	Go     string `json:"go"`
	Commit string `json:"commit,omitempty"`
	Load   string `json:"load_average,omitempty"` // of the last minute, at the start of the measurement
}

// loadAverage returns the load average on Linux, and "" elsewhere.
func loadAverage() string {
	all, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	minute, _, _ := strings.Cut(string(all), " ")
	return minute
}

// Lateness is a distribution in milliseconds.
type Lateness struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// besideEngine starts an engine and calls f, whose context ends if the engine fails. broker is the
// kind of broker that the engine uses.
func (s Setup) besideEngine(
	ctx context.Context, sync bool, f func(ctx context.Context, e *node.Engine, broker string) error, opts ...kgo.Opt,
) error {
	c := s.Config
	dir, err := os.MkdirTemp("", "waterclock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	c.DataDir = dir
	o := node.Options{Config: c, Logger: s.Logger, Step: s.step}
	if !s.Embedded {
		if s.Delay > 0 {
			opts = append(opts, kgo.Dialer(far((&net.Dialer{}).DialContext, s.Delay)))
		}
		c.Topics.Prefix = "waterclock-bench-" + node.NewID() + "."
		c.Group = c.Topics.Prefix + "engine"
		var reach []kgo.Opt
		err := node.RunEngine(ctx, o, func(ctx context.Context, e *node.Engine) error {
			reach = e.Kafka()
			return f(ctx, e, "kafka")
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
	opts = append(opts, kgo.Dialer(far(b.Dial, s.Delay)))
	return node.RunEngine(ctx, o, func(ctx context.Context, e *node.Engine) error {
		return f(ctx, e, "embedded")
	}, opts...)
}

// removeTopics deletes our topics, even if the measurement was interrupted.
func removeTopics(reach []kgo.Opt, prefix string) error {
	if reach == nil {
		return nil // the engine did not get as far as creating them, or the brokers' addresses are not known
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
