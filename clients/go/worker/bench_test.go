package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// acks counts acknowledged receipts.
type acks struct {
	NoMetrics
	n     atomic.Int64
	first atomic.Int64 // when the first handler ended, Unix ns
}

func (a *acks) ReceiptWritten(time.Duration) { a.n.Add(1) }

func (a *acks) Handled(Outcome, string, time.Duration) {
	if a.first.Load() == 0 {
		a.first.CompareAndSwap(0, time.Now().UnixNano())
	}
}

// cpuTime returns the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchTopics is where a benchmark writes due events: kfake in this process, or the Kafka that
// WATERCLOCK_TEST_KAFKA names, with its own topics.
type benchTopics struct {
	b       *testing.B
	brokers []string
	due     string
	cl      *kgo.Client
	create  func(topic string)
}

func newBenchTopics(b *testing.B, parts int32) *benchTopics {
	addrs := os.Getenv("WATERCLOCK_TEST_KAFKA")
	if addrs == "" {
		w := newWorld(b, parts)
		return &benchTopics{b, w.cluster.ListenAddrs(), dueTopic, w.cl, w.create}
	}
	brokers := strings.Split(addrs, ",")
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(cl.Close)
	t := &benchTopics{b: b, brokers: brokers, due: fmt.Sprintf("bench%d.due.print", time.Now().UnixNano()), cl: cl}
	stamped := "LogAppendTime"
	t.create = func(topic string) {
		_, err := kadm.NewClient(cl).CreateTopic(context.Background(), parts, 1,
			map[string]*string{"message.timestamp.type": &stamped}, topic)
		if err != nil {
			b.Fatal(err)
		}
	}
	t.create(t.due)
	return t
}

func (t *benchTopics) write(dues []due) {
	records := make([]*kgo.Record, len(dues))
	for i, d := range dues {
		d.topic = t.due
		records[i] = d.record()
	}
	if err := t.cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.b.Fatal(err)
	}
}

// BenchmarkRun measures a handler that does nothing, with receipts, from a filled topic to the
// last acknowledged receipt. events/s and cpu-ns/event count from the end of the first handler.
// Joining the group before that takes join-ms. The cluster (kfake) runs in the same process and
// shares its cores and its CPU time. With WATERCLOCK_TEST_KAFKA it is that Kafka instead.
func BenchmarkRun(b *testing.B) {
	const events, parts = 200_000, 4
	for _, target := range []int{events, 100} { // number of record keys
		b.Run(fmt.Sprintf("keys=%d", target), func(b *testing.B) {
			w := newBenchTopics(b, parts)
			dues := make([]due, events)
			for i := range dues {
				dues[i] = due{
					key: fmt.Sprintf("tenant/trigger-%d", i), target: fmt.Sprintf("key-%d", i%target),
					partition: int32(i % parts), value: `{"title":"Take pills","body":"two of the white ones"}`,
				}
			}
			w.write(dues)
			round, run := 0, time.Now().UnixNano()
			var join, work, cpu time.Duration
			for b.Loop() {
				round++
				ctx, cancel := context.WithCancel(context.Background())
				a := &acks{}
				done := make(chan error, 1)
				go func() {
					// Each round handles all events: the memory gets full, but knows none of
					// them.
					name := fmt.Sprintf("round%d-%d", run, round)
					w.create(name + ".receipts")
					done <- Run(ctx, "print", delivered, Brokers(w.brokers...), WithMetrics(a),
						Group(name), Prefix(name+"."), Topic(w.due), Logger(slog.New(slog.DiscardHandler)))
				}()
				begin := time.Now()
				for a.first.Load() == 0 {
					time.Sleep(100 * time.Microsecond)
				}
				used := cpuTime(b)
				for a.n.Load() < events {
					time.Sleep(time.Millisecond)
				}
				first := time.Unix(0, a.first.Load())
				join, work, cpu = join+first.Sub(begin), work+time.Since(first), cpu+cpuTime(b)-used
				cancel()
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(events*float64(b.N)/work.Seconds(), "events/s")
			b.ReportMetric(float64(cpu)/float64(b.N)/events, "cpu-ns/event")
			b.ReportMetric(float64(join.Milliseconds())/float64(b.N), "join-ms")
		})
	}
}
