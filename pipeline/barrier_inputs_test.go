package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// order sends a command of the JSON spelling.
func order(w *sim.World, key, format string, args ...any) {
	w.Send(key, fmt.Sprintf(format, args...))
}

// TestResumeOnAPartitionJustOpened: the runs that a resume lets go never pass
// the wheel, so nothing but they can make the barrier ask.
func TestResumeOnAPartitionJustOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		order(w, "s", `{"op":"register","recurrence":"every:1m","misfire":"fire_all"}`)
		time.Sleep(time.Second)
		order(w, "s", `{"op":"pause"}`)
		time.Sleep(20*time.Minute + 30*time.Second)
		_ = w.Stop("a")
		w.Start("a")
		w.AwaitOwners()
		order(w, "s", `{"op":"resume"}`)
		turns := w.Heard("turns")
		time.Sleep(5 * time.Second)
		if n := w.Heard("fired"); n != 20 {
			t.Errorf("%d of 20 missed runs fired within 5 s of the resume", n)
		}
		if n := w.Heard("turns") - turns; n > 100 {
			t.Errorf("%d turns for 20 fires", n)
		}
	})
}

// TestPacedRunsStarveNobody: missed runs that wait for the pacer, however many,
// leave the wheel to what is on time, and all of them fire, once and in order.
func TestPacedRunsStarveNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			pipeline.HoldTimers(o, 100, 40)
			o.CatchUpRate = 20
		}})
		w.Start("a")
		w.AwaitOwners()
		const series, missed = 150, 4
		for i := range series {
			order(w, fmt.Sprintf("s%03d", i), `{"op":"register","recurrence":"every:10m","misfire":"fire_all"}`)
		}
		_ = w.Stop("a")
		time.Sleep(missed*10*time.Minute + 2*time.Minute)
		w.Start("a")
		w.AwaitOwners()
		for i := range 10 {
			w.Register(fmt.Sprintf("punctual%d", i), time.Now().Add(time.Duration(2+i/2)*time.Second))
		}
		time.Sleep(10 * time.Second)
		for i := range 10 {
			w.RequireDelivered(fmt.Sprintf("punctual%d", i), 1)
		}
		time.Sleep(2 * time.Minute)
		last := map[string]string{}
		n := 0
		for _, r := range w.Dump(w.Names.Due("default")) {
			if key := string(r.Key); key[0] == 's' {
				if id := headerOf(r, "ce_id"); id <= last[key] {
					t.Errorf("%s after %s", id, last[key])
				} else {
					last[key] = id
				}
				n++
			}
		}
		if n < series*missed || len(last) != series {
			t.Errorf("%d runs of %d series fired, want %d of %d", n, len(last), series*missed, series)
		}
	})
}

func headerOf(r *kgo.Record, key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

const receiptTimeout = time.Hour // of pipelinetest.Channels

// TestOpenTransactionOnReceipts: it holds up what a hidden receipt may decide,
// and nothing else.
func TestOpenTransactionOnReceipts(t *testing.T) {
	for _, c := range []struct {
		name    string
		commits time.Duration // after the time-out is due
		retried bool
	}{
		{"that ends in time: the hidden receipt counts", 5 * time.Second, false},
		{"that stays open for longer than it may hold", time.Minute, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1})
				w.Start("a")
				w.AwaitOwners()
				order(w, "r", `{"op":"register","delay":"1s","channel":"r-push"}`)
				time.Sleep(2 * time.Second)
				sent := w.Dump(w.Names.Due("r-push"))
				if len(sent) != 1 {
					t.Fatalf("%d due events", len(sent))
				}
				out := sent[0].Timestamp.Add(receiptTimeout)
				time.Sleep(time.Until(out.Add(-7 * time.Second)))
				end := openTransaction(t, w, "team", 0, &kgo.Record{
					Topic: w.Names.Receipts(), Key: []byte("r"),
					Value: fmt.Appendf(nil, `{"due_id":%q,"channel":"r-push","outcome":"accepted"}`,
						headerOf(sent[0], "ce_id")),
				})
				for i := range 20 {
					w.Register(fmt.Sprintf("k%d", i), out.Add(time.Duration(i-5)*time.Second))
				}
				time.Sleep(time.Until(out.Add(c.commits)))
				end(kgo.TryCommit)
				time.Sleep(30 * time.Second)
				if n := len(w.Dump(w.Names.Due("r-push"))); (n > 1) != c.retried {
					t.Errorf("%d due events; tried again: %v", n, c.retried)
				}
				due := w.Dump(w.Names.Due("default"))
				if len(due) != 20 {
					t.Errorf("%d of 20 one-shots fired", len(due))
				}
				for _, r := range due {
					at, _ := time.Parse(time.RFC3339Nano, headerOf(r, "ce_time"))
					if late := r.Timestamp.Sub(at); late > time.Second {
						t.Errorf("%s waited for receipts: %v late", r.Key, late)
					}
				}
			})
		})
	}
}

