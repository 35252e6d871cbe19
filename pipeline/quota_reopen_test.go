package pipeline_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/pipeline/quota"
)

// TestQuotaAfterReopening: a register counts once, whether its turn failed first or the
// partition was opened anew behind it.
func TestQuotaAfterReopening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 1})
		refuse := false // the next request of a turn
		w.Cluster.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			req := r.(*kmsg.ProduceRequest)
			if !refuse || req.TransactionID == nil {
				return nil, nil, false
			}
			refuse = false
			return refuseProduce(req), nil, true
		})
		w.Start("a", func(o *pipeline.Options) {
			o.Quota = func(string) quota.Limit { return quota.Limit{Rate: 2} } // 20 in a window
		})
		w.AwaitOwners()
		time.Sleep(time.Until(time.Now().Truncate(10 * time.Second).Add(10 * time.Second)))
		register := func(name string, n int) {
			refuse = true
			w.SendAll(n, func(i int) (string, string) {
				return fmt.Sprintf("%s%d", name, i), `{"op":"register","delay":"1h"}`
			})
			w.Eventually("a turn is refused", func() bool { return !refuse })
		}
		register("first", 20)
		register("second", 5)
		time.Sleep(time.Minute)
		names := map[string]int{}
		for _, r := range w.Dump(w.Names.Rejected()) {
			if code := pipelinetest.Header(r, "wc-error-code"); code != "quota_exceeded" {
				t.Errorf("%s: %s", r.Key, code)
			}
			names[string(r.Key[:5])]++
		}
		if names["first"] != 0 || names["secon"] != 5 {
			t.Errorf("refused: %v; the first 20 are within the limit, and the second 5 above it", names)
		}
	})
}
