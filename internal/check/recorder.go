package check

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// RecordOptions configure a recording.
type RecordOptions struct {
	Dir    string
	Prefix string   // prefix of the topics' names
	Topics []string // additional topics: channels with topics of their own
	// Follow continues until the context ends. Otherwise a recording stops at the ends that the
	// topics had when it began.
	Follow bool
	// Every is the interval at which the ends of the topics are fetched and dump.json is written.
	// 0 means 5 s.
	Every time.Duration
	// Progress is called with the number of records written, and the total when the recording
	// began. It may be nil.
	Progress func(done, total int64)
	// Warn is called for anomalies that do not stop the recording. It may be nil.
	Warn func(string)
	// Gap is called for data that this recording lacks for ever. It may be nil.
	Gap func(string)
}

// idleEnd is how long a recording without Follow waits for further offsets. A compacted log may
// end below its high watermark.
const idleEnd = 15 * time.Second

// recorder appends fetched records to the files of a dump.
type recorder struct {
	o     RecordOptions
	cl    *kgo.Client
	admin *kadm.Client
	meta  Meta
	old   Meta                    // dump.json of the recording before
	ids   map[string]kadm.TopicID // by topic
	tapes map[string]map[int32]*tapeFile

	asked  time.Time // the time of the ends that the recording is to reach
	ends   map[string]map[int32]int64
	stable map[string]map[int32]int64
	done   int64
	total  int64
}

// tapeFile is a file of the dump while it is written.
type tapeFile struct {
	meta *FileMeta
	f    *os.File
	next int64 // offset to read next
	buf  []byte
}

// RecordLive records every topic of a cluster, including markers and aborted records. The client
// must read uncommitted data, keep control records and consume nothing yet. If a recording was
// killed, it continues where its files end.
func RecordLive(ctx context.Context, cl *kgo.Client, o RecordOptions) (err error) {
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r := &recorder{o: o, cl: cl, admin: kadm.NewClient(cl), tapes: map[string]map[int32]*tapeFile{}}
	if old, err := readMeta(o.Dir); err == nil {
		r.old = *old
	} else if !errors.Is(err, errNoDump) {
		return err
	}
	if r.old.Format != 0 && r.old.Prefix != o.Prefix {
		return fmt.Errorf("record: %s has topics with prefix %q, not %q; choose another --dir", o.Dir, r.old.Prefix,
			o.Prefix)
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.round(ctx); err != nil {
		return err
	}
	return r.run(ctx)
}

func (r *recorder) run(ctx context.Context) error {
	last := time.Now()
	for {
		poll, cancel := context.WithTimeout(ctx, time.Second)
		fs := r.cl.PollFetches(poll)
		cancel()
		if ctx.Err() != nil && r.o.Follow {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n, err := r.write(fs)
		if err != nil {
			return err
		}
		if n > 0 {
			last = time.Now()
		}
		whole := r.reached()
		switch {
		case whole && !r.o.Follow:
			return nil
		case !r.o.Follow && time.Since(last) > idleEnd:
			r.warn("some topics end below the ends that Kafka told; what is there was recorded")
			r.complete()
			return nil
		case r.o.Follow && whole && time.Since(r.asked) > r.o.Every:
			if err := r.round(ctx); err != nil && ctx.Err() == nil {
				r.warn("the topics' ends could not be asked for: " + err.Error())
			}
		}
	}
}

func (r *recorder) gap(s string) {
	if r.o.Gap != nil {
		r.o.Gap(s)
	}
}

func (r *recorder) warn(s string) {
	if r.o.Warn != nil {
		r.o.Warn(s)
	}
}

// round fetches the start and end offsets of all topics, and starts to read new ones.
func (r *recorder) round(ctx context.Context) error {
	names, err := r.names(ctx)
	if err != nil {
		return err
	}
	asked := time.Now()
	starts, err := r.admin.ListStartOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("record: ask where topics begin: %w", err)
	}
	stable, err := r.admin.ListCommittedOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("record: ask where topics end: %w", err)
	}
	ends, err := r.admin.ListEndOffsets(ctx, names...)
	if err != nil {
		return fmt.Errorf("record: ask where topics end: %w", err)
	}
	r.asked, r.ends, r.stable = asked, offsets(ends), offsets(stable)
	partitions := int32(len(r.ends[r.o.Prefix+"commands"]))
	if partitions == 0 {
		return fmt.Errorf("record: there is no topic %scommands: is topics.prefix right?", r.o.Prefix)
	}
	fresh := map[string]map[int32]kgo.Offset{}
	for _, topic := range slices.Sorted(maps.Keys(r.ends)) {
		for p := range r.ends[topic] {
			if r.tapes[topic][p] != nil {
				continue
			}
			start, _ := starts.Lookup(topic, p)
			next, err := r.begin(topic, p, max(0, start.Offset), r.ends[topic][p])
			if err != nil {
				return err
			}
			if fresh[topic] == nil {
				fresh[topic] = map[int32]kgo.Offset{}
			}
			fresh[topic][p] = kgo.NewOffset().At(next)
			r.total += max(0, r.ends[topic][p]-next)
		}
	}
	r.meta.Partitions = partitions
	if len(fresh) > 0 {
		r.cl.AddConsumePartitions(fresh)
	}
	return r.save()
}