// TestCancelBehindALateFetch: the cancel is the last record there is, and is on
// its way when its trigger falls due.
func TestCancelBehindALateFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		n := w.Start("a")
		w.AwaitOwners()
		for i := range 20 {
			key, due := fmt.Sprintf("k%d", i), time.Now().Add(5*time.Second)
			w.Register(key, due)
			time.Sleep(time.Until(due.Add(-2 * time.Second)))
			n.Delay(kmsg.Fetch, time.Second)
			w.Send(key+"-other", `{"op":"cancel"}`) // its fetch is the first that is late
			time.Sleep(time.Until(due.Add(-time.Duration(1+i) * 40 * time.Millisecond)))
			w.Cancel(key)
			n.Delay(kmsg.Fetch, 0)
			time.Sleep(5 * time.Second)
		}
		w.CheckInvariants()
	})
}

// TestCancelDuringAQuestion: the barrier asks for what is due at one instant, and
// the answer is late. By then more is due, whose cancels were appended after the
// answer was given.
func TestCancelDuringAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		n := w.Start("a")
		w.AwaitOwners()
		for i := range 20 {
			first := time.Now().Add(5 * time.Second)
			w.Register(fmt.Sprintf("first%d", i), first)
			key := fmt.Sprintf("second%d", i)
			w.Register(key, first.Add(200*time.Millisecond))
			time.Sleep(time.Until(first.Add(-100 * time.Millisecond)))
			n.Delay(kmsg.ListOffsets, 400*time.Millisecond)
			n.Delay(kmsg.Fetch, time.Second)
			time.Sleep(time.Until(first.Add(time.Duration(20+5*i) * time.Millisecond)))
			w.Cancel(key) // acknowledged well before it is due
			n.Delay(kmsg.ListOffsets, 0)
			n.Delay(kmsg.Fetch, 0)
			time.Sleep(5 * time.Second)
		}
		w.CheckInvariants()
	})
}

// TestCancelAfterTheClockWentBack: the barrier has asked at a time that lies ahead
// once the clock is set back. What falls due until then has not been asked for.
func TestCancelAfterTheClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var off atomic.Int64
		w := sim.New(t, sim.Options{Partitions: 1, Change: func(_ string, o *pipeline.Options) {
			o.Now = func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
		}})
		n := w.Start("a")
		w.AwaitOwners()
		for i := range 5 {
			off.Store(int64(900 * time.Millisecond))
			time.Sleep(10 * time.Second)
			first := time.Now().Add(10 * time.Second)
			w.Register(fmt.Sprintf("first%d", i), first)
			time.Sleep(time.Until(first.Add(-890 * time.Millisecond))) // it was fired, by a clock that is ahead
			off.Store(int64(-500 * time.Millisecond))
			key, due := fmt.Sprintf("second%d", i), first.Add(-10*time.Millisecond)
			w.Register(key, due)
			time.Sleep(50 * time.Millisecond)
			n.Delay(kmsg.Fetch, 5*time.Second)
			w.Send(key+"-other", `{"op":"cancel"}`) // its fetch is the first that is late
			time.Sleep(50 * time.Millisecond)
			w.Cancel(key)
			time.Sleep(time.Until(due.Add(10 * time.Second)))
			n.Delay(kmsg.Fetch, 0)
			w.RequireDelivered(key, 0)
			time.Sleep(5 * time.Second)
		}
	})
}
