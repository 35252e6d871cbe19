package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestSickTopicWhileCatchingUp: what was missed waits for its topic as long as
// anything else, though it goes at the pacer's rate; and none of it is forgotten
// where the pacer has no room.
func TestSickTopicWhileCatchingUp(t *testing.T) {
	for name, room := range map[string]int{"room for all": 0, "room for two": 2} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const triggers, missed = 6, 20
				w := sim.New(t, sim.Options{Seed: 4, Partitions: 1, Change: func(_ string, o *pipeline.Options) {
					o.ManageTopics = false
					o.FetchMaxWait = time.Second
					o.CatchUpRate = 100
					pipeline.HoldTimers(o, 0, room)
				}})
				if err := w.Cluster.CreateTopic(w.Names.Due("bad"), w.P,
					map[string]string{"message.timestamp.type": "LogAppendTime"}); err != nil {
					t.Fatal(err)
				}
				w.Start("a")
				w.AwaitOwners()
				for i := range triggers {
					w.Send(fmt.Sprint("s", i),
						fmt.Sprintf(`{"op":"register","channel":"bad","recurrence":"every:5m","misfire":"fire_all","count":%d}`, missed))
				}
				time.Sleep(time.Second)
				_ = w.Stop("a")
				time.Sleep(3 * time.Hour)
				denied := w.Cluster.Fault(kfake.Fault{
					Keys: []kmsg.Key{kmsg.Produce}, Topic: w.Names.Due("bad"),
					Err: kerr.TopicAuthorizationFailed, Count: -1,
				})
				w.Start("a")
				w.AwaitOwners()
				time.Sleep(12 * time.Minute)
				if dead := w.Dump(w.Names.DeadLetter()); len(dead) > 0 {
					t.Errorf("after twelve minutes %d occurrences are given up", len(dead))
				}
				denied.Remove()
				time.Sleep(time.Hour)
				fired := map[string]int{}
				for _, r := range w.Dump(w.Names.Due("bad")) {
					fired[string(r.Key)]++
				}
				for i := range triggers {
					if k := fmt.Sprint("s", i); fired[k] != missed {
						t.Errorf("%s fired %d times", k, fired[k])
					}
				}
			})
		})
	}
}
