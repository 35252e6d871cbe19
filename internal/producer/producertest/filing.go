// Package producertest makes a kgo client late in filing the partitions that it
// has learnt of, as a goroutine that gets no core does.
package producertest

import (
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Second is the value of the record that holds the filing up: behind the first
// of a new topic, it is asked for its partition until release, and has none.
const Second = "second"

// HoldFiling is for a client that writes two records of a new topic, the other
// one Second. Once held is closed, the first is with its sink and nothing is
// filed, until release, which has to be called before the client is closed. All
// go to partition 0.
func HoldFiling() (opt kgo.Opt, held <-chan struct{}, release func()) {
	choosing, released := make(chan struct{}), make(chan struct{})
	choose := func(r *kgo.Record, _ int) int {
		if string(r.Value) == Second {
			close(choosing)
			<-released
			return -1
		}
		return 0
	}
	release = sync.OnceFunc(func() { close(released) })
	return kgo.RecordPartitioner(kgo.BasicConsistentPartitioner(func(string) func(*kgo.Record,
		int) int {
		return choose
	})), choosing, release
}
