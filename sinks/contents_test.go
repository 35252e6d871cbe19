package sinks_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// dues is a broker with due topics, to which a test writes like an engine.
type dues struct {
	t       *testing.T
	brokers []string
	client  *kgo.Client
	fired   trigger.Instant
}

func newDues(t *testing.T, names ...string) *dues {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, names...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	d := &dues{t: t, brokers: c.ListenAddrs(), fired: trigger.At(time.Now().Add(-time.Minute))}
	d.client, err = kgo.NewClient(kgo.SeedBrokers(d.brokers...), kgo.TransactionalID("engine"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.client.Close)
	return d
}

// due makes a due event for user u.
func (d *dues) due(topic, key, user, payload string) *kgo.Record {
	f := &trigger.Fire{
		Key: trigger.Key(key), Occurrence: "o", Attempt: 1, Fired: d.fired, Nominal: d.fired, Revision: 1,
		Spec: &trigger.Spec{UserID: user, Payload: []byte(payload)},
	}
	k, v, headers := topics.DueRecord(f, topics.DueEnv{Cluster: "c"})
	rec := &kgo.Record{Topic: topic, Key: k, Value: v}
	for _, h := range headers {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return rec
}

// write writes records in one transaction, and ends it as given.
func (d *dues) write(end kgo.TransactionEndTry, records ...*kgo.Record) {
	d.t.Helper()
	ctx := d.t.Context()
	if err := d.client.BeginTransaction(); err != nil {
		d.t.Fatal(err)
	}
	err := d.client.ProduceSync(ctx, records...).FirstErr()
	if err = errors.Join(err, d.client.EndTransaction(ctx, end)); err != nil {
		d.t.Fatal(err)
	}
}

// run reads contents into a store until a condition is true.
func (d *dues) run(h sinks.History, o sinks.ContentOptions, until func() bool) {
	d.t.Helper()
	ctx, stop := context.WithCancel(d.t.Context())
	done := make(chan error, 1)
	o.Kafka = []kgo.Opt{kgo.SeedBrokers(d.brokers...)}
	o.RetryMin, o.NewTopics = time.Millisecond, 100*time.Millisecond
	go func() { done <- sinks.RunContents(ctx, h, o) }()
	for deadline := time.Now().Add(2 * time.Minute); !until(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			stop()
			d.t.Fatalf("not within two minutes; the reader returned %v", <-done)
		}
	}
	stop()
	if err := <-done; err != nil {
		d.t.Fatal(err)
	}
}

// title returns the title of a trigger's notification. It needs the events of the notification
// too.
func title(t *testing.T, s *sink, key string) string {
	t.Helper()
	n, _, err := s.Notification(context.Background(), trigger.Key(key).Tenant(), key+"@o")
	if err != nil {
		t.Fatal(err)
	}
	if n.Content == nil {
		return ""
	}
	return n.Content.Title
}

// happened applies events that report that occurrences were emitted.
func happened(t *testing.T, s *sink, keys ...string) {
	t.Helper()
	var batch []sinks.EventRecord
	for i, key := range keys {
		at := time.Now().Add(-time.Minute)
		batch = append(batch, sinks.EventRecord{Offset: int64(i), Event: topics.Event{
			Type: "occurrence.fired", Trigger: key, Tenant: trigger.Key(key).Tenant(), UserID: "u", Occurrence: "o",
			State: "FIRED", EventUS: at.UnixMicro() + int64(i), FirstFired: trigger.At(at).String(), Channel: "push",
		}})
	}
	if err := s.Apply(context.Background(), batch); err != nil {
		t.Fatal(err)
	}
}

// Content that was committed on any due topic is stored, also on a topic that is created later.
// Aborted records, other records and due events for no user are not.
func TestContents(t *testing.T) {
	d, s := newDues(t, "w.due.push", "w.due.push.high", "own", "other"), newSink(t)
	say := func(topic, key string) *kgo.Record { return d.due(topic, key, "u", `{"title":"`+key+`"}`) }
	d.write(kgo.TryCommit, say("w.due.push", "a"), say("w.due.push.high", "b"), say("own", "c"), say("other", "no-1"),
		&kgo.Record{Topic: "own", Key: []byte("x"), Value: []byte("{")},
		d.due("own", "no-2", "", `{"title":"for nobody"}`), d.due("own", "no-3", "u", `[1]`))
	d.write(kgo.TryAbort, say("w.due.push", "no-4"))
	d.write(kgo.TryCommit, say("w.due.push", "d"))
	all := []string{"a", "b", "c", "d", "e", "no-1", "no-2", "no-3", "no-4"}
	happened(t, s, all...)
	made := false
	d.run(s, sinks.ContentOptions{Topics: []string{`^w\.due\..+$`, "^own$"}}, func() bool {
		if !made && title(t, s, "d") != "" {
			made = true
			if _, err := kadm.NewClient(d.client).CreateTopic(t.Context(), 2, 1, nil, "w.due.new"); err != nil {
				t.Fatal(err)
			}
			d.write(kgo.TryCommit, say("w.due.new", "e"))
		}
		return title(t, s, "a") != "" && title(t, s, "b") != "" && title(t, s, "c") != "" && title(t, s, "e") != ""
	})
	for _, key := range all {
		want := key
		if len(key) > 1 {
			want = ""
		}
		if got := title(t, s, key); got != want {
			t.Errorf("%s says %q", key, got)
		}
	}
}

// stubborn is a sink whose ApplyContent a test controls.
type stubborn struct {
	*sink
	content func(batch []sinks.ContentRecord, next func() error) error
}

func (s *stubborn) ApplyContent(ctx context.Context, batch []sinks.ContentRecord) error {
	return s.content(batch, func() error { return s.sink.ApplyContent(ctx, batch) })
}

// Neither a reader that stops midway nor a store that fails loses content, whether the store or
// the group keeps the offsets.
func TestContentsInterrupted(t *testing.T) {
	for _, groupOffsets := range []bool{false, true} {
		t.Run(fmt.Sprintf("group=%v", groupOffsets), func(t *testing.T) {
			const n = 60
			d, s := newDues(t, "w.due.push"), newSink(t)
			s.groupOffsets = groupOffsets
			var keys []string
			for i := range n {
				keys = append(keys, fmt.Sprintf("k%d", i))
				d.write(kgo.TryCommit, d.due("w.due.push", keys[i], "u", `{"title":"t"}`))
			}
			happened(t, s, keys...)
			var tries, went atomic.Int64
			h := &stubborn{sink: s, content: func(_ []sinks.ContentRecord, next func() error) error {
				switch tries.Add(1) % 3 {
				case 0:
					return sinks.ErrUnavailable
				case 1: // the rows are written, but the caller gets an error
					return errors.Join(next(), sinks.ErrUnavailable)
				}
				went.Add(1)
				return next()
			}}
			o := sinks.ContentOptions{Topics: []string{`^w\.due\..+$`}, MaxRecords: 7}
			for i := range 3 {
				goal := int64(i + 1)
				d.run(h, o, func() bool { return went.Load() >= goal })
			}
			d.run(h, o, func() bool {
				for _, key := range keys {
					if title(t, s, key) == "" {
						return false
					}
				}
				return true
			})
		})
	}
}

// A record that the store refuses stops its partition and no other. Once the store accepts it, the
// partition continues in order, and nothing is left out.
func TestContentsRefused(t *testing.T) {
	for _, groupOffsets := range []bool{false, true} {
		t.Run(fmt.Sprintf("group=%v", groupOffsets), func(t *testing.T) {
			d, s := newDues(t, "w.due.push", "w.due.sms"), newSink(t)
			s.groupOffsets = groupOffsets
			held := topics.Partition([]byte("bad"), 2)
			var beside, behind string // keys of the other partition, and of that of bad
			for i := 0; beside == "" || behind == ""; i++ {
				key := fmt.Sprintf("k%d", i)
				if topics.Partition([]byte(key), 2) == held {
					behind = key
				} else {
					beside = key
				}
			}
			say := func(topic, key string) *kgo.Record { return d.due(topic, key, "u", `{"title":"`+topic+`"}`) }
			d.write(kgo.TryCommit, say("w.due.push", "bad"))
			d.write(kgo.TryCommit, say("w.due.push", beside), say("w.due.push", behind), say("w.due.sms", "far"))
			happened(t, s, "bad", beside, behind, "far", "later")
			var mended atomic.Bool
			h := &stubborn{sink: s, content: func(batch []sinks.ContentRecord, next func() error) error {
				for i := range batch {
					if batch[i].Trigger == "bad" && !mended.Load() {
						return fmt.Errorf("%w: the column is gone", sinks.ErrRefused)
					}
				}
				return next()
			}}
			stage := 0
			d.run(h, sinks.ContentOptions{Topics: []string{`^w\.due\.`}, RetryMax: 5 * time.Millisecond}, func() bool {
				switch {
				case stage == 0 && title(t, s, beside) != "" && title(t, s, "far") != "":
					d.write(kgo.TryCommit, say("w.due.sms", "later"))
					stage = 1
				case stage == 1 && title(t, s, "later") != "":
					if title(t, s, behind) != "" {
						t.Error("the partition went on past what was refused")
					}
					mended.Store(true)
					stage = 2
				}
				return stage == 2 && title(t, s, "bad") != "" && title(t, s, behind) != ""
			})
		})
	}
}

// The lag counts what is committed and not in the store, including markers. It is 0 when the
// store has everything.
func TestContentLag(t *testing.T) {
	for _, groupOffsets := range []bool{false, true} {
		t.Run(fmt.Sprintf("group=%v", groupOffsets), func(t *testing.T) {
			d, s := newDues(t, "w.due.push"), newSink(t)
			s.groupOffsets = groupOffsets
			d.write(kgo.TryCommit, d.due("w.due.push", "a", "u", `{"title":"t"}`))
			d.write(kgo.TryAbort, d.due("w.due.push", "b", "u", `{"title":"t"}`))
			var lag, away atomic.Int64
			lag.Store(-1)
			away.Store(1)
			h := &stubborn{sink: s, content: func(_ []sinks.ContentRecord, next func() error) error {
				if away.Load() == 1 {
					return sinks.ErrUnavailable
				}
				return next()
			}}
			o := sinks.ContentOptions{
				Topics: []string{"^w\\.due\\."}, LagEvery: 5 * time.Millisecond, RetryMax: 10 * time.Millisecond,
				Lag: func(_ string, records int64) { lag.Store(records) },
			}
			d.run(h, o, func() bool { return lag.Load() >= 4 }) // two records and two markers
			away.Store(0)
			d.run(h, o, func() bool { return lag.Load() == 0 && d.applied(s) >= 4 })
			d.run(h, o, func() bool { return lag.Load() == 0 }) // a reader that starts where everything is read
		})
	}
}

// applied returns how many records of the due topics are in a store.
func (d *dues) applied(s *sink) (n int64) {
	d.t.Helper()
	all, err := s.ContentProgress(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	for _, next := range all {
		n += next
	}
	return n
}

// A rebuild stores the content that the due topics have, and reports the time from which that is
// complete.
func TestRebuildContents(t *testing.T) {
	d, fresh := newDues(t, "w.due.push", "w.due.sms", "other"), newSink(t)
	say := func(topic, key string) *kgo.Record { return d.due(topic, key, "u", `{"title":"`+key+`"}`) }
	o := sinks.ContentRebuildOptions{
		Kafka: []kgo.Opt{kgo.SeedBrokers(d.brokers...)}, Topics: []string{`^w\.due\.`}, Into: fresh, MaxRecords: 2,
	}
	if r, err := sinks.RebuildContents(t.Context(), o); err != nil || r.Events != 0 || !r.Since.IsZero() {
		t.Fatalf("of empty topics: %+v, %v", r, err)
	}
	d.write(kgo.TryCommit, say("w.due.push", "old"))
	d.write(kgo.TryCommit, say("w.due.push", "a"), say("w.due.sms", "b"), say("other", "no-1"),
		&kgo.Record{Topic: "w.due.sms", Key: []byte("b"), Value: []byte("{")})
	d.write(kgo.TryAbort, say("w.due.push", "no-2"))
	all := []string{"old", "a", "b", "no-1", "no-2"}
	happened(t, fresh, all...)
	var last sinks.RebuildProgress
	o.Progress = func(p sinks.RebuildProgress) { last = p }
	check := func(want ...string) *sinks.ContentReport {
		t.Helper()
		r, err := sinks.RebuildContents(t.Context(), o)
		if err != nil || r.Events != int64(len(want)) || last.Done == 0 && len(want) > 0 {
			t.Fatalf("%+v, %v; progress %+v", r, err, last)
		}
		for _, key := range all {
			said := ""
			if slices.Contains(want, key) {
				said = key
			}
			if got := title(t, fresh, key); got != said {
				t.Errorf("%s says %q", key, got)
			}
		}
		return r
	}
	if r := check("old", "a", "b"); !r.Since.IsZero() || !strings.Contains(r.String(), "all of it") {
		t.Errorf("of topics that have lost nothing: %s", r)
	}

	fresh = newSink(t) // the topic's first record is gone
	o.Into = fresh
	happened(t, fresh, all...)
	admin := kadm.NewClient(d.client)
	first := topics.Partition([]byte("old"), 2)
	cut := kadm.Offsets{}
	cut.AddOffset("w.due.push", first, 1, -1)
	if _, err := admin.DeleteRecords(t.Context(), cut); err != nil {
		t.Fatal(err)
	}
	r := check("a", "b")
	if since := time.Since(r.Since); since < -time.Minute || since > time.Hour ||
		!strings.Contains(r.String(), r.Since.UTC().Format(time.RFC3339)) {
		t.Errorf("since %s: %s", r.Since, r)
	}
}
