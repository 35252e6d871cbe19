package sim_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// TestEscalationKilledAtEveryStep kills the engine at each step of the turn that reads the receipt
// of a push, of the turn that emits the SMS after it, and of the turn that reads the ack. Push and
// SMS go out once each, the SMS not before its time, and the mail never.
func TestEscalationKilledAtEveryStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 40 * time.Second
		w := sim.New(t, sim.Options{Seed: 1, Partitions: 1, Channels: []string{"r-push", "r-sms", "r-mail"}})
		k := &killer{kill: func() { w.Kill("a") }}
		launch := func() {
			w.Start("a", func(o *pipeline.Options) { o.Listener = k })
			w.AwaitOwners()
		}
		launch()
		due := func(channel, key string) (list []*kgo.Record) {
			for _, r := range w.Dump(w.Names.Due(channel)) {
				if string(r.Key) == key {
					list = append(list, r)
				}
			}
			return list
		}
		await := func(what string, done func() bool) {
			t.Helper()
			for deadline := time.Now().Add(10 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: not in ten minutes", what)
				}
			}
		}
		fired := func(r *kgo.Record) time.Time {
			at, err := time.Parse(time.RFC3339, pipelinetest.Header(r, "ce_wcfired"))
			if err != nil {
				t.Fatal(err)
			}
			return at
		}
		steps := []pipeline.Step{
			pipeline.StepPoll, pipeline.StepBegin, pipeline.StepApply, pipeline.StepAdvance, pipeline.StepEmit,
			pipeline.StepFlush, pipeline.StepEnd, pipeline.StepCommitted, pipeline.StepStored,
		}
		for _, step := range steps {
			key := "k-" + string(step)
			killed := func(from time.Time, what string, send func()) {
				t.Helper()
				k.arm(step, from)
				send()
				await(fmt.Sprintf("a turn at step %s that %s", step, what), func() bool { return !k.armed() })
				launch()
			}
			w.SendFree(0, key, fmt.Sprintf(`{"op":"register","delay":"10s","payload":{"a":1},"escalation":[`+
				`{"channel":"r-push"},{"after":%q,"channel":"r-sms"},{"after":%[1]q,"channel":"r-mail"}]}`, after))
			await("the push", func() bool { return len(due("r-push", key)) > 0 })
			push := due("r-push", key)[0]
			id := pipelinetest.Header(push, "ce_id")
			killed(time.Now(), "reads the receipt", func() {
				w.Receipt(key, fmt.Sprintf(`{"due_id":%q,"channel":"r-push","outcome":"accepted","attempt":1}`, id))
			})
			killed(fired(push).Add(after-time.Millisecond), "emits the SMS", func() {})
			await("the SMS", func() bool { return len(due("r-sms", key)) > 0 })
			killed(time.Now(), "reads the ack", func() { w.SendFree(0, key, `{"op":"ack"}`) })
			time.Sleep(5 * time.Minute)
			pushes, sms, mails := due("r-push", key), due("r-sms", key), due("r-mail", key)
			if len(pushes) != 1 || len(sms) != 1 || len(mails) != 0 {
				t.Errorf("killed at %s: %d pushes, %d SMS, %d mails; want 1, 1, 0", step, len(pushes), len(sms),
					len(mails))
				continue
			}
			if got, want := pipelinetest.Header(sms[0], "ce_id"), id[:len(id)-1]+"1"; got != want {
				t.Errorf("killed at %s: the SMS is %s, want %s", step, got, want)
			}
			if gap := fired(sms[0]).Sub(fired(push)); gap < after {
				t.Errorf("killed at %s: the SMS came %v after the push", step, gap)
			}
		}
		w.CheckInvariants()
	})
}
