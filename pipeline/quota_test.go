package pipeline_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/pipeline/quota"
)

// limits counts what the engine tells of quotas.
type limits struct {
	pipeline.NoListener
	pending, rate atomic.Int32
}

func (l *limits) QuotaRejected(limit string) {
	map[string]*atomic.Int32{"max_pending": &l.pending, "rate": &l.rate}[limit].Add(1)
}

// A tenant's bounds hold for whoever writes to Kafka directly, over a restart,
// and nobody else's registers meet them.
func TestQuotas(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 2})
	var met limits
	bounded := func(o *pipeline.Options) {
		o.Listener = &met
		o.Quota = func(tenant string) quota.Limit {
			switch tenant {
			case "few":
				return quota.Limit{MaxPending: 20}
			case "slow":
				return quota.Limit{Rate: 2}
			}
			return quota.Limit{}
		}
	}
	w.Start("a", bounded)
	for _, tenant := range []string{"few", "slow", "free"} {
		w.SendAll(100, func(i int) (string, string) {
			return fmt.Sprintf("%s/%d", tenant, i),
				`{"op":"register","delay":"1h"}`
		})
	}
	const stops = 20 // so that each partition has some
	w.SendAll(stops, func(i int) (string, string) { return fmt.Sprintf("stop/%d", i), `{"op":"none"}` })
	rejected := w.Tail(w.Names.Rejected())
	count := map[string]int{}
	for count["stop"] < stops {
		r := rejected.Next()
		tenant, _, _ := strings.Cut(string(r.Key), "/")
		if code := pipelinetest.Header(r, "wc-error-code"); code != "quota_exceeded" && tenant != "stop" {
			t.Fatalf("%s: %s", r.Key, code)
		}
		count[tenant]++
	}
	// Those of slow may lie around the border of two windows.
	if count["few"] != 80 || count["slow"] != 80 && count["slow"] != 60 || count["free"] != 0 {
		t.Errorf("rejected %v, want 80 of few, and 80 or 60 of slow", count)
	}
	reported := func() bool { return int(met.pending.Load()) == count["few"] && int(met.rate.Load()) == count["slow"] }
	for deadline := time.Now().Add(10 * time.Second); !reported() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // it is told behind the commit that we have seen
	}
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if most, rate := met.pending.Load(), met.rate.Load(); int(most) != count["few"] || int(rate) != count["slow"] {
		t.Errorf("told of %d times max_pending and %d times rate; rejected %v", most, rate, count)
	}
	w.Start("a", bounded)
	w.AwaitOwners()
	more := w.Tail(w.Names.Rejected())
	more.Take(count["few"] + count["slow"] + stops)
	w.Send("few/again", `{"op":"register","delay":"1h"}`)
	for {
		if r := more.Next(); string(r.Key) == "few/again" {
			break
		}
	}
}
