package chaos

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// What other clients do to the topics.
var clientFaults = []*fault{
	{name: "foreign transactions stay open on commands", strike: func(w *world) func() {
		w.foreign(prefix + "commands")
		return nil
	}},
	{name: "foreign transactions stay open on receipts", strike: func(w *world) func() {
		w.foreign(prefix + "receipts")
		return nil
	}},
	{name: "hostile records", strike: func(w *world) func() {
		w.during(8*time.Second, func() {
			for _, r := range hostile(w.load) {
				w.load.produce(r)
			}
			time.Sleep(w.between(0, 2*time.Second))
		})
		return nil
	}},
}

// foreign opens a transaction on each partition of a topic for longer than
// firing is held back for it, and commits or aborts. It writes registers, of
// which only the committed ones may fire.
func (w *world) foreign(topic string) {
	w.t.Helper()
	w.foreigners++
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.brokers...), kgo.TransactionalID(fmt.Sprintf("foreign-%d",
		w.foreigners)), kgo.TransactionTimeout(time.Minute),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Error(err)
		return
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := cl.BeginTransaction(); err != nil {
		w.t.Error(err)
		return
	}
	for range 2 * partitions {
		r := commandRecord(w.load.key("f"), "foreign", "wc-delay", "2s")
		r.Topic = topic // on receipts it is none, and refused if it is committed
		cl.Produce(ctx, r, nil)
	}
	_ = cl.Flush(ctx) // a broker that was just away: then there is less in it
	time.Sleep(w.between(4*time.Second, 14*time.Second))
	if err := cl.EndTransaction(ctx, kgo.TransactionEndTry(w.rng.IntN(2) == 0)); err != nil {
		w.t.Logf("%7s  the foreign transaction's end: %v", w.at(time.Now()), err)
	}
}

// hostile are records that no producer of ours would write.
func hostile(l *load) (records []*kgo.Record) {
	add := func(value string, headers ...string) *kgo.Record {
		r := commandRecord(l.key("p"), value, headers...)
		records = append(records, r)
		return r
	}
	add("")                                                                     // no command
	add("{")                                                                    // cut off
	add(`{"op":"register","delay":"1s","format":99,"future":{"a":[1,2]}}`)      // of a version to come
	add(`{"op":"explode"}`)                                                     // no op
	add(`{"op":"register","recurrence":"every:10ms"}`)                          // too short a period
	add(`{"op":"register","recurrence":"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"}`) // never
	add(`{"op":"register","fire_at":"9999-12-31T23:59:59Z"}`)                   // beyond all horizons
	add(`{"op":"register","delay":"-5s"}`)                                      // negative
	add(strings.Repeat("x", 100<<10), "wc-delay", "1s")                         // too large a payload
	add("x", "wc-delay", "1s", "big", strings.Repeat("h", 64<<10))              // too large a header
	add("x", "wc-delay", "1s", "wc-delay", "2s")                                // twice
	add("x", "wc-dealy", "1s")                                                  // misspelled
	add("x", "wcx-origin", "0/0", "wcx-topic-id", "AAAA", "wcx-append", "1")    // a forged claim
	add(strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000))        // deep
	add(`{"op":"cancel"}`)                                                      // of nobody
	add("\xff\xfe\x00\x01", "wc-op", "register")                                // bytes
	add("x", "wc-delay", "1s").Key = []byte("a key\nwith a line")               // a key that is none
	add("x", "wc-delay", "1s").Key = []byte(strings.Repeat("k", 300))           // too long
	add("x", "wc-delay", "1s").Key = nil                                        // none
	add("").Value = nil                                                         // a tombstone of nobody
	many := add("x", "wc-delay", "1s")                                          // ten thousand headers
	for i := range 10_000 {
		many.Headers = append(many.Headers, kgo.RecordHeader{Key: fmt.Sprint("h", i)})
	}
	return records
}
