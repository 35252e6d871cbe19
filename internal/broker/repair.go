package broker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// repaired is what Start needs to know of a repaired directory.
type repaired struct {
	ends    map[string]position // partition directory to the end of its log, durable if Options.Sync
	floors  *floors
	cleaned map[floorKey]int64 // length of partitions when they were last compacted
	pids    *pidTable
}

// repairer makes a directory what kfake would have left had it been closed,
// with every transaction ended. It may be killed at any step and run again.
type repairer struct {
	opts Options
	log  *slog.Logger
	dir  string // Options.Dir
	data string // kfake's
	now  time.Time

	topics   []topicJSON
	outcomes []outcome
	floors   *floors
	cleaned  map[floorKey]int64
	parts    []*part
	pids     *pidTable

	aborted map[inEpoch]bool // by this start

	copies map[floorKey]*ahead // that a restart in place takes; nil: a start that compacts itself
}

type part struct {
	partOf
	*partScan

	clean int64 // how many of its bytes this start has compacted
}

// partOf names a partition of a topic.
type partOf struct {
	topic     topicJSON
	partition int32
}

func (p partOf) key() floorKey { return floorKey{p.topic.ID, p.partition} }

// in is the partition's directory below kfake's.
func (p partOf) in(data string) string { return partitionDir(data, p.topic.Name, p.partition) }

func repair(ctx context.Context, o Options, log *slog.Logger, copies map[floorKey]*ahead) (repaired, error) {
	r := &repairer{
		opts: o, log: log, dir: o.Dir, data: filepath.Join(o.Dir, dataDir),
		now: time.Now(), aborted: map[inEpoch]bool{}, copies: copies,
	}
	for _, step := range []struct {
		verb string
		do   func(context.Context) error
	}{
		{"replay the journal", r.replay},
		{"clear leftovers", r.clear},
		{"read topics", r.readTopics},
		{"read outcomes", r.readOutcomes},
		{"scan segments", r.scan},
		{"take back commits that do not hold", r.takeBackRefuted},
		{"end transactions", r.endOpen},
		{"restore group offsets", r.restoreGroups},
		{"restore producers", r.restoreProducers},
		{"sync markers", r.sync},
		{"empty the outcome log", r.emptyOutcomes},
		{"trim", r.trim},
		{"compact", r.compact},
		{"write snapshots", r.snapshot},
		{"sync", r.sync},
	} {
		if err := ctx.Err(); err != nil {
			return repaired{}, err
		}
		if err := step.do(ctx); err != nil {
			return repaired{}, fmt.Errorf("%s: %w", step.verb, err)
		}
	}
	return repaired{r.ends(), r.floors, r.cleaned, r.pids}, nil
}

// replay puts back what a power cut took, and ends the journal: nothing that
// is changed from here on is in it.
func (r *repairer) replay(context.Context) error {
	list, err := loadJournal(r.dir)
	if err != nil {
		return err
	}
	renewed, err := replay(r.dir, list)
	if err != nil {
		return err
	}
	if renewed > 0 {
		r.log.Info("restored acknowledged records that were not in their files when the machine stopped",
			"bytes", renewed)
	}
	for i := range 2 {
		if err := removeIf(filepath.Join(r.dir, journalName(i))); err != nil {
			return err
		}
	}
	return syncDir(r.dir)
}

// clear removes temporary files, finishes or undoes a compaction that was cut
// short, and drops what kfake keeps of a clean stop: every transaction is
// ended here, so nothing of it may come back to life.
func (r *repairer) clear(context.Context) error {
	if err := os.MkdirAll(filepath.Join(r.data, "partitions"), 0o700); err != nil {
		return err
	}
	if err := finishCleaning(r.dir, r.data, r.copies != nil); err != nil {
		return err
	}
	for _, pattern := range []string{r.dir + "/*.tmp", r.data + "/*.tmp", r.data + "/partitions/*/*.tmp"} {
		old, _ := filepath.Glob(pattern)
		for _, path := range old {
			if err := removeIf(path); err != nil {
				return err
			}
		}
	}
	return removeIf(filepath.Join(r.data, "session_state.json"))
}

