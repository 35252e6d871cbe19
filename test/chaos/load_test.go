package chaos

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/check"
	"github.com/waterclock/waterclock/topics"
)

// load writes commands of every kind, and keeps which of them Kafka
// acknowledged. What is right is the checker's to say: here nothing is judged.
type load struct {
	w    *world
	cl   *kgo.Client
	rng  *rand.Rand // of the one goroutine that draws
	rate atomic.Int64
	stop func()

	later sync.WaitGroup // second commands of a trigger, and what is on its way

	mu       sync.Mutex
	n        int // triggers so far
	acks     []check.Ack
	unknown  int
	overHTTP int // of which Kafka told us nothing: the gateway wrote them
	receipts int
}

// longest is how long after a load's end something can still be due: 20 s, and
// three attempts of 5 s on channel acked with their waits. A pause whose resume
// was not written lasts for ever.
const longest = 40 * time.Second

func startLoad(w *world, seed uint64) *load {
	l := &load{w: w, rng: rand.New(rand.NewPCG(seed, 2))}
	l.cl = w.client(kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(30*time.Second))
	ctx, cancel := context.WithCancel(context.Background())
	var drawing, running sync.WaitGroup
	drawing.Go(func() { l.run(ctx) })
	receipts, end := context.WithCancel(context.Background())
	running.Go(func() { l.answer(receipts) })
	l.stop = sync.OnceFunc(func() {
		cancel()
		drawing.Wait()
		l.later.Wait()
		for begin := time.Now(); time.Since(begin) < longest && w.pending(); { // receipts go on meanwhile
			time.Sleep(time.Second)
		}
		end()
		running.Wait()
		if err := l.cl.Flush(context.Background()); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() { cancel(); end(); drawing.Wait(); running.Wait() })
	return l
}

// client is a Kafka client of the test's own.
func (w *world) client(opts ...kgo.Opt) *kgo.Client {
	w.t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(w.brokers...), kgo.MetadataMinAge(200 * time.Millisecond), kgo.MetadataMaxAge(2 * time.Second),
		kgo.RetryBackoffFn(func(int) time.Duration { return 100 * time.Millisecond }),
	}, opts...)...)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return cl
}

// pace sets how many triggers a second are begun.
func (l *load) pace(perSecond int) { l.rate.Store(int64(perSecond)) }

func (l *load) run(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	owed, last := 0.0, time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			owed += float64(l.rate.Load()) * now.Sub(last).Seconds()
			last = now
		}
		for ; owed >= 1; owed-- {
			l.trigger()
		}
	}
}

// kind is a story of a trigger. Times are drawn before it begins, so that the
// seed decides.
type kind struct {
	share int // of a hundred
	start func(l *load, key string, first, second time.Duration)
}

var kinds = []kind{
	{24, func(l *load, key string, first, _ time.Duration) {
		l.command(key, "a", "wc-delay", first.String())
	}},
	{20, func(l *load, key string, first, _ time.Duration) {
		l.command(key, "b", "wc-fire-at", millis(first))
	}},
	{10, func(l *load, key string, first, second time.Duration) {
		l.command(key, "c", "wc-fire-at", millis(first))
		l.after(second, func() { l.command(key, "cancel", "wc-op", "cancel") })
	}},
	{6, func(l *load, key string, first, second time.Duration) { // replaced by other content
		l.json(key, `{"op":"register","delay":%q,"payload":{"v":1}}`, first)
		l.after(second, func() { l.json(key, `{"op":"register","delay":%q,"payload":{"v":2}}`, first) })
	}},
	{5, func(l *load, key string, first, second time.Duration) {
		l.json(key, `{"op":"register","delay":%q}`, first)
		l.after(second, func() { l.json(key, `{"op":"reschedule","delay":%q}`, first/2) })
	}},
	{5, func(l *load, key string, first, second time.Duration) { // before the fact or after it
		l.json(key, `{"op":"register","delay":%q}`, first/2)
		l.after(second, func() { l.json(key, `{"op":"snooze","for":%q}`, first/2) })
	}},
	{6, func(l *load, key string, _, second time.Duration) {
		l.json(key, `{"op":"register","recurrence":"every:2s","count":6,"misfire":"fire_all"}`)
		l.after(second, func() { l.json(key, `{"op":"skip"}`) })
	}},
	{4, func(l *load, key string, _, second time.Duration) {
		l.json(key, `{"op":"register","recurrence":"FREQ=SECONDLY;INTERVAL=3;COUNT=5"}`)
		l.after(second, func() { l.json(key, `{"op":"pause"}`) })
		l.after(second+4*time.Second, func() { l.json(key, `{"op":"resume"}`) })
	}},
	{3, func(l *load, key string, _, second time.Duration) {
		l.json(key,
			`{"op":"register","recurrence":"FREQ=MINUTELY;BYSECOND=0,10,20,30,40,50","count":2,"misfire":"skip","timezone":"America/New_York"}`)
		l.after(second, func() { l.json(key, `{"op":"run_now"}`) })
	}},
	{6, func(l *load, key string, first, _ time.Duration) { // answered by receipts
		l.json(key, `{"op":"register","delay":%q,"channel":"acked"}`, first)
	}},
	{3, func(l *load, key string, first, second time.Duration) { // by a producer with another partitioner
		l.misplaced(key, "d", "wc-fire-at", millis(first))
		l.after(second, func() { l.command(key, "cancel", "wc-op", "cancel") })
	}},
	{3, func(l *load, key string, first, _ time.Duration) { // a producer that sends everything twice
		at := millis(first)
		l.command(key, "e", "wc-fire-at", at)
		l.command(key, "e", "wc-fire-at", at)
	}},
	{5, func(l *load, key string, first, _ time.Duration) {
		l.later.Go(func() { l.put(key, first) })
	}},
}