func offsets(l kadm.ListedOffsets) map[string]map[int32]int64 {
	out := map[string]map[int32]int64{}
	l.Each(func(o kadm.ListedOffset) {
		if o.Err != nil || o.Partition < 0 {
			return
		}
		if out[o.Topic] == nil {
			out[o.Topic] = map[int32]int64{}
		}
		out[o.Topic][o.Partition] = o.Offset
	})
	return out
}

// names returns the topics with the prefix that a checker reads, the additional ones with their
// lanes, and those of the recording before.
func (r *recorder) names(ctx context.Context) ([]string, error) {
	all, err := r.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("record: list topics: %w", err)
	}
	r.ids = map[string]kadm.TopicID{}
	for name := range all {
		r.ids[name] = all[name].ID
	}
	var out []string
	for _, name := range all.Names() {
		if kindOf(r.o.Prefix, name) <= kindControl && len(name) > len(r.o.Prefix) &&
			name[:len(r.o.Prefix)] == r.o.Prefix {
			out = append(out, name)
		}
	}
	for _, name := range r.o.Topics {
		if _, ok := all[name]; !ok {
			return nil, fmt.Errorf("record: there is no topic %s", name)
		}
		if out = append(out, name); all.Has(name + highLane) {
			out = append(out, name+highLane)
		}
	}
	for _, m := range r.old.Files {
		switch {
		case m.Partition != 0:
		case all.Has(m.Topic):
			out = append(out, m.Topic)
		case r.asked.IsZero(): // the first round
			r.warn("topic " + m.Topic + " is gone, so what was recorded of it is not checked any more")
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// highLane ends the name of the topic of a channel's lane for high priority.
const highLane = ".high"

// begin opens a partition's file, to append to what an earlier recording left in it.
func (r *recorder) begin(topic string, p int32, start, end int64) (next int64, err error) {
	name := filepath.Join(r.o.Dir, fileName(topic, p))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("record: %w", err)
	}
	t := &tapeFile{f: f, next: start, meta: &FileMeta{Topic: topic, Partition: p, Start: start, End: start}}
	if id := r.ids[topic]; id != (kadm.TopicID{}) {
		t.meta.TopicID = id.String()
	}
	if err := r.resume(t, name); err != nil {
		return 0, errors.Join(err, f.Close())
	}
	if t.next > end {
		return 0, errors.Join(fmt.Errorf("record: %s/%d ends at %d, and %s was recorded up to %d: the topic has lost "+
			"records or was made anew, or this is another cluster; choose another --dir", topic, p, end, name, t.next),
			f.Close())
	}
	if t.next < start {
		r.gap(fmt.Sprintf("%s/%d: offsets %d to %d have expired since this dump was recorded last", topic, p, t.next,
			start-1))
		t.next = start
	}
	if r.tapes[topic] == nil {
		r.tapes[topic] = map[int32]*tapeFile{}
	}
	r.tapes[topic][p] = t
	return t.next, nil
}

// resume truncates a file to its last whole record.
func (r *recorder) resume(t *tapeFile, name string) error {
	b, unmap, err := mapFile(name)
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	whole := len(appendPreamble(nil, t.meta.Topic, t.meta.Partition))
	if len(b) >= whole {
		body, err := afterPreamble(b, t.meta.Topic, t.meta.Partition)
		var ft *fates
		if err == nil {
			ft, err = (&File{FileMeta: *t.meta, bytes: body}).readFates()
		}
		if err != nil {
			return errors.Join(fmt.Errorf("record: %s cannot be continued: %w; choose another --dir", name, err),
				unmap())
		}
		whole += ft.end
		if err := r.goOn(t); err != nil {
			return errors.Join(err, unmap())
		}
		if ft.first >= 0 {
			t.next = ft.next
		}
	} else {
		t.buf = appendPreamble(nil, t.meta.Topic, t.meta.Partition)
		whole = 0
	}
	if err := unmap(); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if err := t.f.Truncate(int64(whole)); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	if _, err := t.f.Seek(int64(whole), 0); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// goOn continues what an earlier recording says of a partition. It keeps the start offset from when
// the dump was begun, because the log may begin later now. If the file has no record yet, it
// goes on where that recording ended.
func (r *recorder) goOn(t *tapeFile) error {
	for _, m := range r.old.Files {
		if m.Topic != t.meta.Topic || m.Partition != t.meta.Partition {
			continue
		}
		if m.TopicID != "" && t.meta.TopicID != "" && m.TopicID != t.meta.TopicID {
			return fmt.Errorf("record: %s has records of topic %s with id %s, and this is one with id %s: it was made "+
				"anew, or this is another cluster; choose another --dir", r.o.Dir, m.Topic, m.TopicID, t.meta.TopicID)
		}
		t.meta.Start, t.meta.End, t.meta.Stable, t.meta.AskedAt = m.Start, m.End, m.Stable, m.AskedAt
		t.next = max(m.Start, m.End)
	}
	return nil
}

// write appends fetched records.
func (r *recorder) write(fs kgo.Fetches) (n int, err error) {
	for _, e := range fs.Errors() {
		if !errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled) {
			return 0, fmt.Errorf("record: read %s/%d: %w", e.Topic, e.Partition, e.Err)
		}
	}
	touched := map[*tapeFile]bool{}
	for it := fs.RecordIter(); !it.Done(); n++ {
		x := it.Next()
		t := r.tapes[x.Topic][x.Partition]
		if t == nil || x.Offset < t.next {
			continue
		}
		t.buf = AppendFrame(t.buf, FromKafka(x))
		t.next = x.Offset + 1
		touched[t] = true
	}
	for t := range touched {
		if err := t.flush(); err != nil {
			return n, err
		}
	}
	r.done += int64(n)
	if n > 0 && r.o.Progress != nil {
		r.o.Progress(r.done, r.total)
	}
	return n, nil
}

func (t *tapeFile) flush() error {
	if len(t.buf) == 0 {
		return nil
	}
	if _, err := t.f.Write(t.buf); err != nil {
		return fmt.Errorf("record: write %s/%d: %w", t.meta.Topic, t.meta.Partition, err)
	}
	t.buf = t.buf[:0]
	return nil
}

// reached reports whether all files have reached the ends that were fetched. The dump is then
// complete up to that time.
func (r *recorder) reached() bool {
	for topic, ps := range r.ends {
		for p, end := range ps {
			if t := r.tapes[topic][p]; t != nil && t.next < end {
				return false
			}
		}
	}
	r.complete()
	return true
}

func (r *recorder) complete() {
	for topic, ps := range r.ends {
		for p, end := range ps {
			if t := r.tapes[topic][p]; t != nil {
				t.meta.End, t.meta.Stable, t.meta.AskedAt = end, r.stable[topic][p], r.asked.UnixMilli()
			}
		}
	}
}

// save writes dump.json atomically.
func (r *recorder) save() error {
	r.meta.Format, r.meta.Prefix = formatVersion, r.o.Prefix
	r.meta.Files = r.meta.Files[:0]
	for _, topic := range slices.Sorted(maps.Keys(r.tapes)) {
		for _, p := range slices.Sorted(maps.Keys(r.tapes[topic])) {
			t := r.tapes[topic][p]
			if err := t.flush(); err != nil {
				return err
			}
			r.meta.Files = append(r.meta.Files, *t.meta)
		}
	}
	return r.meta.write(r.o.Dir)
}

func (r *recorder) close() (err error) {
	if r.meta.Partitions > 0 {
		err = r.save()
	}
	for _, ps := range r.tapes {
		for _, t := range ps {
			err = errors.Join(err, t.f.Close())
		}
	}
	return err
}
