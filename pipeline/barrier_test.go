package pipeline_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// openTransaction appends records, to topic commands unless they have one, that
// nobody will see before end is called.
func openTransaction(t *testing.T, w *sim.World, id string, partition int32,
	records ...*kgo.Record,
) (end func(kgo.TransactionEndTry)) {
	t.Helper()
	cl := w.Client(kgo.TransactionalID(id), kgo.TransactionTimeout(10*time.Minute))
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		r.Topic, r.Partition = cmp.Or(r.Topic, w.Names.Commands()), partition
		if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return func(how kgo.TransactionEndTry) {
		if err := producer.EndTransaction(context.Background(), cl, how, records...); err != nil {
			t.Error(err)
		}
	}
}

// TestForeignTransaction puts somebody's open transaction in front of a cancel.
// The cancel is acknowledged, but invisible until the transaction ends.
func TestForeignTransaction(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  time.Duration // after the due time
		fires int
		held  bool
	}{
		{"that ends while it may hold firing back", 5 * time.Second, 0, true},
		{"that stays open for longer than it may", time.Minute, 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1})
				w.Start("a")
				w.AwaitOwners()
				due := time.Now().Add(20 * time.Second)
				w.Register("x", due)
				time.Sleep(time.Second)
				end := openTransaction(t, w, "flink", 0, &kgo.Record{
					Key:   []byte("other"),
					Value: []byte(`{"op":"cancel"}`),
				})
				w.SendTo(0, "x", `{"op":"cancel"}`)
				time.Sleep(time.Until(due.Add(c.ends)))
				end(kgo.TryAbort)
				time.Sleep(30 * time.Second)
				w.RequireDelivered("x", c.fires)
				if c.held && w.Heard("held") == 0 {
					t.Error("nobody was told that firing was held back")
				}
				w.Register("y", time.Now().Add(time.Second))
				time.Sleep(15 * time.Second)
				w.RequireDelivered("y", 1)
			})
		})
	}
}

// TestForeignTransactionHoldsOnce: what is due later does not wait another
// time for the same transaction.
func TestForeignTransactionHoldsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		for i := range 30 {
			w.Register(fmt.Sprintf("k%d", i), begin.Add(time.Duration(20+i)*time.Second))
		}
		time.Sleep(time.Second)
		end := openTransaction(t, w, "flink", 0, &kgo.Record{Key: []byte("other"), Value: []byte(`{"op":"cancel"}`)})
		time.Sleep(time.Minute + 15*time.Second)
		end(kgo.TryCommit)
		time.Sleep(time.Second)
		late := 0
		for _, r := range w.Dump(w.Names.Due("default")) {
			if r.Timestamp.Sub(begin.Add(30*time.Second)) > time.Second && r.Timestamp.Sub(begin) > 31*time.Second {
				var i int
				fmt.Sscanf(string(r.Key), "k%d", &i)
				if r.Timestamp.Sub(begin.Add(time.Duration(20+i)*time.Second)) > time.Second {
					late++
				}
			}
		}
		if late > 0 {
			t.Errorf("%d of 30 triggers waited again for a transaction that had been waited for", late)
		}
		w.CheckInvariants()
	})
}

// TestForeignTransactionOnDue: a due topic may be somebody's own, and Flink's
// transactions are open for minutes. Partitions open and fire behind them,
// whether we may ask whose they are or not.
func TestForeignTransactionOnDue(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse bool
	}{
		{"whose it is may be asked", false},
		{"whose it is may not be asked", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1})
				w.MaxLate = 2 * time.Second
				due := w.Names.Due("default")
				if c.refuse {
					w.Cluster.ControlKey(int16(kmsg.DescribeProducers),
						func(req kmsg.Request) (kmsg.Response, error, bool) {
							w.Cluster.KeepControl()
							return refuseProducers(req.(*kmsg.DescribeProducersRequest), due), nil, true
						})
				}
				w.Start("a")
				w.AwaitOwners()
				fire := func(key string) {
					t.Helper()
					w.Register(key, time.Now().Add(10*time.Second))
					time.Sleep(12 * time.Second)
					if !slices.ContainsFunc(w.DumpAll(due), func(r *kgo.Record) bool { return string(r.Key) == key }) {
						t.Errorf("%s has not fired", key)
					}
				}
				fire("before")
				end := openTransaction(t, w, "flink", 0, &kgo.Record{Topic: due, Key: []byte("other")})
				w.Kill("a")
				w.Start("a")
				w.AwaitOwners()
				fire("opened")
				openings := w.Heard("openings")
				w.Node("a").Cut()
				time.Sleep(20 * time.Second)
				w.AwaitOwners()
				fire("cut")
				time.Sleep(5 * time.Minute) // connections that idle are closed
				if n := w.Heard("openings") - openings; n > 0 {
					t.Errorf("the partition was opened again, %d times", n)
				}
				end(kgo.TryAbort)
				time.Sleep(time.Second)
				for _, key := range []string{"before", "opened", "cut"} {
					w.RequireDelivered(key, 1)
				}
				w.CheckInvariants()
			})
		})
	}
}

