package loadtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime/pprof"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/node"
)

// MaxTriggers bounds how many triggers a measurement registers.
const MaxTriggers = 100_000_000

// allowPayload raises the payload limit of our engine if the measurement needs it.
func allowPayload(c *config.Config, size int) {
	c.Limits.Payload = max(c.Limits.Payload, config.Size(size))
}

// payloads are incompressible, and the same in every run. The first 16 million all differ, and
// neighbours share no bytes. So no compressor finds one payload in another.
type payloads struct {
	pool []byte // payloadPool random bytes, followed by a copy of the first ones
	size int
}

const payloadPool = 1 << 24 // a power of two, so that an odd step reaches every byte

func payloadsOf(size int) payloads {
	p := payloads{pool: make([]byte, payloadPool+size), size: size}
	rand.NewChaCha8([32]byte{1}).Read(p.pool[:payloadPool])
	copy(p.pool[payloadPool:], p.pool)
	return p
}

func (p payloads) at(i int) []byte {
	from := i * (p.size | 1) % payloadPool
	return p.pool[from : from+p.size : from+p.size]
}

// newProducer writes commands to partitions that the caller chooses.
func newProducer(e *node.Engine, c *config.Config, opts ...kgo.Opt) (*kgo.Client, error) {
	return newRawProducer(e, append([]kgo.Opt{
		kgo.DefaultProduceTopic(c.Topic("commands")), kgo.ProducerLinger(5 * time.Millisecond),
	}, opts...)...)
}

// newRawProducer writes records unchanged, to topics and partitions that the caller chooses.
func newRawProducer(e *node.Engine, opts ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(200_000),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MetadataMinAge(leaderRetry), kgo.UnknownTopicRetries(int(patience / leaderRetry)),
	}, e.Kafka()...), opts...)...)
}

// firstError stores the first error of many promises.
type firstError struct{ err atomic.Pointer[error] }

func (f *firstError) promise(_ *kgo.Record, err error) {
	if err != nil {
		f.err.CompareAndSwap(nil, &err)
	}
}

func (f *firstError) get() error {
	if err := f.err.Load(); err != nil {
		return *err
	}
	return nil
}

// newConsumer reads the due events of a channel from now on. reach says how to reach the brokers.
func newConsumer(reach []kgo.Opt, c *config.Config, channel string, opts ...kgo.Opt) (*kgo.Client, error) {
	read := reading(kgo.NewOffset().AtEnd(), c.Channel(channel).Topic)
	return kgo.NewClient(slices.Concat(read, reach, opts)...)
}

// reading are the options of a client that reads committed records of topics, without a group.
func reading(from kgo.Offset, topics ...string) []kgo.Opt {
	return []kgo.Opt{
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(from), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(100 * time.Millisecond), kgo.MetadataMinAge(leaderRetry),
	}
}

// leaderRetry is how soon a client repeats its question for the leaders of a topic that brokers have just
// created. kgo's default is 5 s, which would count as time that the brokers need.
const leaderRetry = 50 * time.Millisecond

// awaitDecided waits until the engine has decided this number of commands.
func awaitDecided(ctx context.Context, e *node.Engine, commands int64) error {
	return awaitCount(ctx, "commands that the engine has decided", commands, func() (decided int64) {
		for _, s := range e.Partitions() {
			decided += s.CommandsOffset
		}
		return decided
	})
}

// awaitCount waits until count reaches want. It gives up when count does not grow for too long.
func awaitCount(ctx context.Context, what string, want int64, count func() int64) error {
	most, grown := int64(-1), time.Now()
	for ctx.Err() == nil {
		n := count()
		switch {
		case n >= want:
			return nil
		case n > most:
			most, grown = n, time.Now()
		case time.Since(grown) > patience:
			return fmt.Errorf("%s: %d of %d, and no more for %v; %s", what, most, want, patience, tooSlow)
		}
		sleepUntil(ctx, time.Now().Add(2*time.Millisecond))
	}
	return ctx.Err()
}

// patience is how long to wait for a missing record after the last due time.
const patience = 60 * time.Second

// lateOf computes the distribution of latenesses in microseconds. It sorts the slice.
func lateOf(late []int64) Lateness {
	slices.Sort(late)
	return Lateness{quantile(late, .5), quantile(late, .95), quantile(late, .99), quantile(late, 1)}
}

// quantile returns milliseconds. Its input is sorted microseconds.
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

// CPUTime returns the CPU time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func peakRSS() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Maxrss * 1024
}
