package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// What the benchmarks have in common.

// within refuses a number that means nothing, or that no machine holds, before
// anything is started for it.
func within[N int | time.Duration](flag string, value, least, most N) error {
	if value < least || value > most {
		return usagef("--%s %v: write %v to %v", flag, value, least, most)
	}
	return nil
}

// benchTriggers is the most that a benchmark registers.
const benchTriggers = 100_000_000

// benchPayload bounds --payload by what limits.payload may be at most.
func benchPayload(size int) error { return within("payload", size, 0, topics.MaxPayload) }

// allowPayload lets an engine of our own take what is to be measured.
func allowPayload(c *config.Config, size int) {
	c.Limits.Payload = max(c.Limits.Payload, config.Size(size))
}

// benchPayloads are incompressible payloads, the same in every run: 1024, or
// of large ones as many as 64 MiB hold.
func benchPayloads(size int) [][]byte {
	payloads := make([][]byte, max(1, min(1024, 64<<20/max(size, 1))))
	rng := rand.NewChaCha8([32]byte{1})
	for i := range payloads {
		payloads[i] = make([]byte, size)
		rng.Read(payloads[i])
	}
	return payloads
}

// benchProducer writes commands, to partitions of its caller's choice.
func benchProducer(n *node) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.DefaultProduceTopic(n.cfg.Topic("commands")), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.MaxBufferedRecords(200_000), kgo.ProducerLinger(5 * time.Millisecond), kgo.ProducerBatchCompression(kgo.NoCompression())}, n.kafka...)...)
}

// benchConsumer reads what a channel fires from now on.
func benchConsumer(n *node, channel string) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.ConsumeTopics(n.cfg.Channel(channel).Topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchMaxWait(100 * time.Millisecond)}, n.kafka...)...)
}

// awaitDecided waits until the engine has decided so many commands.
func awaitDecided(ctx context.Context, n *node, commands int64) error {
	for ctx.Err() == nil {
		var decided int64
		for _, s := range n.engine.Partitions() {
			decided += s.CommandsOffset
		}
		if decided >= commands {
			return nil
		}
		sleepUntil(ctx, time.Now().Add(2*time.Millisecond))
	}
	return ctx.Err()
}

// patience is how long after the last due time a missing record is waited for.
const patience = 60 * time.Second

// lateOf is the distribution of latenesses in microseconds, which it sorts.
func lateOf(late []int64) benchLate {
	slices.Sort(late)
	return benchLate{quantile(late, .5), quantile(late, .99), quantile(late, 1)}
}

// quantile is in milliseconds, of sorted microseconds.
func quantile(sorted []int64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]) / 1000
}

func sleepUntil(ctx context.Context, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func startProfile(file string) (stop func(), err error) {
	f, err := os.Create(file)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakRSS() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Maxrss * 1024
}