// trigger begins one.
func (l *load) trigger() {
	first := time.Duration(500+l.rng.IntN(9500)) * time.Millisecond
	if l.rng.IntN(10) == 0 {
		first *= 2
	}
	second := time.Duration(l.rng.IntN(5000)) * time.Millisecond
	at := l.rng.IntN(100)
	key := l.key("k")
	for _, k := range kinds {
		if at -= k.share; at < 0 {
			k.start(l, key, first, second)
			return
		}
	}
}

func (l *load) key(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return fmt.Sprintf("%s-%d", name, l.n)
}

// herd registers n triggers that are all due at an instant.
func (l *load) herd(n int, due time.Time) {
	at := fmt.Sprint(due.UnixMilli())
	for range n {
		l.command(l.key("h"), "herd", "wc-fire-at", at)
	}
}

func (l *load) after(d time.Duration, then func()) {
	l.later.Go(func() { time.Sleep(d); then() })
}

func millis(in time.Duration) string { return fmt.Sprint(time.Now().Add(in).UnixMilli()) }

// command writes a command in the spelling of headers.
func (l *load) command(key, value string, headers ...string) {
	l.produce(commandRecord(key, value, headers...))
}

func (l *load) json(key, format string, args ...any) {
	l.produce(commandRecord(key, fmt.Sprintf(format, args...)))
}

// misplaced writes it to a partition that is not its own.
func (l *load) misplaced(key, value string, headers ...string) {
	r := commandRecord(key, value, headers...)
	r.Partition = (r.Partition + 1) % partitions
	l.produce(r)
}

func commandRecord(key, value string, headers ...string) *kgo.Record {
	r := &kgo.Record{
		Topic: prefix + "commands", Partition: topics.Partition([]byte(key), partitions), Key: []byte(key),
		Value: []byte(value),
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: headers[i], Value: []byte(headers[i+1])})
	}
	return r
}

func (l *load) produce(r *kgo.Record) {
	l.later.Add(1)
	l.cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		defer l.later.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		if err != nil {
			l.unknown++
			return
		}
		l.acks = append(l.acks, check.Ack{Partition: r.Partition, Offset: r.Offset, Key: string(r.Key), Value: r.Value})
	})
}

// put registers over HTTP, and tries again as long as the answer is none.
func (l *load) put(key string, delay time.Duration) {
	body := fmt.Appendf(nil, `{"delay":%q}`, delay)
	for i := range 10 {
		e := l.w.engines[(i+len(key))%len(l.w.engines)]
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		status := putOnce(ctx, e.url+"/v1/triggers/"+key, body)
		cancel()
		l.mu.Lock()
		l.overHTTP++
		l.mu.Unlock()
		if status/100 == 2 {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func putOnce(ctx context.Context, url string, body []byte) (status int) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// answer is the channel acked: it reports what became of each due event, and
// now and then nothing.
func (l *load) answer(ctx context.Context) {
	cl := l.w.client(kgo.ConsumeTopics(prefix+"due.acked"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(300*time.Millisecond),
		kgo.UnknownTopicRetries(-1))
	rng := rand.New(rand.NewPCG(l.w.s.seed, 3))
	for ctx.Err() == nil {
		fs := cl.PollFetches(ctx)
		for it := fs.RecordIter(); !it.Done(); {
			l.receipt(it.Next(), rng.IntN(100))
		}
	}
}

func (l *load) receipt(due *kgo.Record, draw int) {
	var outcome string
	switch {
	case draw < 55:
		outcome = `"delivered"`
	case draw < 65:
		outcome = `"accepted"`
	case draw < 80:
		outcome = `"retry"`
	case draw < 88:
		outcome = `"failed"`
	default: // silence
		return
	}
	key := header(due, "ce_subject")
	l.mu.Lock()
	l.receipts++
	l.mu.Unlock()
	l.cl.Produce(context.Background(), &kgo.Record{
		Topic: prefix + "receipts", Partition: topics.Partition([]byte(key), partitions), Key: []byte(key),
		Value: fmt.Appendf(nil, `{"due_id":%q,"channel":"acked","outcome":%s,"attempt":%s}`, header(due, "ce_id"),
			outcome, header(due, "ce_wcattempt")),
	}, nil)
}

func header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}