func (r *repairer) readTopics(context.Context) error {
	raw, err := os.ReadFile(filepath.Join(r.data, "topics.json"))
	if errors.Is(err, os.ErrNotExist) {
		return r.withoutTopics()
	}
	if err != nil {
		return err
	}
	var t topicsJSON
	if err := json.Unmarshal(raw, &t); err != nil {
		return fmt.Errorf("topics.json is damaged, restore it from a backup: %w", err)
	}
	slices.SortFunc(t.Topics, func(a, b topicJSON) int { return strings.Compare(a.Name, b.Name) })
	r.topics = t.Topics
	return r.dropStrangers()
}

func (r *repairer) withoutTopics() error {
	entries, err := os.ReadDir(filepath.Join(r.data, "partitions"))
	if err == nil && len(entries) > 0 {
		return errors.New("topics.json is missing beside partitions with data: restore it from a backup, or delete " +
			"the broker directory to start empty")
	}
	return err
}

// dropStrangers removes partitions of topics that do not exist: kfake deletes
// the topic last, and would give an heir of the same name the old records.
func (r *repairer) dropStrangers() error {
	known := map[string]bool{}
	for _, t := range r.topics {
		for p := range t.Partitions {
			known[filepath.Base(partitionDir(r.data, t.Name, int32(p)))] = true
		}
	}
	entries, err := os.ReadDir(filepath.Join(r.data, "partitions"))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if known[e.Name()] {
			continue
		}
		r.log.Warn("removing records of a deleted topic", "directory", e.Name())
		if err := os.RemoveAll(filepath.Join(r.data, "partitions", e.Name())); err != nil {
			return err
		}
	}
	return nil
}

func (r *repairer) readOutcomes(context.Context) error {
	raw, err := os.ReadFile(filepath.Join(r.dir, outcomeFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if r.outcomes, _, err = readOutcomes(raw); err != nil {
		return fmt.Errorf("%s: %w", outcomeFile, err)
	}
	takeBack(r.outcomes)
	r.floors, err = loadFloors(filepath.Join(r.dir, floorsFile))
	return err
}

func (r *repairer) scan(ctx context.Context) error {
	watched := map[int64]bool{}
	for _, o := range r.outcomes {
		watched[o.pid] = true
	}
	for _, t := range r.topics {
		for p := range int32(t.Partitions) {
			r.parts = append(r.parts, &part{partOf: partOf{t, p}})
		}
	}
	// Reading and checking all of the log is most of a start: on all cores.
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	errs := make([]error, len(r.parts))
	for i, p := range r.parts {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				p.partScan, errs[i] = scanPartition(p.in(r.data), watched)
			}
			return nil
		})
	}
	_ = g.Wait()
	return cmp.Or(errs...) // the same whatever was read first
}

// restoreGroups cuts a torn end off groups.log and adds offsets of committed
// transactions that kfake did not get to.
func (r *repairer) restoreGroups(context.Context) error {
	path := filepath.Join(r.data, "groups.log")
	entries, torn, err := loadLog[groupEntry](path)
	if err != nil {
		return err
	}
	missing := missingOffsets(entries, r.committedOffsets())
	if !torn && len(missing) == 0 {
		return nil
	}
	return storeLog(path, append(entries, missing...))
}

// committedOffsets are the group offsets of transactions, as entries of groups.log, in the order of their commits.
func (r *repairer) committedOffsets() (list []groupEntry) {
	for i := range r.outcomes {
		o := &r.outcomes[i]
		if !o.stands() || len(o.offsets) == 0 {
			continue
		}
		for _, g := range o.offsets {
			list = append(list, groupEntry{
				Type: "commit", Group: g.group, Topic: g.topic, Part: g.partition,
				Offset: g.offset, Epoch: g.leaderEpoch, Metadata: g.metadata, LastCommit: &o.at,
			})
		}
	}
	return list
}

