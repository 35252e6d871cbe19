package pipeline_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
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
		o.Quota = func(tenant string) pipeline.Quota {
			switch tenant {
			case "few":
				return pipeline.Quota{MaxPending: 20}
			case "slow":
				return pipeline.Quota{Rate: 2}
			}
			return pipeline.Quota{}
		}
	}
	w.Start("a", bounded)
	for _, tenant := range []string{"few", "slow", "free"} {
		w.SendAll(100, func(i int) (string, string) {
			return fmt.Sprintf("%s/%d", tenant, i),
				`{"op":"register","delay":"1h"}`
		})
	}
	rejected := w.Tail(w.Names.Rejected())
	count := map[string]int{}
	for range 160 { // 80 of few; at most 20 of slow are within its burst
		r := rejected.Next()
		if code := pipelinetest.Header(r, "wc-error-code"); code != "quota_exceeded" {
			t.Fatalf("%s: %s", r.Key, code)
		}
		count[string(r.Key[:4])]++
	}
	if count["few/"] < 75 || count["slow"] < 75 || count["free"] != 0 {
		t.Errorf("rejected %v, want about 80 each of few and slow", count)
	}
	reported := func() bool { return int(met.pending.Load()) == count["few/"] && int(met.rate.Load()) == count["slow"] }
	for deadline := time.Now().Add(10 * time.Second); !reported() && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond) // it is told behind the commit that we have seen
	}
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if most, rate := met.pending.Load(), met.rate.Load(); int(most) != count["few/"] || int(rate) != count["slow"] {
		t.Errorf("told of %d times max_pending and %d times rate; rejected %v", most, rate, count)
	}
	w.Start("a", bounded)
	w.AwaitOwners()
	more := w.Tail(w.Names.Rejected())
	more.Take(count["few/"] + count["slow"])
	w.Send("few/again", `{"op":"register","delay":"1h"}`)
	for {
		if r := more.Next(); string(r.Key) == "few/again" {
			break
		}
	}
}
