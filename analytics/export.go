package analytics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/wait"
)

// Span bounds a file: none has offsets of two multiples of it. It is part of every manifest,
// and frozen: with another one a repeated export would have other files.
const Span = 1 << 18

// Options are an exporter's.
type Options struct {
	// Client reads the topic. NewClient has the options that it needs.
	Client *kgo.Client

	// Topic is the event log.
	Topic string

	// Watermarks is the topic of watermarks. Default: none, so manifests have none.
	Watermarks string

	// Dir is the directory, made if it is not there.
	Dir string

	// Users says what becomes of user ids and tags.
	Users Users

	// AcceptGaps lets an export go on although the log has dropped what stands at this
	// offset of its partition and is not exported.
	AcceptGaps []Acceptance

	// Folded bounds the triggers that a snapshot has in memory, each of about 600 bytes. Default 65,536.
	Folded int

	// Span is for tests. Default: the constant.
	Span int64

	// Progress is called with how many offsets are done. May be nil.
	Progress func(done int64)

	// Logger gets what Follow does. Default: none.
	Logger *slog.Logger
}

// Acceptance names a gap by what an export_gap says.
type Acceptance struct {
	Partition int32
	Offset    int64
}

// Report is what an export came to.
type Report struct {
	Dir       string `json:"dir"`
	Events    int64  `json:"events"`      // in the sealed files that it added, and in the tail
	Files     int    `json:"files"`       // sealed ones that it added
	Bytes     int64  `json:"bytes"`       // of these and of the tail
	TailRows  int64  `json:"tail_events"` // of Events, those in the tail
	Unknown   int64  `json:"unknown_fields"`
	NotEvents int64  `json:"not_events"`
	Snapshots int    `json:"snapshots"`
	Manifest  int    `json:"manifest"` // the newest
}

// Exporter writes one directory. It is not safe for concurrent use, but any number of them
// may write the same directory, on one machine or on several.
type Exporter struct {
	opts    Options
	disk    disk
	decode  *decoder
	file    sealing
	made    map[string]bool // directories
	tails   map[int32]tail  // those that this exporter wrote last
	chain   *chain          // as far as it was read
	checked bool            // its files are as it says
	source  func(context.Context) (*source, error)
	silence time.Duration // a read that gets no record for so long fails
	base    Manifest
	lock    io.Closer
	tmpDir  string
	tmps    int
	done    int64

	mostFolded int // triggers that a snapshot has in memory
}

