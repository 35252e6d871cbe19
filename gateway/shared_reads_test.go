package gateway

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/topics"
)

// Of twenty consoles that ask at one time, and of each that asks within a second, one puts the question to Kafka and to
// the owners. Who wants what is true now has it.
func TestConsolesShareReads(t *testing.T) {
	for path, topic := range map[string]string{
		"/v1/partitions": topics.Names{}.Commands(), "/v1/endpoints": topics.Names{}.Endpoints(),
	} {
		now := &clock{at: time.Now()}
		w := newWorld(t, func(o *Options) { o.Now = now.read })
		w.must(http.StatusOK, "GET", path, "") // which reads the topic from its beginning
		var asked atomic.Int64
		w.cluster.ControlKey(int16(kmsg.ListOffsets), func(q kmsg.Request) (kmsg.Response, error, bool) {
			w.cluster.KeepControl()
			for _, of := range q.(*kmsg.ListOffsetsRequest).Topics {
				if of.Topic == topic {
					asked.Add(1)
				}
			}
			return nil, nil, false
		})
		const shared = "?fresh=false"
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() { w.call("GET", path+shared, "") })
		}
		all.Wait()
		now.add(answerAge - time.Millisecond)
		w.must(http.StatusOK, "GET", path+shared, "")
		if n := asked.Load(); n != 1 {
			t.Errorf("%s: Kafka was asked %d times", path, n)
		}
		w.must(http.StatusOK, "GET", path, "")
		w.must(http.StatusOK, "GET", path, "")
		if n := asked.Load(); n != 3 {
			t.Errorf("%s: of what is true now Kafka was asked %d times", path, n-1)
		}
		now.add(time.Millisecond)
		w.must(http.StatusOK, "GET", path+shared, "")
		if n := asked.Load(); n != 4 {
			t.Errorf("%s: after a second Kafka was asked %d times", path, n)
		}
	}
}
