//go:build soak

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// TestMeasureScaling has one, two and four engines fire what falls due at one instant, on a cluster of three
// brokers in namespaces. Each engine has the same small share of a processor, so that the brokers keep up with four. It
// needs root.
func TestMeasureScaling(t *testing.T) {
	const (
		partitions = 12
		cores      = 0.1 // of each engine
		of1        = 20_000
	)
	k := services.Kafka(t, services.Nodes(3), services.Namespaces())
	figures := map[string]any{"partitions": partitions, "cores_of_an_engine": cores}
	rates := map[int]float64{}
	for _, engines := range []int{1, 2, 4} {
		t.Run(fmt.Sprint(engines, " engines"), func(t *testing.T) {
			groups := make([]string, engines)
			for i := range groups {
				groups[i] = shareOfProcessor(t, fmt.Sprint("engine-", i), cores)
			}
			c := newClusterOn(t, k.Bootstrap, partitions)
			nodes := c.nodes(t, engines, partitions)
			at := time.Now().Add(90 * time.Second)
			fillAt(t, c.brokers, c.prefix, engines*of1, nodes[0], at)
			if ahead := time.Until(at); ahead < 5*time.Second {
				t.Fatalf("the engines decided all %v before it is due: that says nothing of firing", ahead)
			}
			for i, n := range nodes {
				if err := os.WriteFile(filepath.Join(groups[i], "cgroup.procs"),
					[]byte(strconv.Itoa(n.cmd.Process.Pid)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Until(at))
			var before, after float64
			for _, n := range nodes {
				before += cpuSeconds(n)
			}
			last := lastFired(t, c.brokers, c.prefix, engines*of1)
			for _, n := range nodes {
				after += cpuSeconds(n)
			}
			rates[engines] = float64(engines*of1) / last.Sub(at).Seconds()
			figures[fmt.Sprintf("fires_per_s_of_%d", engines)] = rates[engines]
			figures[fmt.Sprintf("engine_cores_of_%d", engines)] = (after - before) / last.Sub(at).Seconds()
			if rates[1] > 0 {
				figures[fmt.Sprintf("times_one_of_%d", engines)] = rates[engines] / rates[1]
			}
		})
	}
	report(t, "kafka-scaling", figures)
}

// lastFired waits until so many due events are there, and returns when the last one was appended.
func lastFired(t *testing.T, brokers []string, prefix string, want int) (last time.Time) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(prefix+"due.default"),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for n := 0; n < want; {
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("%d of %d have fired", n, want)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if n++; r.Timestamp.After(last) {
				last = r.Timestamp
			}
		})
	}
	return last
}

// shareOfProcessor makes a cgroup that may use so many cores, and returns its directory.
func shareOfProcessor(t *testing.T, name string, cores float64) (dir string) {
	t.Helper()
	const period = 20_000 // microseconds: short, so that nobody stands still for long
	quota := strconv.Itoa(int(cores * period))
	name = fmt.Sprintf("waterclock-test-%d-%s", os.Getpid(), name)
	for _, c := range []struct{ dir, file, value string }{
		{"/sys/fs/cgroup/cpu/" + name, "cpu.cfs_quota_us", quota},
		{"/sys/fs/cgroup/" + name, "cpu.max", fmt.Sprint(quota, " ", period)},
	} {
		if os.Mkdir(c.dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(c.dir) })
		if c.file == "cpu.cfs_quota_us" {
			_ = os.WriteFile(filepath.Join(c.dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(period)), 0o600)
		}
		if err := os.WriteFile(filepath.Join(c.dir, c.file), []byte(c.value), 0o600); err != nil {
			t.Logf("%v", err)
			continue
		}
		return c.dir
	}
	t.Skip("no cgroup with a share of a processor can be made here: run as root")
	return ""
}
