package broker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// quiet keeps the broker's log out of the tests' output.
var quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// start runs a broker on dir until the test ends.
func start(t testing.TB, dir string, change ...func(*Options)) *Broker {
	t.Helper()
	o := Options{Dir: dir, Listen: "127.0.0.1:0", Sync: true, Logger: quiet}
	for _, f := range change {
		f(&o)
	}
	b, err := Start(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func stop(t testing.TB, b *Broker) {
	t.Helper()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func client(t testing.TB, b *Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.Addrs()...),
		kgo.MetadataMinAge(10 * time.Millisecond),
		// Long enough in all for a broker that restarts on a busy machine.
		kgo.RequestRetries(200),
		kgo.RetryBackoffFn(func(n int) time.Duration {
			return min(time.Duration(n)*5*time.Millisecond, 50*time.Millisecond)
		}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// create makes a topic; settings are pairs of name and value.
func create(t testing.TB, b *Broker, topic string, partitions int32, settings ...string) {
	t.Helper()
	configs := map[string]*string{}
	for i := 0; i < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	cl := client(t, b)
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(testContext(t), partitions, 1, configs, topic); err != nil {
		t.Fatal(err)
	}
}

func rec(topic string, partition int32, key, value string) *kgo.Record {
	return &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: []byte(value)}
}

func produce(t testing.TB, cl *kgo.Client, recs ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(testContext(t), recs...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// read returns a partition's records from the start up to its end.
func read(t testing.TB, b *Broker, topic string, partition int32, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	return readFrom(t, b, topic, partition, kgo.NewOffset().AtStart(), opts...)
}

func readFrom(t testing.TB, b *Broker, topic string, partition int32, from kgo.Offset, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	ctx := testContext(t)
	cl := client(t, b, append([]kgo.Opt{
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {partition: from}}),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(100 * time.Millisecond),
	}, opts...)...)
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	starts, err := adm.ListStartOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	end, _ := ends.Lookup(topic, partition)
	first, _ := starts.Lookup(topic, partition)
	if end.Offset == first.Offset {
		return nil
	}
	var out []*kgo.Record
	for next := int64(0); next < end.Offset; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("read %s/%d at %d of %d: %v", topic, partition, next, end.Offset, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, r)
			}
		})
	}
	return out
}

func committed() kgo.Opt { return kgo.FetchIsolationLevel(kgo.ReadCommitted()) }

func values(recs []*kgo.Record) []string {
	var out []string
	for _, r := range recs {
		out = append(out, string(r.Value))
	}
	return out
}

func wantValues(t testing.TB, got []*kgo.Record, want ...string) {
	t.Helper()
	if g, w := fmt.Sprint(values(got)), fmt.Sprint(want); g != w {
		t.Errorf("got %s, want %s", g, w)
	}
}

func TestRecordsSurviveCloseAndKill(t *testing.T) {
	dir := t.TempDir()
	b := start(t, dir)
	create(t, b, "a", 2)
	cl := client(t, b)
	produce(t, cl, rec("a", 0, "k", "1"), rec("a", 1, "k", "2"))
	stop(t, b)

	b = start(t, dir)
	produce(t, client(t, b), rec("a", 0, "k", "3"))
	wantValues(t, read(t, b, "a", 0), "1", "3")
	wantValues(t, read(t, b, "a", 1), "2")
}
