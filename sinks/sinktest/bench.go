package sinktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Bench measures Apply, by how many of a trigger's events are in one batch. All three (the whole
// life of a short timer) is the best case for folding; one (triggers that wait for days) is the
// worst.
func Bench(b *testing.B, open func(testing.TB) sinks.History) {
	for _, together := range []int{1, 3} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			h, g := open(b), NewStream(together)
			n, cpu := 0, cpuTime(b)
			b.ReportAllocs()
			for b.Loop() {
				batch := g.Batch()
				n += len(batch)
				if err := h.Apply(context.Background(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "events/s")
			// CPU time of this process, so other load on the machine does not count.
			b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(n), "cpu-µs/event")
		})
	}
}

// cpuTime returns the CPU time of this process, user and system.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Stream is an endless log of short timers: registered with 256 bytes of payload, fired,
// delivered.
type Stream struct {
	together int
	rand     *rand.Rand
	us       int64
	offset   int64
	next     int
	tenant   string
}

// BatchSize is the projector's default.
const BatchSize = 2000

// NewStream returns the same log every time, except for its tenant and its times.
func NewStream(together int) *Stream {
	return &Stream{
		together: together, rand: rand.New(rand.NewPCG(1, 2)), us: time.Now().Add(-time.Hour).UnixMicro(),
		tenant: fmt.Sprintf("b%08x", rand.Uint32()),
	}
}

// Batch returns the next BatchSize events, or a few fewer.
func (s *Stream) Batch() (all []sinks.EventRecord) {
	for len(all)+s.together <= BatchSize {
		for phase := range s.together {
			if s.together == 1 {
				phase = s.next % 3
			}
			all = append(all, s.event(s.next, phase))
		}
		s.next++
	}
	return all
}

func (s *Stream) event(n, phase int) sinks.EventRecord {
	s.us += 37
	s.offset++
	key := fmt.Sprintf("trg_%020d", n)
	r := sinks.EventRecord{Partition: topics.Partition([]byte(key), 16), Offset: s.offset}
	step, late := 0, int64(2)
	due := time.UnixMicro(s.us).Add(7 * time.Minute)
	r.Event = topics.Event{
		EventID: topics.EventID(r.Partition, s.us), Version: 1, Trigger: key, Tenant: s.tenant, Revision: 1,
		Seq:        int64(phase + 1),
		OccurredAt: trigger.Instant(s.us / 1000).String(), EventUS: s.us, Channel: "push",
		UserID: fmt.Sprintf("u_%d", n%5000),
		Source: fmt.Sprintf("waterclock.commands/%d/%d", r.Partition, s.offset), Occurrence: trigger.At(due).String(),
	}
	switch phase {
	case 0:
		r.Type, r.State, r.ScheduledAt = "trigger.registered", "PENDING", trigger.At(due).String()
		r.Payload = s.payload()
	case 1:
		r.Type, r.State, r.PreviousState, r.ScheduledAt = "occurrence.fired", "IN_FLIGHT", "PENDING",
			trigger.At(due).String()
		r.Step, r.Attempt, r.LatenessMS, r.DueTopic = &step, 1, &late, "waterclock.due.push"
	default:
		r.Type, r.State, r.PreviousState, r.Step, r.Attempt = "delivery.delivered", "FIRED", "IN_FLIGHT", &step, 1
	}
	return r
}

// payload returns JSON of 256 bytes that do not compress well.
func (s *Stream) payload() json.RawMessage {
	body := make([]byte, 256-len(`{"holdId":""}`))
	for i := range body {
		body[i] = "abcdefghijklmnopqrstuvwxyz012345"[s.rand.IntN(32)]
	}
	return json.RawMessage(`{"holdId":"` + string(body) + `"}`)
}

// BenchNotifications measures a page of a hundred notifications, with content. The user has own
// notifications, and there are all in all. Each has two events and content. The user's pages are read ten
// times before, because a server on a JVM that has read nothing yet compiles first.
func BenchNotifications(b *testing.B, open func(testing.TB) sinks.History, own, all int) {
	h := open(b)
	began := time.Now()
	fillNotifications(b, h, own, all)
	b.Logf("%d notifications were written in %s", all, time.Since(began).Round(time.Second))
	q := topics.NotificationQuery{Tenant: "bench", User: "busy", Content: true}
	took := make([]time.Duration, 0, 1000)
	read := 0
	next := func() (last bool) {
		at := time.Now()
		page, err := h.Notifications(context.Background(), q)
		took = append(took, time.Since(at))
		if err != nil {
			b.Fatal(err)
		}
		for i := range page.Items {
			if page.Items[i].Content == nil {
				b.Fatalf("%s has no content", page.Items[i].ID)
			}
		}
		read += len(page.Items)
		if q.After = page.Next; !q.After.IsZero() {
			return false
		}
		if read != own {
			b.Fatalf("the user has %d, want %d", read, own)
		}
		read = 0
		return true
	}
	for range 10 {
		for !next() {
		}
	}
	took = took[:0]
	for b.Loop() {
		next()
	}
	slices.Sort(took)
	for _, percent := range []int{50, 99} {
		b.ReportMetric(float64(took[len(took)*percent/100].Microseconds())/1000, fmt.Sprintf("p%d-ms/page", percent))
	}
}

func fillNotifications(b *testing.B, h sinks.History, own, all int) {
	const span = 80 * 24 * time.Hour
	start, step := time.Now().Add(-span), span/time.Duration(all)
	ctx := context.Background()
	var events []sinks.EventRecord
	var contents []sinks.ContentRecord
	for i := range all {
		user := fmt.Sprintf("u%d", i%5000)
		if i%(all/own) == 0 {
			user = "busy"
		}
		key := fmt.Sprintf("bench/k%d", i)
		fired := trigger.At(start.Add(time.Duration(i) * step))
		for k, t := range []trigger.FactType{trigger.OccurrenceFired, trigger.DeliveryAccepted} {
			events = append(events, sinks.EventRecord{Offset: int64(2*i + k), Event: topics.Event{
				Type: string(t), Trigger: key, Tenant: "bench", UserID: user, Occurrence: "o", State: "FIRED",
				Channel: "push", EventUS: int64(fired)*1000 + int64(k), FirstFired: fired.String(),
				Tags: map[string]string{"type": "reminder"},
			}})
		}
		contents = append(contents, sinks.ContentRecord{
			TopicPartition: sinks.TopicPartition{Topic: "due"}, Offset: int64(i), Has: true, Tenant: "bench",
			Trigger: key, ID: topics.NotificationID(key, "o"),
			ContentRow: sinks.ContentRow{US: int64(fired) * 1000, Created: fired, Content: topics.NotificationContent{
				Title: "Take your pills", Body: "Two of the white ones, and one of the blue ones, after breakfast.",
			}},
		})
		if len(events) < BatchSize && i < all-1 {
			continue
		}
		untilTaken(b, func() error { return h.Apply(ctx, events) })
		untilTaken(b, func() error { return h.ApplyContent(ctx, contents) })
		events, contents = events[:0], contents[:0]
	}
}

// untilTaken retries like the projector, for a store that is slow under load.
func untilTaken(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for range 20 {
		if err = try(); !errors.Is(err, sinks.ErrUnavailable) {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
}
