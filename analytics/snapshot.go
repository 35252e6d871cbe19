package analytics

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"
)

// Snapshot is a file with all triggers of a partition at the end of a day: those that have not
// ended, and those that ended lately. It follows from the snapshot before and the sealed
// files since, so it is as equal in its bytes as they are.
type Snapshot struct {
	Path      string `json:"path"` // in the directory, with slashes
	Partition int32  `json:"partition"`
	Date      string `json:"date"` // UTC: at the end of this day
	Next      int64  `json:"next"` // the first offset that it does not cover
	Rows      int64  `json:"rows"`
	Bytes     int64  `json:"bytes"`
	SHA256    string `json:"sha256"`
}

func snapshotPath(date string, p int32) string {
	return path.Join(snapshotDir, "date="+date, partitionName(p)+".parquet")
}

// nextSnapshot finds the oldest day of a partition that is over and has no snapshot, with the
// sealed files that the snapshot before does not cover. A day is over when a sealed file has
// events of a later one. Files without an event belong to whatever is before them.
func (c *chain) nextSnapshot(p int32, newest *Snapshot) (s Snapshot, files []File, ok bool) {
	var from int64
	after := ""
	if newest != nil {
		from, after = newest.Next, newest.Date
	}
	for i := range c.files {
		f := &c.files[i]
		if f.Partition != p || f.First < from {
			continue
		}
		if f.MaxUS != 0 {
			if s.Date > after && f.Date > s.Date {
				return s, files, true
			}
			s.Date = f.Date
		}
		files = append(files, *f)
		s = Snapshot{Partition: p, Date: s.Date, Next: f.Last + 1}
	}
	return Snapshot{}, nil, false
}

// snapshots makes those that are missing, at most so many.
func (e *Exporter) snapshots(ctx context.Context, most int, r *Report) error {
	for p := range int32(e.chain.last.Partitions) { //nolint:gosec // a partition's number
		made, err := e.snapshotsOf(ctx, p, most)
		r.Snapshots += made
		if most -= made; err != nil || most <= 0 {
			return err
		}
	}
	return nil
}

func (e *Exporter) snapshotsOf(ctx context.Context, p int32, most int) (made int, err error) {
	var pending []Snapshot
	newest := e.chain.newest[p]
	for made < most {
		s, files, ok := e.chain.nextSnapshot(p, newest)
		if !ok {
			break
		}
		if err := e.makeSnapshot(ctx, newest, &s, files); err != nil {
			return made, err
		}
		made++
		pending, newest = append(pending, s), &s
		if len(pending) == filesPerManifest {
			if err := e.commitSnapshots(p, pending); err != nil {
				return made, err
			}
			pending = nil
		}
	}
	return made, e.commitSnapshots(p, pending)
}

// commitSnapshots publishes those that no other exporter has published meanwhile.
func (e *Exporter) commitSnapshots(p int32, all []Snapshot) error {
	for {
		known := e.chain.newest[p]
		if known != nil {
			all = slices.DeleteFunc(all, func(s Snapshot) bool { return s.Date <= known.Date })
		}
		if len(all) == 0 {
			return nil
		}
		m := e.chain.follow(e.base)
		m.Snapshots = all
		if _, err := e.offer(m); err != nil {
			return err
		}
	}
}

// makeSnapshot writes a snapshot of the one before, which may be nil, and of the files since.
func (e *Exporter) makeSnapshot(ctx context.Context, before, s *Snapshot, files []File) (err error) {
	f := &folding{e: e, live: map[standingKey]*folded{}}
	defer f.removeRuns()
	for i := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := readSealed(e.opts.Dir, &files[i], func(rows []said) error {
			for i := range rows {
				if err := f.add(&rows[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	var base stream
	if before != nil {
		if base, err = openSnapshot(e.opts.Dir, before); err != nil {
			return err
		}
	}
	all := f.merged(base)
	defer func() { err = errors.Join(err, all.close()) }()
	return e.writeSnapshot(ctx, s, all)
}

func (e *Exporter) writeSnapshot(ctx context.Context, s *Snapshot, all stream) error {
	today, err := dayNamed(s.Date)
	if err != nil {
		return err
	}
	out := &output[Standing]{e: e, bloom: []string{"trigger"}}
	if err := out.create(); err != nil {
		return err
	}
	defer out.drop()
	batch := make([]Standing, 0, batchRows)
	flush := func() error {
		err := out.write(batch)
		clear(batch)
		batch = batch[:0]
		return errors.Join(err, ctx.Err())
	}
	for {
		next, err := all.next()
		if err != nil {
			return err
		}
		if next == nil {
			break
		}
		if !next.stays(today) {
			continue
		}
		batch = append(batch, next.Standing)
		s.Rows++
		if len(batch) == batchRows {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	s.Path = snapshotPath(s.Date, s.Partition)
	err = out.finish(s.Path, func(to string) error { return out.keepFirst(to, s.Rows) })
	s.SHA256, s.Bytes = out.digest, out.bytes
	return err
}

// firstSnapshot is the one before the first day: it has no trigger. With it the views find a
// file, also in a directory that has no other snapshot. Its name sorts last: DuckDB takes the
// rows of the first file for those of each, and reads every day if it takes them for none.
var firstSnapshot = Snapshot{Date: "9999-12-31"}

// ensureFirstSnapshot makes the empty snapshot. No manifest names it.
func (e *Exporter) ensureFirstSnapshot(ctx context.Context) error {
	if _, err := os.Stat(e.full(firstSnapshot.Date)); !gone(err) {
		return err
	}
	s := firstSnapshot
	return e.writeSnapshot(ctx, &s, &listStream{})
}

// PrepareViews makes what the views need in a directory of an exporter that made no snapshots.
func PrepareViews(dir string) (err error) {
	e := New(Options{Dir: dir})
	if _, err := os.Stat(e.full(firstSnapshot.Date)); !gone(err) {
		return err
	}
	if err := e.open(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.close()) }()
	return e.ensureFirstSnapshot(context.Background())
}

// full is where the snapshot of partition 0 of a day is.
func (e *Exporter) full(date string) string {
	return filepath.Join(e.opts.Dir, filepath.FromSlash(snapshotPath(date, 0)))
}

// dayNamed is a day that dayName has named.
func dayNamed(name string) (int64, error) {
	t, err := time.Parse(time.DateOnly, name)
	return t.Unix() / (24 * 60 * 60), err
}
