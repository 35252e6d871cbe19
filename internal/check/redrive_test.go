package check_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// redriving is a world of one partition in which occurrences fail and are redriven.
type redriving struct {
	t *testing.T
	w *sim.World
}

// send sends a command and waits a second.
func (r *redriving) send(key, body string) {
	r.w.SendFree(0, key, body)
	time.Sleep(time.Second)
}

// answer sends a receipt of the newest due event of channel r-push.
func (r *redriving) answer(key, outcome string) {
	all := r.w.Dump(r.w.Names.Due("r-push"))
	d := all[len(all)-1]
	r.w.Receipt(key, fmt.Sprintf(`{"due_id":%q,"outcome":%q,"attempt":%s}`, pipelinetest.Header(d, "ce_id"), outcome,
		pipelinetest.Header(d, "ce_wcattempt")))
	time.Sleep(time.Second)
}

// redrive redrives the newest dead letter.
func (r *redriving) redrive(key string) {
	all := r.w.Dump(r.w.Names.DeadLetter())
	d := all[len(all)-1]
	rec := &topics.Record{Key: d.Key, Value: d.Value, Timestamp: trigger.At(d.Timestamp)}
	for _, h := range d.Headers {
		rec.Headers = append(rec.Headers, trigger.Header{Key: h.Key, Value: h.Value})
	}
	dead, err := topics.DecodeDeadLetter(rec)
	if err != nil {
		r.t.Fatal(err)
	}
	body, err := topics.RedriveCommand(dead, "", "")
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(key, string(body))
}

// dead makes a dead letter from a run_now, while the trigger's own occurrence is pending.
func (r *redriving) dead(key, user string) {
	r.send(key, `{"op":"register","delay":"1h","channel":"r-push","payload":"old"`+user+`}`)
	r.send(key, `{"op":"run_now"}`)
	r.answer(key, "failed")
}

// TestRedriven checks the content and the life of a finished trigger after a redrive. The last
// due event shows both.
func TestRedriven(t *testing.T) {
	const user = `,"user_id":"u"`
	for _, c := range []struct {
		name                   string
		live                   func(r *redriving)
		channel, payload, mark string
	}{
		{"what has fired and has a user keeps its content", func(r *redriving) {
			r.dead("k", "")
			r.send("k", `{"op":"register","delay":"1m","payload":"new"`+user+`}`)
			time.Sleep(2 * time.Minute)
			r.redrive("k")
			r.send("k", `{"op":"snooze","for":"10s"}`)
		}, "default", `"new"`, ""},
		{"of what has fired without a user nothing else is left", func(r *redriving) {
			r.dead("k", user)
			r.send("k", `{"op":"register","delay":"1m","payload":"new"}`)
			time.Sleep(2 * time.Minute)
			r.redrive("k")
			r.answer("k", "delivered")
			r.send("k", `{"op":"snooze","for":"10s"}`)
		}, "r-push", `"old"`, ""},
		{"what was forgotten has no user unless the dead letter has", func(r *redriving) {
			r.dead("k", "")
			r.send("k", `{"op":"cancel"}`)
			r.w.Kill("a") // to save time: an idle engine polls its broker every second
			time.Sleep(26 * time.Hour)
			r.w.Start("a")
			r.w.AwaitOwners()
			r.redrive("k")
			r.answer("k", "delivered")
			r.send("k", `{"op":"snooze","for":"10s"}`) // already_fired
		}, "r-push", `"old"`, ""},
		{"redriven once more after it was forgotten", func(r *redriving) {
			r.send("k", `{"op":"register","recurrence":"every:1h","channel":"r-push","payload":"old"}`)
			r.send("k", `{"op":"run_now"}`)
			r.answer("k", "failed")
			r.redrive("k")
			r.answer("k", "delivered")
			time.Sleep(time.Hour)
			r.answer("k", "delivered")
			r.send("k", `{"op":"run_now"}`) // no event names it
			r.answer("k", "delivered")
			r.send("k", `{"op":"cancel"}`)
			r.w.Kill("a")
			time.Sleep(26 * time.Hour)
			r.w.Start("a")
			r.w.AwaitOwners()
			r.redrive("k")
		}, "r-push", `"old"`, ""},
		{"of what was cancelled it begins a life", func(r *redriving) {
			r.dead("k", "")
			r.send("k", `{"op":"cancel"}`)
			r.send("k", `{"op":"register","delay":"1h","payload":"second"}`)
			r.send("k", `{"op":"cancel"}`)
			r.redrive("k")
			r.send("k", `{"op":"register","delay":"10s","payload":"new"}`)
		}, "default", `"new"`, "~0-5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := &redriving{t, sim.New(t, sim.Options{Partitions: 1, Channels: []string{"r-push"}})}
				r.w.Start("a")
				r.w.AwaitOwners()
				c.live(r)
				time.Sleep(time.Minute)
				due := r.w.Dump(r.w.Names.Due(c.channel))
				last := due[len(due)-1]
				if string(last.Value) != c.payload || !strings.Contains(pipelinetest.Header(last, "ce_id"), c.mark) {
					t.Errorf("%s went out with %s, want %s and the mark %q", pipelinetest.Header(last, "ce_id"),
						last.Value, c.payload, c.mark)
				}
				for _, v := range r.w.Verify().Violations {
					t.Error(v.String())
				}
			})
		})
	}
}

