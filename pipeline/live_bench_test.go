package pipeline

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// What live streams cost an engine, a fact, in turns of 1,000 facts with 60,000 a second: nobody
// watches, others are watched, this tenant is watched. The last one includes the encoding of 20 facts
// a second, and their commit.
func BenchmarkWatchOfAFact(b *testing.B) {
	const turnFacts, turnsPerSecond = 1000, 60
	f := &trigger.Fact{
		Type: trigger.OccurrenceFired, Revision: 1, Seq: 2, Channel: "push", UserID: "u_81",
		Occurrence: "2026-11-20T09:00:00", Scheduled: 1_795_000_000_000, Attempt: 1, HasStep: true, HasLate: true,
		Lateness: 3, DueTopic: "waterclock.due.push", HasDue: true, State: trigger.Fired, Previous: trigger.Pending,
	}
	source := topics.Source("waterclock.commands", 3, 77)
	for _, watched := range []string{"nobody", "others", "acme"} {
		b.Run(watched, func(b *testing.B) {
			p := &Partition{kept: &Kept{live: live.NewRecent()}}
			keys := make([]trigger.Key, turnFacts)
			for i := range keys {
				keys[i] = trigger.Key(fmt.Sprintf("acme/trigger-%d", i))
			}
			now := trigger.Instant(1_795_000_000_000)
			facts := 0
			b.ReportAllocs()
			for b.Loop() {
				now += 1000 / turnsPerSecond
				if watched != "nobody" {
					p.kept.live.News(int64(now), []live.Asked{{Tenant: watched}})
				}
				p.scratch.reset()
				t := &turn{now: now, live: p.kept.live.Begin(int64(now)), source: source}
				for _, key := range keys {
					p.watch(t, key, f)
				}
				p.kept.live.Commit(int64(now), t.live)
				facts += len(keys)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(facts), "ns/fact")
		})
	}
}
