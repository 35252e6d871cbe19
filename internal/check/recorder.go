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

// RecordOptions say what is recorded, and for how long.
type RecordOptions struct {
	Dir    string
	Prefix string   // of the topics' names
	Topics []string // besides: channels with topics of their own
	// Follow goes on until the context ends. Without it a recording ends where
	// the topics ended when it began.
	Follow bool
	// Every is how often the topics' ends are asked for, and dump.json is written.
	// 0 means 5 s.
	Every time.Duration
	// Progress is told how many records were written, and of how many when it
	// began. It may be nil.
	Progress func(done, total int64)
	// Warn is told what is strange but no reason to stop. It may be nil.
	Warn func(string)
	// Gap is told what this recording lacks and will never have. It may be nil.
	Gap func(string)
}

// idleEnd is when a recording without Follow gives up waiting for offsets that
// do not come: a compacted log may end below its high watermark.
const idleEnd = 15 * time.Second

// recorder appends what it reads to the files of a dump.
type recorder struct {
	o     RecordOptions
	cl    *kgo.Client
	admin *kadm.Client
	meta  Meta
	tapes map[string]map[int32]*tapeFile

	asked  time.Time // the round whose ends are being waited for
	ends   map[string]map[int32]int64
	stable map[string]map[int32]int64
	done   int64
	total  int64
}

// tapeFile is one file of the dump while it is written.
type tapeFile struct {
	meta *FileMeta
	f    *os.File
	next int64 // offset to read next
	buf  []byte
}

// RecordLive records every topic of a cluster, markers and aborted records
// included. The client must read uncommitted data, keep control records and
// consume nothing yet. A recording that was killed goes on where its files end.
func RecordLive(ctx context.Context, cl *kgo.Client, o RecordOptions) (err error) {
	if o.Every == 0 {
		o.Every = 5 * time.Second
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r := &recorder{o: o, cl: cl, admin: kadm.NewClient(cl), tapes: map[string]map[int32]*tapeFile{}}
	defer func() { err = errors.Join(err, r.close()) }()
	if err := r.round(ctx); err != nil {
		return err
	}
	if r.meta.Partitions == 0 {
		return fmt.Errorf("record: there is no topic %scommands: is topics.prefix right?", o.Prefix)
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

// round asks where all topics begin and end, and begins to read those that are
// new.
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
	fresh := map[string]map[int32]kgo.Offset{}
	for _, topic := range slices.Sorted(maps.Keys(r.ends)) {
		for p := range r.ends[topic] {
			if r.tapes[topic][p] != nil {
				continue
			}
			start, _ := starts.Lookup(topic, p)
			next, err := r.begin(topic, p, max(0, start.Offset))
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
	r.meta.Partitions = int32(len(r.ends[r.o.Prefix+"commands"]))
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

// names are the topics of the prefix that a checker reads, and those asked for.
func (r *recorder) names(ctx context.Context) ([]string, error) {
	all, err := r.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("record: list topics: %w", err)
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
		out = append(out, name)
	}
	return out, nil
}

// begin opens a partition's file, behind what an earlier recording left in it.
func (r *recorder) begin(topic string, p int32, start int64) (next int64, err error) {
	name := filepath.Join(r.o.Dir, fileName(topic, p))
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return 0, fmt.Errorf("record: %w", err)
	}
	t := &tapeFile{f: f, next: start, meta: &FileMeta{Topic: topic, Partition: p, Start: start, End: start}}
	if err := r.resume(t, name); err != nil {
		return 0, errors.Join(err, f.Close())
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

// resume cuts a file back to its last whole record.
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
		if ft.first >= 0 {
			t.next = ft.next
		}
		if old, err := readMeta(r.o.Dir); err == nil {
			t.keepStart(old)
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

// keepStart: the log began earlier when the dump was begun.
func (t *tapeFile) keepStart(old *Meta) {
	for _, m := range old.Files {
		if m.Topic == t.meta.Topic && m.Partition == t.meta.Partition {
			t.meta.Start = m.Start
		}
	}
}

// write appends what was fetched.
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

// reached says whether all files have what was there when the ends were asked
// for; then the dump is good until then.
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

// save writes dump.json, whole or not at all.
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
