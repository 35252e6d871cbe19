package foreign

import (
	"context"
	"hash/crc32"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/test/services"
)

func TestRoundTripEmbedded(t *testing.T) {
	clients := Clients(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	for _, c := range clients {
		t.Run(c.Name(), func(t *testing.T) { roundTrip(t, c, cluster.ListenAddrs()[0]) })
	}
}

func TestRoundTripKafka(t *testing.T) {
	clients := Clients(t)
	bootstrap := services.Kafka(t).Bootstrap
	for _, c := range clients {
		t.Run(c.Name(), func(t *testing.T) { roundTrip(t, c, bootstrap) })
	}
}

// samples is one of everything, each under its own key.
func samples(topic string) []Record {
	everyByte := make([]byte, 256)
	for i := range everyByte {
		everyByte[i] = byte(i)
	}
	return []Record{
		{Key: []byte("text"), Value: []byte(`{"op":"register","delay":"7m"}`)},
		{Key: []byte("null value"), Value: nil},
		{Key: []byte("no bytes"), Value: []byte{}},
		{Key: []byte("binary"), Value: everyByte},
		{Key: []byte("lines"), Value: []byte("one\ntwo\r\n\n")},
		{Key: []byte("ключ/鍵"), Value: []byte("Größe ☃")},
		{Key: []byte("headers"), Value: []byte("v"), Headers: []Header{
			{"wc-delay", []byte("7m")},
			{"note", []byte("a=b, c=d")},
			{"empty", []byte{}},
			{"größe", []byte("ü")},
		}},
		{
			Key: []byte("same header twice"), Value: []byte("v"),
			Headers: []Header{{"twice", []byte("1")}, {"twice", []byte("2")}},
		},
		{Key: []byte("null with headers"), Value: nil, Headers: []Header{{"wc-op", []byte("cancel")}}},
	}
}

// roundTrip checks what c writes as kgo reads it, what c reads as kgo wrote it,
// and that c does not see what was aborted.
func roundTrip(t *testing.T, c Client, bootstrap string) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	t.Cleanup(cancel)
	topic := "foreign-" + c.Name() + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	want := samples(topic)
	for i := range want {
		want[i].Topic = topic
	}
	cl := newTopic(t, ctx, bootstrap, topic)
	if err := c.Produce(ctx, bootstrap, want); err != nil {
		t.Fatal(err)
	}
	written := readAll(t, ctx, bootstrap, topic, len(want))
	compare(t, "written", want, written)
	for _, r := range written {
		if want := partitionOf(c.Name(), r.Key); r.Partition != want {
			t.Errorf("%q landed on partition %d, %s's default partitioner means %d", r.Key, r.Partition, c.Name(), want)
		}
	}

	produceAborted(t, ctx, cl, topic)
	got, err := c.Consume(ctx, bootstrap, topic, len(want)+1)
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "read", append(want, Record{Topic: topic, Key: []byte("committed"), Value: []byte("last")}), got)
}

const partitions = 4

// partitionOf is where a client puts a key by default, see the package comment.
func partitionOf(client string, key []byte) int32 {
	if client == "kcat" || client == "python" {
		return int32(crc32.ChecksumIEEE(key) % partitions)
	}
	murmur2 := kgo.StickyKeyPartitioner(nil).ForTopic("")
	return int32(murmur2.Partition(&kgo.Record{Key: key}, partitions))
}

func newTopic(t *testing.T, ctx context.Context, bootstrap, topic string) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID(topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	if _, err := kadm.NewClient(cl).CreateTopic(ctx, partitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	return cl
}

// produceAborted aborts a record and then commits one.
func produceAborted(t *testing.T, ctx context.Context, cl *kgo.Client, topic string) {
	t.Helper()
	for _, txn := range []struct {
		key string
		end kgo.TransactionEndTry
	}{{"aborted", kgo.TryAbort}, {"committed", kgo.TryCommit}} {
		if err := cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		r := &kgo.Record{Topic: topic, Key: []byte(txn.key), Value: []byte("last")}
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := producer.EndTransaction(ctx, cl, txn.end, r); err != nil {
			t.Fatal(err)
		}
	}
}

func readAll(t *testing.T, ctx context.Context, bootstrap, topic string, n int) (recs []Record) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumeTopics(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for len(recs) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("after %d of %d records: %v", len(recs), n, err)
		}
		fetches.EachRecord(func(k *kgo.Record) {
			r := Record{Topic: k.Topic, Partition: k.Partition, Offset: k.Offset, Key: k.Key, Value: k.Value}
			for _, h := range k.Headers {
				r.Headers = append(r.Headers, Header{h.Key, h.Value})
			}
			recs = append(recs, r)
		})
	}
	return recs
}

// compare compares records by key, without where they landed and when.
func compare(t *testing.T, verb string, want, got []Record) {
	t.Helper()
	byKey := map[string]Record{}
	for _, r := range got {
		byKey[string(r.Key)] = r
	}
	if len(byKey) != len(want) || len(got) != len(want) {
		t.Errorf("%s: %d records under %d keys, want %d", verb, len(got), len(byKey), len(want))
	}
	for _, w := range want {
		g, ok := byKey[string(w.Key)]
		switch {
		case !ok:
			t.Errorf("%s: no record %q", verb, w.Key)
		case g.Topic != w.Topic || !same(g.Value, w.Value):
			t.Errorf("%s: %q has topic %s, value %s, want %s", verb, w.Key, g.Topic, show(g.Value), show(w.Value))
		case len(g.Headers) != len(w.Headers) || len(w.Headers) > 0 && !reflect.DeepEqual(g.Headers, w.Headers):
			t.Errorf("%s: %q has headers %q, want %q", verb, w.Key, g.Headers, w.Headers)
		}
	}
}

// same tells null from empty.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && string(a) == string(b) }

func show(b []byte) string {
	if b == nil {
		return "null"
	}
	return strconv.Quote(string(b))
}

func TestKcatRefusesWhatItCannotSay(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  Record
	}{
		{"neither key nor value", Record{}},
		{"empty key, null value", Record{Key: []byte{}}},
		{"zero byte in a header", Record{Key: []byte("k"), Headers: []Header{{"h", []byte{0}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if args, err := kcatArgs("b", c.rec); err == nil {
				t.Fatalf("it would have run %q", args)
			}
		})
	}
}