// refuseProducers says that the producers of a topic may not be seen.
func refuseProducers(req *kmsg.DescribeProducersRequest, topic string) *kmsg.DescribeProducersResponse {
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	for _, t := range req.Topics {
		rt := kmsg.NewDescribeProducersResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewDescribeProducersResponseTopicPartition()
			rp.Partition = p
			if t.Topic == topic {
				rp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

// TestInvisibleTail ends commands and receipts in what no reader is given:
// aborted transactions and markers, many and of several batches. Firing and
// restart must get past it.
func TestInvisibleTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.MaxLate = time.Second
		w.Start("a")
		w.AwaitOwners()
		for round := range 6 {
			w.Register(fmt.Sprintf("t%d", round), time.Now().Add(20*time.Second))
			for i := range 5 {
				end := openTransaction(t, w, fmt.Sprintf("foreign-%d-%d", round, i), 0,
					&kgo.Record{Key: []byte("ghost"), Value: []byte(`{"op":"register","delay":"1s"}`)},
					&kgo.Record{Key: []byte("ghost"), Value: []byte(`{"op":"register","delay":"2s"}`)})
				time.Sleep(100 * time.Millisecond)
				end(kgo.TryAbort)
			}
			if round%2 == 1 {
				w.Kill("a")
				w.Start("a")
				w.AwaitOwners()
			}
			time.Sleep(30 * time.Second)
		}
		w.CheckInvariants()
	})
}

// TestPoison sends everything that is no command. Each is rejected or passed
// over, the partition moves on, and a good command in its wake is on time.
func TestPoison(t *testing.T) {
	many := make([]kgo.RecordHeader, 10_000)
	for i := range many {
		many[i] = kgo.RecordHeader{Key: fmt.Sprintf("h%d", i), Value: []byte("v")}
	}
	forged := func(origin, id, at string) []kgo.RecordHeader {
		return []kgo.RecordHeader{
			{Key: "wcx-topic-id", Value: []byte(id)},
			{Key: "wcx-origin", Value: []byte(origin)},
			{Key: "wcx-append", Value: []byte(at)},
		}
	}
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		w.MaxLate = time.Second
		w.Start("a")
		w.AwaitOwners()
		good := []byte(`{"op":"register","delay":"24h"}`)
		rows := []struct {
			name string
			r    kgo.Record
		}{
			{"no key", kgo.Record{Value: good}},
			{"empty key", kgo.Record{Key: []byte{}, Value: good}},
			{"no value", kgo.Record{Key: []byte("k")}},
			{"empty value", kgo.Record{Key: []byte("k"), Value: []byte{}}},
			{"nothing at all", kgo.Record{}},
			{"garbage", kgo.Record{Key: []byte("k"), Value: []byte("\xff\xfe\x00")}},
			{"cut off", kgo.Record{Key: []byte("k"), Value: good[:12]}},
			{"an array", kgo.Record{Key: []byte("k"), Value: []byte(`[[[[]]]]`)}},
			{"deep", kgo.Record{Key: []byte("k"), Value: []byte(strings.Repeat("[", 100_000))}},
			{"unknown op", kgo.Record{Key: []byte("k"), Value: []byte(`{"op":"explode"}`)}},
			{"a key of ours", kgo.Record{Key: topics.KeyProgress, Value: good}},
			{"key that is no text", kgo.Record{Key: []byte{0xff, 0, 0x80}, Value: good}},
			{"long key", kgo.Record{Key: []byte(strings.Repeat("k", 70_000)), Value: good}},
			{"large value", kgo.Record{Key: []byte("k"), Value: []byte(`{"op":"register","delay":"1h","payload":"` +
				strings.Repeat("x", 900_000) + `"}`)}},
			{"large header", kgo.Record{
				Key: []byte("k"), Value: good,
				Headers: []kgo.RecordHeader{{Key: "h", Value: make([]byte, 900_000)}},
			}},
			{"10,000 headers", kgo.Record{Key: []byte("k"), Value: good, Headers: many}},
			{"a rule that never comes", kgo.Record{
				Key:   []byte("k"),
				Value: []byte(`{"op":"register","recurrence":"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}`),
			}},
			{"a rule of a thousand million", kgo.Record{
				Key:   []byte("j"),
				Value: []byte(`{"op":"register","recurrence":"FREQ=SECONDLY;COUNT=1000000000;BYMONTH=2;BYMONTHDAY=30"}`),
			}},
			{"forged: no such offset", kgo.Record{
				Key: []byte("k"), Value: good,
				Headers: forged("1/999999", "AAAAAAAAAAAAAAAAAAAAAA", "0"),
			}},
			{"forged: no such partition", kgo.Record{
				Key: []byte("k"), Value: good,
				Headers: forged("77/1", "AAAAAAAAAAAAAAAAAAAAAA", "0"),
			}},
			{"forged: no offset at all", kgo.Record{Key: []byte("k"), Value: good, Headers: forged("-1/-1", "x", "y")}},
		}
		for i, row := range rows {
			for p := range w.P {
				r := row.r
				r.Topic, r.Partition = w.Names.Commands(), p
				w.Produce(&r)
				r = row.r
				r.Topic, r.Partition = w.Names.Receipts(), p
				w.Produce(&r)
			}
			begin := time.Now()
			key := fmt.Sprintf("good-%d", i)
			w.Register(key, begin.Add(time.Second))
			time.Sleep(3 * time.Second)
			w.RequireDelivered(key, 1)
			if t.Failed() {
				t.Fatalf("%s: the partition stands still", row.name)
			}
		}
		if n := w.Heard("aborted"); n > 0 {
			t.Errorf("%d turns were given up", n)
		}
		w.CheckInvariants()
	})
}

