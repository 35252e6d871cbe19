package pipeline_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// restoredIn hears how long restores took.
type restoredIn struct {
	pipeline.NoListener
	records int64
	took    time.Duration
	cpu     float64 // of the process, so far
}

func (r *restoredIn) Restored(_ int32, n int64, took time.Duration) {
	r.records, r.took, r.cpu = n, took, cpuSeconds()
}

// BenchmarkRestore rebuilds a wiped store of one partition with 200,000
// pending triggers of 200 B from topic state. Payloads are all different.
func BenchmarkRestore(b *testing.B) {
	dir := b.TempDir()
	w := pipelinetest.New(b, pipelinetest.Options{Partitions: 1, Quiet: true})
	n := w.Start("a")
	w.AwaitOwners()
	random, payload := rand.NewChaCha8([32]byte{}), make([]byte, 112) // 150 B in base64
	w.SendAll(200_000, func(i int) (string, string) {
		_, _ = random.Read(payload)
		return fmt.Sprintf("key-%d", i),
			fmt.Sprintf(`{"op":"register","delay":"%dm","user_id":"u%d","payload":{"p":%q,"n":%d}}`, 60+i%10_000,
				i%1000, base64.StdEncoding.EncodeToString(payload), i)
	})
	w.Eventually("all decided", func() bool { return n.Partitions()[0].Pending == 200_000 })
	_ = w.Stop("a")
	var all restoredIn
	for b.Loop() {
		heard := &restoredIn{}
		cpu := cpuSeconds()
		w.Start("b", func(o *pipeline.Options) { o.Listener, o.Dir = heard, dir })
		w.AwaitOwners()
		all.records, all.took, all.cpu = all.records+heard.records, all.took+heard.took, all.cpu+heard.cpu-cpu
		_ = w.Stop("b")
		os.RemoveAll(dir)
	}
	b.ReportMetric(1e6*all.cpu/float64(all.records), "cpu-µs/record")
	b.ReportMetric(float64(all.records)/all.took.Seconds(), "records/s")
}