// TestErasedStaysClosed checks that a dead letter from before an erase cannot be redriven in the
// next life, whether or not it was redriven before. A dead letter from after the erase can. A
// restart must not change this.
func TestErasedStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redriving{t, sim.New(t, sim.Options{Partitions: 1, Channels: []string{"r-push"}})}
		r.w.Start("a")
		r.w.AwaitOwners()
		r.dead("k", "")
		r.send("k", `{"op":"erase"}`)
		r.redrive("k")
		r.send("k", `{"op":"register","delay":"1h","channel":"r-push","payload":"new"}`)
		r.redrive("k")
		r.w.Kill("a")
		r.w.SetDisk("a", nil)
		r.w.Start("a")
		r.w.AwaitOwners()
		r.redrive("k")
		r.send("k", `{"op":"cancel"}`)
		r.redrive("k")
		if due := r.w.Dump(r.w.Names.Due("r-push")); len(due) != 1 {
			t.Errorf("%d due events, want that from before the erase alone", len(due))
		}
		r.dead("k", "")
		r.redrive("k")
		due := r.w.Dump(r.w.Names.Due("r-push"))
		if last := due[len(due)-1]; len(due) != 3 || pipelinetest.Header(last, "ce_wcattempt") != "2" {
			t.Errorf("%d due events, the last is attempt %s; want what died after the erase to go out again",
				len(due), pipelinetest.Header(last, "ce_wcattempt"))
		}
		for _, v := range r.w.Verify().Violations {
			t.Error(v.String())
		}
	})
}

// TestAckOfAnEarlierLife checks that an ack with the mark of an earlier life stops nothing at the
// same time in the next life.
func TestAckOfAnEarlierLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &redriving{t, sim.New(t, sim.Options{Partitions: 1, Channels: []string{"r-push"}})}
		r.w.Start("a")
		r.w.AwaitOwners()
		at := time.Now().Add(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
		register := fmt.Sprintf(`{"op":"register","fire_at":%q,"channel":"r-push","payload":"x"}`, at)
		r.send("k", register)
		time.Sleep(2 * time.Minute)
		r.answer("k", "failed")
		r.send("k", register)
		stopped := func() (n int) {
			for _, e := range r.w.Dump(r.w.Names.Events()) {
				if strings.Contains(string(e.Value), "escalation.stopped") {
					n++
				}
			}
			return n
		}
		r.send("k", fmt.Sprintf(`{"op":"ack","occurrence":%q}`, at))
		if n := stopped(); n != 0 {
			t.Error("an ack of the first life stopped the second")
		}
		r.answer("k", "retry") // so the next attempt is emitted
		time.Sleep(time.Minute)
		due := r.w.Dump(r.w.Names.Due("r-push"))
		_, occurrence, _, err := topics.ParseDueID(pipelinetest.Header(due[len(due)-1], "ce_id"))
		if err != nil || len(due) != 3 || occurrence == at {
			t.Fatalf("%d due events, the last of %s: %v", len(due), occurrence, err)
		}
		r.send("k", fmt.Sprintf(`{"op":"ack","occurrence":%q}`, occurrence))
		if n := stopped(); n != 1 {
			t.Errorf("%d stopped by an ack of their own, want one", n)
		}
		for _, v := range r.w.Verify().Violations {
			t.Error(v.String())
		}
	})
}