// TestForgedForward: a header that claims to have been forwarded must not make
// a command be dropped as a copy, nor hide the real ones that come later.
func TestForgedForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2})
		w.Start("a")
		w.AwaitOwners()
		home := topics.Partition([]byte("x"), 2)
		info := w.Cluster.TopicInfo(w.Names.Commands())
		for _, claim := range []topics.Forward{
			{TopicID: info.TopicID, Partition: 1 - home, Offset: 1 << 40, Append: trigger.At(time.Now())},
			{TopicID: [16]byte{1}, Partition: 1 - home, Offset: 0, Append: trigger.At(time.Now())},
			{
				TopicID: info.TopicID, Partition: 1 - home, Offset: 1 << 40,
				Append: trigger.At(time.Now().Add(-30 * 24 * time.Hour)),
			},
		} {
			r := &kgo.Record{
				Topic: w.Names.Commands(), Partition: home, Key: []byte("x"),
				Value: []byte(`{"op":"pause"}`),
			}
			for _, h := range topics.ForwardHeaders(nil, claim) {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			w.Produce(r)
		}
		for i := range 20 {
			key := fmt.Sprintf("k%d", i)
			w.RegisterOn(1-topics.Partition([]byte(key), 2), key, time.Now().Add(10*time.Second))
		}
		time.Sleep(time.Minute)
		w.CheckInvariants()
	})
}

// TestInterleavings: every order of a register and a cancel, each on the right
// or the wrong partition, with and without a crash in between. Whichever was
// acknowledged first comes first.
func TestInterleavings(t *testing.T) {
	for bits := range 16 {
		strayRegister, strayCancel, cancelFirst, crash := bits&1 != 0, bits&2 != 0, bits&4 != 0, bits&8 != 0
		t.Run(fmt.Sprintf("register stray %v, cancel stray %v, cancel first %v, crash %v", strayRegister, strayCancel,
			cancelFirst, crash), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: uint64(bits), Partitions: 2})
				w.Start("a")
				w.AwaitOwners()
				for i := range 10 {
					key := fmt.Sprintf("k%d", i)
					home := topics.Partition([]byte(key), 2)
					on := map[bool]int32{false: home, true: 1 - home}
					at := time.Now().Add(30 * time.Second)
					if cancelFirst {
						w.CancelOn(on[strayCancel], key)
						time.Sleep(1100 * time.Millisecond) // within a second a cancel wins
						crashIf(w, crash && i%3 == 0)
						w.RegisterOn(on[strayRegister], key, at)
						continue
					}
					w.RegisterOn(on[strayRegister], key, at)
					time.Sleep(2 * time.Millisecond)
					crashIf(w, crash && i%3 == 0)
					w.CancelOn(on[strayCancel], key)
				}
				w.AwaitOwners()
				time.Sleep(2 * time.Minute)
				for i := range 10 {
					w.RequireDelivered(fmt.Sprintf("k%d", i), map[bool]int{false: 0, true: 1}[cancelFirst])
				}
			})
		})
	}
}

func crashIf(w *sim.World, yes bool) {
	if yes {
		w.Kill("a")
		w.Start("a")
	}
}
