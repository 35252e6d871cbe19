package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
)

// zones is the tz database of the engines, in the checker's form.
var zones = sync.OnceValues(func() (*check.Zones, error) { return check.LoadZones(calendar.EmbeddedZip()) })

// Verify dumps every topic and runs the history checker on it. The report has the violations, and
// how much could be judged. The world must be idle.
func (w *World) Verify() *check.Report {
	w.T.Helper()
	z, err := zones()
	if err != nil {
		w.T.Fatalf("verify: %v", err)
	}
	machine := w.Newest().Machine
	o := check.Options{
		Zones: z, End: time.Now().UnixMilli(), Unread: -1, Acks: w.acks, MisfireAfter: machine.MisfireAfter,
		CatchUp: machine.MaxCatchUp, Disputed: w.Disputed,
	}
	if w.compacted {
		o.CompactionLag = -1
	}
	r, err := check.Verify(w.History(), o)
	if err != nil {
		w.T.Fatalf("verify: %v", err)
	}
	return r
}

// History returns all topics as they are now.
func (w *World) History() *check.History {
	w.T.Helper()
	return check.NewHistory(w.Names.Prefix, w.P, w.dumpFiles())
}

// dumpFiles returns every topic partition with all records and markers, as `events record` would
// write it.
func (w *World) dumpFiles() (files []*check.File) {
	names := w.Topics()
	all := w.Read(kgo.ReadUncommitted(), names...)
	for _, topic := range names {
		for _, p := range w.Cluster.PartitionInfos(topic) {
			f := check.NewFile(check.FileMeta{
				Topic: topic, Partition: p.Partition, Start: p.LogStartOffset,
				End: p.HighWatermark, Stable: p.LastStableOffset,
			})
			for _, r := range all[topic][p.Partition] {
				f.Append(check.FromKafka(r))
			}
			files = append(files, f)
		}
	}
	return files
}

// verified formats what the checker found, one violation per line.
func verified(r *check.Report) (found []string) {
	for i := range r.Violations {
		v := &r.Violations[i]
		text := "checker: " + v.String()
		for _, line := range v.Timeline {
			text += "\n    " + line
		}
		found = append(found, text)
	}
	if n := int(r.Total()) - len(found); n > 0 {
		found = append(found, fmt.Sprintf("checker: and %d more", n))
	}
	return found
}
