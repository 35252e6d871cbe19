package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// TestForwardStorm: many commands and receipts stand on wrong partitions, there is
// memory for a few, targets come and go, and owners are killed, frozen and
// replaced while they read again. Nothing is lost, and nothing happens twice.
func TestForwardStorm(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { forwardStorm(t, seed) })
		})
	}
}

func forwardStorm(t *testing.T, seed uint64) {
	few := func(_ string, o *pipeline.Options) {
		o.ForwardMemory = 4000
		o.Standby = int(seed % 2)
	}
	w := sim.New(t, sim.Options{Seed: seed, Partitions: 3, Channels: []string{"r-x"}, Change: few})
	for _, name := range []string{"a", "b"} {
		w.Start(name)
	}
	w.AwaitOwners()
	const receipts, commands = 60, 600
	for i := range receipts {
		key := fmt.Sprint("receipt", i)
		w.Send(key, `{"op":"register","delay":"0","channel":"r-x"}`)
	}
	time.Sleep(10 * time.Second)
	fired := w.Dump(w.Names.Due("r-x"))
	if len(fired) != receipts {
		t.Fatalf("%d fired, want %d", len(fired), receipts)
	}
	s := &storming{World: w}
	for i := range commands {
		if i%50 == 0 {
			s.block(w.Rand.Int32N(w.P))
		}
		key := fmt.Sprint("k", i)
		w.RegisterOn(s.astray(key), key, time.Now().Add(time.Duration(1+w.Rand.IntN(180))*time.Second))
		if i < receipts {
			r := fired[i]
			w.Produce(&kgo.Record{
				Topic: w.Names.Receipts(), Partition: s.astray(string(r.Key)), Key: r.Key,
				Value: fmt.Appendf(nil, `{"due_id":%q,"channel":"r-x","outcome":"delivered","attempt":1}`,
					pipelinetest.Header(r, "ce_id")),
			})
		}
		if i%20 == 19 {
			s.blow()
		}
	}
	s.block(-1)
	time.Sleep(time.Minute) // blows end by themselves
	for _, name := range []string{"a", "b"} {
		if w.Node(name) == nil {
			w.Start(name)
		}
	}
	w.AwaitOwners()
	time.Sleep(70 * time.Minute) // a receipt that was lost is an attempt after an hour
	attempts := map[string]int{}
	for _, r := range w.Dump(w.Names.Due("r-x")) {
		attempts[string(r.Key)]++
	}
	for key, n := range attempts {
		if n != 1 {
			t.Errorf("%s was tried %d times: its receipt is lost", key, n)
		}
	}
	w.CheckInvariants()
}

// storming is a world in which one partition at a time takes no record.
type storming struct {
	*sim.World
	blocked int32
	faults  []*kfake.FaultHandle
}

// block lets a partition, and it alone, take no record; -1: all take some.
func (s *storming) block(partition int32) {
	for _, f := range s.faults {
		f.Remove()
	}
	s.blocked, s.faults = partition, nil
	if partition >= 0 {
		for _, topic := range []string{s.Names.Commands(), s.Names.Receipts()} {
			s.faults = append(s.faults, withoutLeader(s.World, topic, partition))
		}
	}
}

// astray is a partition that takes records and is not the key's.
func (s *storming) astray(key string) int32 {
	home := topics.Partition([]byte(key), s.P)
	if on := (home + 1 + s.Rand.Int32N(2)) % s.P; on != s.blocked {
		return on
	}
	return s.P - home - s.blocked // of 0, 1 and 2 the third
}

// blow hits a node that runs, or starts it.
func (s *storming) blow() {
	name := []string{"a", "b"}[s.Rand.IntN(2)]
	pause := time.Duration(1+s.Rand.IntN(20)) * time.Second
	n := s.Node(name)
	if n == nil {
		s.Start(name)
		return
	}
	switch s.Rand.IntN(6) {
	case 0, 1:
		s.Kill(name)
	case 2:
		_ = s.Stop(name)
	case 3:
		n.Freeze()
		time.AfterFunc(pause, n.Thaw)
	case 4:
		n.Mute()
		time.AfterFunc(pause, n.Heal)
	case 5:
		n.Cut()
	}
	time.Sleep(time.Duration(s.Rand.IntN(8000)) * time.Millisecond)
}