// missingOffsets are those of committed that kfake has not written. Of each partition of a group the last one alone
// can be: kfake writes in order, and a crash takes the end.
//
// The clock may have been set back between two commits, so times alone do not say which entry came first. An entry is
// taken for that of the first commit that is not later and says the same, unless the next commit came before the entry.
func missingOffsets(entries, committed []groupEntry) (missing []groupEntry) {
	open := map[offsetKey][]groupEntry{} // commits that no entry was taken for yet
	for _, c := range committed {
		open[c.key()] = append(open[c.key()], c)
	}
	newer := map[offsetKey]int64{} // the latest entry that is of none of them
	for _, e := range entries {
		if e.Type != "commit" || e.LastCommit == nil {
			continue
		}
		if rest, ok := e.behindIts(open[e.key()]); ok {
			open[e.key()] = rest
			continue
		}
		newer[e.key()] = max(newer[e.key()], *e.LastCommit)
	}
	for _, c := range committed {
		rest := open[c.key()]
		delete(open, c.key())
		if n := len(rest); n > 0 && newer[c.key()] < *rest[n-1].LastCommit {
			missing = append(missing, rest[n-1])
		}
	}
	return missing
}

// snapshot writes index and snapshot.json of every partition.
func (r *repairer) snapshot(context.Context) error {
	for _, p := range r.parts {
		if err := p.writeSnapshot(r.now); err != nil {
			return fmt.Errorf("%s-%d: %w", p.topic.Name, p.partition, err)
		}
	}
	return nil
}

func (p *part) writeSnapshot(now time.Time) error {
	if len(p.segments) == 0 {
		return removeIf(filepath.Join(p.dir, "snapshot.json"))
	}
	s := snapshotJSON{
		Version:          kfakeFormat,
		HighWatermark:    p.end,
		LastStableOffset: p.end,
		LogStartOffset:   p.start,
		Epoch:            p.epoch,
		MaxTimestamp:     p.lastTime,
		CreatedAt:        now.UTC().Format(time.RFC3339Nano),
		Segments:         []segmentJSON{},
	}
	for _, a := range p.aborted {
		s.AbortedTxns = append(s.AbortedTxns, abortedJSON{a.pid, a.first, a.last})
	}
	for _, seg := range p.segments {
		if err := p.index(seg); err != nil {
			return err
		}
		s.Segments = append(s.Segments, segmentJSON{
			BaseOffset: seg.base, Size: seg.size, MinEpoch: p.epoch,
			MaxEpoch: p.epoch,
		})
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.dir, "snapshot.json"), raw)
}

// sync makes durable what a process that was killed had written last: what no
// round of its syncer had reached lies in the last two segments.
func (r *repairer) sync(context.Context) error {
	if !r.opts.Sync {
		return nil
	}
	var g errgroup.Group
	g.SetLimit(16) // so many share a commit of the file system's journal
	for _, p := range r.parts {
		if len(p.segments) > 0 {
			g.Go(func() error { return syncDir(p.dir) })
		}
		for _, seg := range p.segments[max(0, len(p.segments)-2):] {
			g.Go(func() error { return syncPath(filepath.Join(p.dir, segmentName(seg.base)), r.opts.fsync) })
		}
	}
	g.Go(func() error { // EndTxn is answered once the outcome is durable, not the offsets
		err := syncPath(filepath.Join(r.data, "groups.log"), r.opts.fsync)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return errors.Join(err, syncDir(r.data))
	})
	return g.Wait()
}

// emptyOutcomes drops the outcomes: markers, offsets and producers say the same now. A compaction makes partitions
// shorter, so a start after one that was killed in it would take commits for ones that ran ahead of their data.
func (r *repairer) emptyOutcomes(context.Context) error {
	f, _, err := createOutcomes(filepath.Join(r.dir, outcomeFile), nil)
	if err != nil {
		return err
	}
	return f.Close()
}

func (r *repairer) ends() map[string]position {
	ends := map[string]position{}
	for _, p := range r.parts {
		if n := len(p.segments); n > 0 {
			ends[p.dir] = position{p.segments[n-1].base, p.segments[n-1].size}
		}
	}
	return ends
}
