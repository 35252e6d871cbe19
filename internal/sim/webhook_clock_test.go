package sim_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/sinks/webhook"
	"github.com/waterclock/waterclock/trigger"
)

// clocks are those of the engine and of the webhook worker. The brokers' is right.
type clocks struct{ engine, worker atomic.Int64 }

func (c *clocks) of(off *atomic.Int64) func() time.Time {
	return func() time.Time { return time.Now().Add(time.Duration(off.Load())) }
}

// TestRetriesWhenClocksStep sets clocks forward and back by an hour while retries wait. Each attempt must come once,
// numbered, under one webhook-id, and after its wait. An engine that may be far from the brokers' clock sends none late
// either. One that may not (pipeline.Options.MaxClockOffset) holds them until its clock is right.
func TestRetriesWhenClocksStep(t *testing.T) {
	waits := []time.Duration{10 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute}
	const hour = time.Hour
	for _, c := range []struct {
		name           string
		engine, worker []time.Duration // their offsets, one after the other
		trusts         bool
	}{
		{"the engine's goes forward", []time.Duration{hour}, nil, true},
		{"the engine's goes back", []time.Duration{-hour}, nil, true},
		{"the engine's goes to and fro", []time.Duration{hour, 0, -hour, hour, -hour, 0}, nil, true},
		{"the worker's goes forward", nil, []time.Duration{hour}, true},
		{"the worker's goes back", nil, []time.Duration{-hour}, true},
		{"both go apart", []time.Duration{hour, -hour}, []time.Duration{-hour, hour}, true},
		{"the engine's goes forward, and is put right", []time.Duration{hour, 0}, nil, false},
		{"the engine's goes back, and is put right", []time.Duration{-hour, 0}, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			// In the midst of two waits, and at the instant of an attempt.
			for _, from := range []time.Duration{65 * time.Second, 70 * time.Second, 3 * time.Minute} {
				synctest.Test(t, func(t *testing.T) {
					var off clocks
					h := &hooks{answer: func(_, _ string, attempt int) (int, time.Duration) {
						if attempt <= len(waits) {
							return 503, 0
						}
						return 200, 0
					}}
					w := sim.New(t, sim.Options{Seed: 1, Channels: []string{webhook.Channel}})
					w.Start("a", func(o *pipeline.Options) {
						o.Now = off.of(&off.engine)
						if c.trusts {
							o.MaxClockOffset = 3 * hour
						}
						o.Channels = hooked{pipelinetest.Channels{Names: w.Names}}
						o.Machine.Channel = func(name string) trigger.Channel {
							return o.Channels.Settings(name).Channel
						}
					})
					w.AwaitOwners()
					startHooksWith(t, w, h, func(o *webhook.Options) { o.Now = off.of(&off.worker) })
					const triggers = 6
					for i := range triggers {
						key := fmt.Sprint("k", i)
						w.SendFree(w.Home(key), key, fmt.Sprintf(`{"op":"register","delay":"1m","channel":"webhook",`+
							`"callback":{"url":"https://%s.example/","retry":["10s","30s","2m","10m"]}}`, key))
					}
					const every = 40 * time.Second
					last := from
					for i, d := range c.engine {
						last = max(last, from+time.Duration(i)*every)
						time.AfterFunc(from+time.Duration(i)*every, func() { off.engine.Store(int64(d)) })
					}
					for i, d := range c.worker {
						time.AfterFunc(from+time.Duration(i)*every, func() { off.worker.Store(int64(d)) })
					}
					time.Sleep(30 * time.Minute)
					for i := range triggers {
						checkAttempts(t, from, h.of(fmt.Sprint("k", i)), waits, c.trusts, last)
					}
					for key, n := range emissions(w) {
						if n != len(waits)+1 {
							t.Errorf("from %v: %d emissions of %s", from, n, key)
						}
					}
				})
			}
		})
	}
}

// checkAttempts checks the requests of one trigger. right is when the clocks were put right.
func checkAttempts(t *testing.T, from time.Duration, calls []hook, waits []time.Duration, punctual bool,
	right time.Duration,
) {
	t.Helper()
	if len(calls) != len(waits)+1 {
		t.Errorf("from %v: %d attempts, want %d: %v", from, len(calls), len(waits)+1, calls)
		return
	}
	const late = 2 * time.Second
	for i, call := range calls {
		if call.attempt != i+1 || call.id != calls[0].id {
			t.Errorf("from %v: call %d is attempt %d of %s", from, i+1, call.attempt, call.id)
		}
		if i == 0 {
			continue
		}
		most := waits[i-1] + late
		if !punctual {
			most += right
		}
		if gap := call.at.Sub(calls[i-1].at); gap < waits[i-1]-time.Second || gap > most {
			t.Errorf("from %v: attempt %d came %v after the one before, want %v", from, i+1, gap, waits[i-1])
		}
	}
}
