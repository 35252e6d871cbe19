package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// compact rewrites compacted topics that have grown enough. Every transaction
// is ended by now, so all of a log may be looked at. A restart that has copies
// rewrites nothing, because clients wait for it: it takes what was made before.
func (r *repairer) compact(ctx context.Context) error {
	path := filepath.Join(r.dir, cleanedFile)
	cleaned, err := loadCleaned(path)
	if err != nil {
		return err
	}
	compacted := map[*part]bool{}
	var g errgroup.Group
	g.SetLimit(compactedAtOnce)
	for _, p := range r.parts {
		rewrite := r.rewriteOf(p, cleaned)
		if rewrite == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return errors.Join(err, g.Wait())
		}
		compacted[p] = true
		g.Go(func() error {
			if err := rewrite(); err != nil {
				return fmt.Errorf("%s-%d: %w", p.topic.Name, p.partition, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, a := range r.copies { // those that did not fit
		if err := os.RemoveAll(a.dir); err != nil {
			return err
		}
	}
	next := cleanedJSON{Version: layoutVersion}
	for _, p := range r.parts {
		key := p.key()
		size, before := cleaned[key]
		if compacted[p] {
			size = p.clean
		}
		if compacted[p] || before && p.mayCompact() {
			cleaned[key] = size
			next.Partitions = append(next.Partitions, cleanedPart{p.topic.ID, p.partition, size})
		}
	}
	r.cleaned = cleaned
	raw, err := json.Marshal(next)
	if err != nil {
		return err
	}
	return replaceFile(path, raw)
}

// rewriteOf is what compacts a partition now; nil: nothing does.
func (r *repairer) rewriteOf(p *part, cleaned map[floorKey]int64) func() error {
	if r.copies != nil {
		if a := r.copies[p.key()]; a != nil && a.fits(p) {
			return func() error { return r.exchange(p, a) }
		}
		return nil
	}
	if !p.mayCompact() || !r.opts.toCompact(p.bytes, cleaned[p.key()]) {
		return nil
	}
	return func() error { return r.compactPart(p) }
}

func (p *part) mayCompact() bool { return p.topic.compacts() && len(p.segments) > 0 }

// compactedAtOnce bounds what is in memory: of a partition, where the newest record of each key is.
const compactedAtOnce = 2

// toCompact says whether a partition of that length is compacted at a start; cleaned is how long it was when
// it last was, or 0.
func (o Options) toCompact(bytes, cleaned int64) bool {
	grown := bytes - cleaned
	return grown >= o.CompactBytes && grown >= cleaned/2
}

// cleanedJSON says how long partitions were when they were last compacted.
type cleanedJSON struct {
	Version    int           `json:"version"`
	Partitions []cleanedPart `json:"partitions"`
}

type cleanedPart struct {
	TopicID   string `json:"topic_id"`
	Partition int32  `json:"partition"`
	Bytes     int64  `json:"bytes"`
}

// loadCleaned treats what it cannot read as empty: it costs a compaction.
func loadCleaned(path string) (map[floorKey]int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	var j cleanedJSON
	out := map[floorKey]int64{}
	if json.Unmarshal(raw, &j) != nil || j.Version != layoutVersion {
		return out, nil
	}
	for _, p := range j.Partitions {
		out[floorKey{p.TopicID, p.Partition}] = p.Bytes
	}
	return out, nil
}

func (r *repairer) compactPart(p *part) error {
	c := newCleaner(p, r.now)
	if err := c.survey(); err != nil {
		return err
	}
	work := filepath.Join(r.dir, cleanDir)
	name := filepath.Base(p.dir)
	fresh := filepath.Join(work, name+".new")
	if err := os.MkdirAll(fresh, 0o700); err != nil {
		return err
	}
	segments, err := c.rewrite(fresh, r.opts.SegmentBytes)
	if err != nil {
		return err
	}
	if err := swapIn(work, name, p.dir); err != nil {
		return err
	}
	r.log.Info("compacted", "topic", p.topic.Name, "partition", p.partition, "before", p.bytes, "after", c.written)
	p.segments, p.bytes, p.clean, p.aborted = segments, c.written, c.written, nil
	return nil
}

// swapIn puts the new directory in the old one's place. Killed between any
// two steps, finishCleaning finds out which.
//
//	partitions/X, cleaning/X.new              not yet: the new one is dropped
//	cleaning/X.old, cleaning/X.new            half: the new one moves in
//	partitions/X, cleaning/X.old              done: the old one is dropped
func swapIn(work, name, dir string) error {
	fresh, old := filepath.Join(work, name+".new"), filepath.Join(work, name+".old")
	for _, step := range []func() error{
		func() error { return syncDir(fresh) },
		func() error { return syncDir(work) },
		func() error { return os.Rename(dir, old) },
		func() error { return syncDir(work) },
		func() error { return os.Rename(fresh, dir) },
		func() error { return syncDir(filepath.Dir(dir)) },
		func() error { return os.RemoveAll(old) },
		func() error { return syncDir(work) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// finishCleaning empties the directory, but for copies that a restart in place takes.
func finishCleaning(root, data string, keepCopies bool) error {
	work := filepath.Join(root, cleanDir)
	entries, err := os.ReadDir(work)
	if errors.Is(err, os.ErrNotExist) {
		return os.MkdirAll(work, 0o700)
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".old")
		if !ok {
			continue
		}
		dir := filepath.Join(data, "partitions", name)
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			if err := os.Rename(filepath.Join(work, name+".new"), dir); err != nil {
				return err
			}
			if err := syncDir(filepath.Dir(dir)); err != nil {
				return err
			}
		}
	}
	for _, e := range entries {
		if keepCopies && strings.HasSuffix(e.Name(), aheadSuffix) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(work, e.Name())); err != nil {
			return err
		}
	}
	return syncDir(work)
}