// New opens nothing yet.
func New(o Options) *Exporter {
	if o.Span == 0 {
		o.Span = Span
	}
	if o.Folded == 0 {
		o.Folded = mostFolded
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	e := &Exporter{
		opts: o, disk: realDisk{}, decode: &decoder{hide: newHider(o.Users)}, made: map[string]bool{},
		tails: map[int32]tail{}, mostFolded: o.Folded, silence: maxSilence,
	}
	e.file.e, e.file.bloom, e.source = e, []string{"trigger", "user_id"}, e.describe
	return e
}

// Export writes all that is committed now: sealed files, and the tail behind them.
func (e *Exporter) Export(ctx context.Context) (r Report, err error) {
	r.Dir = e.opts.Dir
	if err := e.open(); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return r, e.pass(ctx, allSnapshots, &r)
}

// Follow makes one snapshot and goes on: the tails would be old else.
const (
	allSnapshots  = math.MaxInt
	someSnapshots = 1
)

// Follow exports until ctx ends; then it returns nil. It passes over what may go away, such
// as brokers that do not answer or a full disk, and returns an Error.
func (e *Exporter) Follow(ctx context.Context) error {
	for ctx.Err() == nil {
		began := time.Now()
		r, err := e.step(ctx)
		pause := max(restMin, restFor*time.Since(began))
		switch {
		case ctx.Err() != nil:
		case err != nil:
			if refusal, ok := errors.AsType[*Error](err); ok {
				return errors.Join(refusal, e.close())
			}
			e.opts.Logger.Warn("export failed; retrying", "error", err, "in", retryAfter)
			_ = e.close() // the next step makes all anew
			pause = retryAfter
		case r.Files > 0:
			e.opts.Logger.Info("exported", "files", r.Files, "events", r.Events, "manifest", r.Manifest)
		}
		wait.For(ctx, pause)
	}
	return e.close()
}

func (e *Exporter) step(ctx context.Context) (r Report, err error) {
	if err := e.open(); err != nil {
		return r, err
	}
	return r, e.pass(ctx, someSnapshots, &r)
}

// A tail is written anew from its beginning. So a pass that took long is followed by a rest
// in proportion: following takes two thirds of a core at most.
const (
	restMin    = time.Second
	restFor    = 2
	retryAfter = 5 * time.Second
)

// pass exports each partition up to its last stable offset, and then makes snapshots of the
// days that are over. One file is being written at a time.
func (e *Exporter) pass(ctx context.Context, snapshots int, r *Report) error {
	c, err := e.known()
	if err != nil {
		return err
	}
	exported := maps.Clone(c.next) // what was exported before the log is asked where it ends
	log, err := e.source(ctx)
	if err != nil {
		return err
	}
	if err := e.enter(log, exported, r); err != nil {
		return err
	}
	if err := e.ensureFirstSnapshot(ctx); err != nil {
		return err
	}
	e.done = 0
	for p := range int32(len(log.ends)) { //nolint:gosec // a partition's number
		if err := e.partition(ctx, log, p, r); err != nil {
			e.file.drop()
			return err
		}
	}
	if err := e.snapshots(ctx, snapshots, r); err != nil {
		return err
	}
	r.Manifest = e.chain.last.N
	return nil
}

// enter reads the manifests, refuses a directory that is not this topic's, and decides about
// gaps. The first manifest fixes where each partition begins, before any file is made:
// bounds follow from it.
func (e *Exporter) enter(log *source, exported map[int32]int64, r *Report) error {
	for _, a := range e.opts.AcceptGaps {
		if int(a.Partition) >= len(log.ends) {
			return refused(CodeNoPartition, "--accept-gap %d:%d: there is no such partition in %s, which has %d",
				a.Partition, a.Offset, e.opts.Topic, len(log.ends))
		}
	}
	e.base = Manifest{
		Topic: e.opts.Topic, TopicID: log.id, Partitions: len(log.ends), Span: e.opts.Span,
		Users: e.opts.Users.mode(),
	}
	for {
		c, err := e.known()
		if err != nil {
			return err
		}
		if c.last == nil {
			m := c.follow(e.base)
			for p, from := range log.starts {
				m.Next[int32(p)] = from //nolint:gosec // a partition's number
			}
			if err := e.publish(m); err != nil && !errors.Is(err, errRace) {
				return err
			}
			continue
		}
		if err := e.same(c.last); err != nil {
			return err
		}
		if err := e.longEnough(log, exported); err != nil {
			return err
		}
		if !e.checked {
			if err := c.checkFiles(e.opts.Dir); err != nil {
				return err
			}
			if err := e.clearGaps(c); err != nil {
				return err
			}
			e.checked = true
		}
		gaps, err := e.gaps(c, log)
		if err != nil || len(gaps) == 0 {
			return err
		}
		if err := e.accept(c, gaps, r); err != nil && !errors.Is(err, errRace) {
			return err
		}
		e.checked = false // there may be files in the gap
	}
}

// known is the chain as it is now.
func (e *Exporter) known() (c *chain, err error) {
	if e.chain == nil {
		e.chain, err = load(e.opts.Dir)
	} else {
		err = e.chain.more(e.opts.Dir)
	}
	if err != nil {
		e.chain, e.checked = nil, false
	}
	return e.chain, err
}

// same refuses to mix what must not be mixed.
func (e *Exporter) same(m *Manifest) error {
	b := &e.base
	switch {
	case m.TopicID != b.TopicID || m.Topic != b.Topic:
		return refused(CodeForeign, "%s has events of topic %s with id %s, and this is %s with id %s. Name another "+
			"directory: one is for one topic", e.opts.Dir, m.Topic, m.TopicID, b.Topic, b.TopicID)
	case m.Partitions != b.Partitions:
		return refused(CodeForeign, "%s has %d partitions, and the topic has %d now. Keys have moved between them, "+
			"so their events are in no order any more. Export to a new directory", e.opts.Dir, m.Partitions,
			b.Partitions)
	case m.Users != b.Users:
		return refused(CodeForeign, "%s has user ids and tags %q, and the settings say %q. Set "+
			"export.user_hash_key and export.plain_users as they were, or export to a new directory", e.opts.Dir,
			m.Users, b.Users)
	case m.Span != b.Span:
		return refused(CodeForeign, "the files of %s end at multiples of %d, and this waterclock's at %d. Export to a "+
			"new directory", e.opts.Dir, m.Span, b.Span)
	}
	return nil
}

// longEnough refuses a log that ends before what was exported from it. What others export
// meanwhile may well be newer than where it ended when we asked.
func (e *Exporter) longEnough(log *source, exported map[int32]int64) error {
	for i, end := range log.ends {
		p := int32(i) //nolint:gosec // a partition's number
		if next := exported[p]; end < next {
			return refused(CodeForeign, "partition %d of %s ends at %d, and %s has events up to %d. The topic has "+
				"lost records, or was made anew. Export to a new directory", p, e.opts.Topic, end, e.opts.Dir, next)
		}
	}
	return nil
}

// gaps are those that are accepted. All that are not are named together.
func (e *Exporter) gaps(c *chain, log *source) (accepted []Gap, err error) {
	var refusedGaps []Gap
	for i, start := range log.starts {
		p := int32(i) //nolint:gosec // a partition's number
		from, err := e.exported(c, p, start)
		if err != nil {
			return nil, err
		}
		switch g := (Gap{p, from, start}); {
		case start <= from:
		case slices.Contains(e.opts.AcceptGaps, Acceptance{p, from}):
			accepted = append(accepted, g)
		default:
			refusedGaps = append(refusedGaps, g)
		}
	}
	if len(refusedGaps) == 0 {
		return accepted, nil
	}
	var accept []string
	for _, g := range slices.Concat(refusedGaps, accepted) {
		accept = append(accept, fmt.Sprintf("%d:%d", g.Partition, g.From))
	}
	first := refusedGaps[0]
	return nil, refused(CodeGap, "the offsets %d to %d of partition %d of %s have expired before they were "+
		"exported. To go on without them: --accept-gap %s", first.From, first.To-1, first.Partition, e.opts.Topic,
		strings.Join(accept, ","))
}

// accept publishes the manifest that goes on behind gaps. A file ends before a gap, so what a
// tail has of before is in files of the same manifest: who has other files of these offsets
// finds the gap with them.
func (e *Exporter) accept(c *chain, gaps []Gap, r *Report) error {
	var files []File
	for _, g := range gaps {
		if from := c.next[g.Partition]; from < g.From {
			w := &walk{Exporter: e, p: g.Partition, next: from, report: r, marks: func() marks { return nil }}
			e.file.begin(w.p, from)
			if err := w.carry(g.From); err != nil {
				return err
			}
			if err := w.seal(g.From); err != nil {
				return err
			}
			files = append(files, w.sealed...)
		}
	}
	m := c.follow(e.base)
	m.Files, m.Gaps = append(m.Files, files...), gaps
	for _, g := range gaps {
		m.Next[g.Partition] = g.To
	}
	return e.publish(m)
}

// clearGaps removes files that begin before the end of a gap, accepted or to be, and that no manifest names. An
// exporter left them that died, or that read on from before the gap. With the gap in the chain
// no later manifest can name them, and files behind the gap may have their rows, too.
func (e *Exporter) clearGaps(c *chain) error {
	if len(c.gaps) == 0 && len(e.opts.AcceptGaps) == 0 {
		return nil
	}
	named, end := map[string]bool{}, map[int32]int64{}
	for i := range c.files {
		named[c.files[i].Path] = true
	}
	for _, g := range c.gaps {
		end[g.Partition] = max(end[g.Partition], g.To)
	}
	for _, a := range e.opts.AcceptGaps { // another exporter may have had what we took for a gap
		end[a.Partition] = max(end[a.Partition], c.next[a.Partition])
	}
	for p, to := range end {
		found, err := fs.Glob(os.DirFS(e.opts.Dir), path.Join(eventsDir, "date=*", partitionName(p), "*.parquet"))
		if err != nil {
			return err
		}
		for _, name := range found {
			var first int64
			if _, err := fmt.Sscanf(path.Base(name), "%d-", &first); err != nil || first >= to || named[name] {
				continue
			}
			if err := e.disk.Remove(filepath.Join(e.opts.Dir, filepath.FromSlash(name))); err != nil && !gone(err) {
				return err
			}
		}
	}
	return nil
}

// filesPerManifest bounds what a crash makes an export do twice.
const filesPerManifest = 8

// partition exports one partition.
func (e *Exporter) partition(ctx context.Context, log *source, p int32, r *Report) error {
	w := &walk{Exporter: e, p: p, next: e.chain.next[p], report: r}
	w.marks = sync.OnceValue(func() marks { return e.marksOf(ctx, log, p, w.next) })
	from, end := w.next, log.ends[p]
	if from > end || e.isFresh(p, from, end) { // another exporter has gone further, or nothing is new
		return nil
	}
	e.file.begin(p, from)
	if start := log.starts[p]; from < start {
		if err := w.carry(start); err != nil {
			return err
		}
		from = start
	}
	if err := log.read(ctx, p, from, end, w.visit, func() { e.opts.Progress(e.done) }); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	// Another exporter may have gone further meanwhile. A tail that begins before what is
	// sealed is right, too: readers take its rows only from there on.
	if err := e.file.toTail(end); err != nil {
		return err
	}
	r.count(&e.file.meta)
	r.TailRows += e.file.meta.Rows
	info, err := os.Stat(e.tailName(p))
	e.tails[p] = tail{w.next, end, info}
	return err
}

// walk is the way through one partition.
type walk struct {
	*Exporter

	p      int32
	next   int64 // all before it is in sealed files
	sealed []File
	marks  func() marks // of the partition; they are read once
	report *Report
}

// visit takes a record, or none: then nothing else is committed below the offset at.
func (w *walk) visit(r *kgo.Record, at int64) error {
	w.done++
	if err := w.sealBelow(at); err != nil || r == nil {
		return err
	}
	return w.add(at, func() (bool, error) { return w.file.add(r) })
}

// sealBelow ends the files that have no offset from at on.
func (w *walk) sealBelow(at int64) error {
	for at >= w.file.end() {
		if err := w.seal(w.file.end()); err != nil {
			return err
		}
	}
	return nil
}

// add adds to the file what stands at an offset, or to the next one.
func (w *walk) add(at int64, toFile func() (bool, error)) error {
	if ok, err := toFile(); ok || err != nil {
		return err
	}
	if err := w.seal(at); err != nil {
		return err
	}
	_, err := toFile()
	return err
}

// seal ends the file before the offset to, and begins the next one.
func (w *walk) seal(to int64) error {
	meta, ok, err := w.file.seal(to)
	if err != nil {
		return err
	}
	w.next = to
	w.file.begin(w.p, to)
	if !ok {
		return nil
	}
	w.report.count(&meta)
	w.report.Files++
	if w.sealed = append(w.sealed, meta); len(w.sealed) < filesPerManifest {
		return nil
	}
	return w.commit()
}

// commit publishes the manifest that names the sealed files and moves the partition on. If
// another exporter was first, its manifest may already have them.
func (w *walk) commit() error {
	for w.chain.next[w.p] < w.next {
		at := w.chain.next[w.p]
		m := w.chain.follow(w.base)
		for _, f := range w.sealed {
			if f.First >= at {
				m.Files = append(m.Files, f)
			}
		}
		m.Next[w.p] = w.next
		w.mark(m)
		c, err := w.offer(m)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(c.gaps, func(g Gap) bool { return g.Partition == w.p && g.From >= at }) {
			err := fmt.Errorf("another exporter has accepted a gap in partition %d meanwhile", w.p)
			return errors.Join(err, w.clearGaps(c))
		}
	}
	w.sealed = w.sealed[:0]
	return nil
}

// mark names the partition's watermark. One that was named before may be withdrawn by now.
func (w *walk) mark(m *Manifest) {
	delete(m.Watermark, w.p)
	if mark := w.marks().below(w.next); mark != nil {
		if m.Watermark == nil {
			m.Watermark = map[int32]Watermark{}
		}
		m.Watermark[w.p] = *mark
	}
}

func (r *Report) count(f *File) {
	r.Events += f.Rows
	r.Bytes += f.Bytes
	r.Unknown += f.Unknown
	r.NotEvents += f.NotEvents
}
