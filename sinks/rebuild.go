package sinks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
)

// RebuildOptions configure a rebuild.
type RebuildOptions struct {
	// Kafka and Topic are the log; see Options. The consumer is in no group.
	Kafka []kgo.Opt
	Topic string

	// Letters means that Topic is dead-letter and not the event log. Into is then the result of
	// LettersOf. Default false.
	Letters bool

	// Into is the fresh sink: an empty keyspace or directory. Required.
	Into Writer

	// MaxRecords and MaxBytes bound a batch; see Options.
	MaxRecords, MaxBytes int

	// Progress is called after every batch, from the calling goroutine. It may be nil.
	Progress func(RebuildProgress)

	// Old and New, if both are given, are compared once New is built.
	Old, New Scanner
}

// RebuildProgress is the progress of a rebuild. Records is the number of the log's records,
// including transaction markers, as far as offsets show.
type RebuildProgress struct {
	Done, Records int64
	Events        int64
	Poison        int64
	Elapsed       time.Duration
	Comparing     bool
}

// Report is the result of Rebuild.
type Report struct {
	RebuildProgress
	Window Window
	Since  time.Time       // the log has all events from then on; zero if it lost none
	Ends   map[int32]int64 // the offsets up to which the log was replayed, of every partition
	Tables []TableReport   // empty if there was nothing to compare with
}

// Same reports whether the comparison found no difference.
func (r *Report) Same() bool {
	for _, t := range r.Tables {
		if len(t.Differ) > 0 || t.More > 0 {
			return false
		}
	}
	return true
}

// String formats the report for a terminal.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "replayed %d events in %s", r.Events, r.Elapsed.Round(time.Millisecond))
	if r.Poison > 0 {
		fmt.Fprintf(&b, " (%d records were no events)", r.Poison)
	}
	if r.Since.IsZero() {
		b.WriteString("; that is the whole log\n")
	} else {
		fmt.Fprintf(&b,
			"\nthe log begins at %s: the new tables are complete from then on, without what only earlier events "+
				"contained\n",
			r.Since.UTC().Format("2006-01-02T15:04:05Z"))
	}
	b.WriteString("replayed up to these offsets, by partition:")
	for _, partition := range slices.Sorted(maps.Keys(r.Ends)) {
		fmt.Fprintf(&b, " %d:%d", partition, r.Ends[partition])
	}
	b.WriteString("\n")
	for _, t := range r.Tables {
		t.print(&b)
	}
	return b.String()
}

func (t *TableReport) print(b *strings.Builder) {
	verdict := "same"
	if n := int64(len(t.Differ)) + t.More; n > 0 {
		verdict = fmt.Sprintf("%d triggers or more DIFFER", n)
	}
	fmt.Fprintf(b, "%-18s  old %d, new %d: %s", t.Table, t.Old, t.New, verdict)
	if t.Before > 0 {
		fmt.Fprintf(b, "; %d old rows are from before the log begins", t.Before)
	}
	if t.Ahead > 0 {
		fmt.Fprintf(b, "; %d old rows have changed since", t.Ahead)
	}
	if t.Ending > 0 {
		fmt.Fprintf(b, "; %d old rows end within %s", t.Ending, compareWithin)
	}
	b.WriteString("\n")
	for _, d := range t.Differ {
		fmt.Fprintf(b, "  %s %q: old %d rows, new %d\n", d.Tenant, d.Trigger, d.Old, d.New)
	}
}

// Rebuild replays the whole events topic, up to its current end, into a fresh sink, and compares
// that with the old one. It changes only the fresh sink; the operator switches over (Switch). An
// error of the sink ends it. It may then be run once more, also into the same sink.
func Rebuild(ctx context.Context, o RebuildOptions) (*Report, error) {
	tables := Tables
	if o.Letters {
		setDefault(&o.Topic, "waterclock.dead-letter")
		tables = []Table{TableLetters}
	}
	setDefault(&o.Topic, "waterclock.events")
	setDefault(&o.MaxRecords, 2000)
	setDefault(&o.MaxBytes, 4<<20)
	if o.Into == nil {
		return nil, errors.New("rebuild: no target tables")
	}
	if o.Progress == nil {
		o.Progress = func(RebuildProgress) {}
	}
	b := &rebuild{o: o, report: &Report{
		Window: Window{From: map[int32]int64{}, To: map[int32]int64{}},
		Ends:   map[int32]int64{},
	}, started: time.Now()}
	if err := replay(ctx, o.Kafka, o.MaxRecords, b.plan, func() bool { return len(b.ends) > 0 }, b.take); err != nil {
		return b.report, fmt.Errorf("rebuild: %w", err)
	}
	b.since()
	if o.Old == nil || o.New == nil {
		return b.report, nil
	}
	b.report.Comparing = true
	b.report.Window.Ends = time.Now().Add(compareWithin).Unix()
	o.Progress(b.report.RebuildProgress)
	compared, err := compareTables(ctx, o.Old, o.New, b.report.Window, tables)
	b.report.Tables = compared
	if err != nil {
		return b.report, fmt.Errorf("rebuild: %w", err)
	}
	return b.report, nil
}

