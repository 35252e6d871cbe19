package e2e

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/trigger"
)

// This test's binary is also a channel worker: as a process it can be killed.
const (
	workerBrokers = "WATERCLOCK_TEST_WORKER_BROKERS"
	workerPrefix  = "WATERCLOCK_TEST_WORKER_PREFIX"
	workerCalls   = "WATERCLOCK_TEST_WORKER_CALLS" // a file: a line for each call
)

func init() {
	if brokers := os.Getenv(workerBrokers); brokers != "" {
		if err := runWorker(strings.Split(brokers, ",")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// runWorker asks for another attempt of every third trigger, and delivers the
// rest.
func runWorker(brokers []string) error {
	calls, err := os.OpenFile(os.Getenv(workerCalls), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer calls.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	return worker.Run(ctx, "kit", func(_ context.Context, e *worker.DueEvent) (worker.Result, error) {
		time.Sleep(5 * time.Millisecond)
		if _, err := fmt.Fprintf(calls, "%s %d\n", e.ID, e.Attempt); err != nil {
			return worker.Result{}, err
		}
		if e.Attempt == 1 && strings.HasSuffix(e.Key, "3") {
			return worker.Retry(100 * time.Millisecond).WithCode("busy"), nil
		}
		return worker.Delivered(), nil
	}, worker.Brokers(brokers...), worker.Prefix(os.Getenv(workerPrefix)),
		worker.Group(os.Getenv(workerPrefix)+"engine"), worker.Concurrency(8),
		worker.Kafka(kgo.SessionTimeout(6*time.Second)))
}

func (w *world) worker(t *testing.T, calls string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workerBrokers+"="+w.bootstrap(), workerPrefix+"="+w.prefix, workerCalls+"="+calls)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error if it has ended
		_ = cmd.Wait()
	})
	return cmd
}

// callsIn are the lines of a file so far.
func callsIn(t *testing.T, path string) (all []string) {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		all = append(all, s.Text())
	}
	return all
}

// TestWorkerKit: two worker processes, one killed in its work, one ended by
// SIGTERM, others in their stead. Each trigger is delivered; those who were
// asked to wait, on their second attempt. What is done twice is at most what
// the killed one had in hand.
func TestWorkerKit(t *testing.T) {
	both(t, func(t *testing.T, w *world) {
		const n = 600
		calls := filepath.Join(t.TempDir(), "calls")
		cl := w.producer(t)
		register := func(from, to int) {
			t.Helper()
			for i := from; i < to; i++ {
				r := w.command(fmt.Sprintf("kit/t-%d", i), "{}", "wc-delay", "0", "wc-channel", "kit")
				cl.Produce(t.Context(), r, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Error(err)
					}
				})
			}
			if err := cl.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		register(0, n/2) // before any worker is there
		first, second := w.worker(t, calls), w.worker(t, calls)
		await(t, "some calls", func() bool { return len(callsIn(t, calls)) > 50 })
		if err := first.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		w.worker(t, calls)
		register(n/2, n)
		await(t, "more calls", func() bool { return len(callsIn(t, calls)) > n/2 })
		if err := second.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := second.Wait(); err != nil {
			t.Errorf("the one that was told to end: %v", err)
		}
		t.Cleanup(func() { w.explainUndelivered(t, n) })
		delivered, retried := 0, 0
		await(t, "every trigger is delivered", func() bool {
			delivered, retried = 0, 0
			for _, events := range w.events(t) {
				for _, e := range events {
					switch {
					case e.Type == string(trigger.DeliveryDelivered) && e.Reason != "late":
						delivered++
					case e.Type == string(trigger.DeliveryRetried):
						retried++
					}
				}
			}
			return delivered >= n
		})
		if delivered != n || retried != n/10 {
			t.Errorf("%d deliveries of %d, %d retries of %d", delivered, n, retried, n/10)
		}
		for _, r := range dump(t, w.brokers, w.topic("due.kit")) {
			if r.Attrs.TimestampType() != 1 { // or the kit does not learn the brokers' clock
				t.Fatalf("the time of %s/%d/%d is not the broker's", r.Topic, r.Partition, r.Offset)
			}
		}
		seen, twice := map[string]bool{}, 0
		for _, call := range callsIn(t, calls) {
			if seen[call] {
				twice++
			}
			seen[call] = true
		}
		t.Logf("%d calls, %d of them twice", len(callsIn(t, calls)), twice)
		if len(seen) != n+n/10 || twice > 64 {
			t.Errorf("%d different calls, want %d; %d twice", len(seen), n+n/10, twice)
		}
	}, "--set", "channels.kit.receipts=true")
}

// explainUndelivered says of a failed test what became of triggers that were not
// delivered: their events, and their receipts.
func (w *world) explainUndelivered(t *testing.T, n int) {
	if !t.Failed() {
		return
	}
	events, receipts := w.events(t), map[string][]string{}
	for _, r := range dump(t, w.brokers, w.topic("receipts")) {
		receipts[string(r.Key)] = append(receipts[string(r.Key)], string(r.Value))
	}
	for i, explained := 0, 0; i < n && explained < 5; i++ {
		key := fmt.Sprintf("kit/t-%d", i)
		all := types(events[key])
		if slices.Contains(all, string(trigger.DeliveryDelivered)) {
			continue
		}
		explained++
		t.Logf("%s: events %v, receipts %v", key, all, receipts[key])
	}
}