// compareWithin bounds the time of a comparison before rows that existed at its start have
// expired.
const compareWithin = 6 * time.Hour

type rebuild struct {
	o       RebuildOptions
	report  *Report
	started time.Time
	ends    map[int32]int64 // partitions still to be read, with their end offsets
	cut     []int32         // partitions whose first records are gone
}

// plan finds the start and the end of every partition, and assigns those that have records.
func (b *rebuild) plan(ctx context.Context, client *kgo.Client) error {
	starts, ends, err := logBounds(ctx, kadm.NewClient(client), b.o.Topic)
	if err != nil {
		return err
	}
	b.ends, b.report.Window.Partitions = map[int32]int64{}, int32(len(ends[b.o.Topic]))
	assign := map[int32]kgo.Offset{}
	ends.Each(func(e kadm.ListedOffset) {
		start, ok := starts.Lookup(b.o.Topic, e.Partition)
		b.report.Ends[e.Partition] = e.Offset
		if ok && start.Offset > 0 {
			b.cut = append(b.cut, e.Partition)
		}
		if ok && start.Offset < e.Offset {
			b.ends[e.Partition] = e.Offset
			b.report.Records += e.Offset - start.Offset
			assign[e.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{b.o.Topic: assign})
	return nil
}

// since finds the time from which the log is complete: that of the first event in the partition
// that has lost most. For a partition that has lost everything, it is now.
func (b *rebuild) since() {
	for _, partition := range b.cut {
		from, ok := b.report.Window.From[partition]
		if !ok {
			from = b.started.UnixMicro()
		}
		if at := time.UnixMicro(from); at.After(b.report.Since) {
			b.report.Since = at
		}
	}
}

// take applies the fetched records below the ends.
func (b *rebuild) take(ctx context.Context, f kgo.Fetches) error {
	var got fetched
	for it := f.RecordIter(); !it.Done(); {
		if r := it.Next(); r.Offset < b.ends[r.Partition] {
			got.add(b.decode(r), r)
		}
	}
	for _, part := range got.split(b.o.MaxRecords, b.o.MaxBytes) {
		if err := patiently(ctx, func() error { return b.o.Into.Apply(ctx, part.events) }); err != nil {
			return err
		}
	}
	for _, r := range got.records {
		b.report.Done++
		if r.Offset+1 >= b.ends[r.Partition] {
			delete(b.ends, r.Partition)
		}
	}
	b.report.Elapsed = time.Since(b.started)
	b.o.Progress(b.report.RebuildProgress)
	return nil
}

// patience is how long a rebuild, which may have run for hours, goes on writing to a store that does not answer.
const patience = 2 * time.Minute

// patiently calls f until its error is not temporary, or patience is over.
func patiently(ctx context.Context, f func() error) error {
	for began, pause := time.Now(), time.Second; ; pause = min(2*pause, 10*time.Second) {
		err := f()
		if !errors.Is(err, ErrUnavailable) || time.Since(began) > patience {
			return err
		}
		if wait.For(ctx, pause); ctx.Err() != nil {
			return err
		}
	}
}

func (b *rebuild) decode(r *kgo.Record) EventRecord {
	read := recordOf
	if b.o.Letters {
		read = letterRecordOf
	}
	rec, err := read(r)
	if err != nil {
		b.report.Poison++
	}
	if rec.Poison {
		return rec
	}
	b.report.Events++
	w := b.report.Window
	if from, ok := w.From[r.Partition]; !ok || rec.EventUS < from {
		w.From[r.Partition] = rec.EventUS
	}
	w.To[r.Partition] = max(w.To[r.Partition], rec.EventUS)
	return rec
}
