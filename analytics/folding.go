package analytics

import (
	"bufio"
	"cmp"
	"encoding/gob"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// folding folds events by trigger, in memory as far as its bounds go. What does not fit is
// written to sorted runs, which are merged in the end.
type folding struct {
	e    *Exporter
	live map[standingKey]*folded
	runs []string
}

type standingKey struct{ tenant, trigger string }

const (
	// mostFolded triggers are in memory; with its tags one takes about 600 bytes.
	mostFolded = 1 << 16
	// mostRuns are merged at a time; each has a buffer of 64 KiB.
	mostRuns = 64
)

// add takes in the next event of the partition. What says nothing of a trigger is passed over.
func (f *folding) add(r *said) error {
	if r.Seq == 0 || r.Type == "" {
		return nil
	}
	key := standingKey{r.Tenant, r.Trigger}
	at := f.live[key]
	if at == nil {
		if len(f.live) >= f.e.mostFolded {
			if err := f.spill(); err != nil {
				return err
			}
		}
		at = &folded{}
		keep(&at.Tenant, r.Tenant)
		keep(&at.Trigger, r.Trigger)
		f.live[standingKey{at.Tenant, at.Trigger}] = at
	}
	at.apply(r)
	return nil
}

// spill writes what is in memory to a run.
func (f *folding) spill() error {
	if len(f.runs) == mostRuns {
		if err := f.writeRun(f.merged(nil)); err != nil {
			return err
		}
	}
	return f.writeRun(f.memory())
}

// writeRun makes the newest run of a stream. If that was merged from all runs, it is the only
// one then.
func (f *folding) writeRun(from stream) (err error) {
	defer func() { err = errors.Join(err, from.close()) }()
	name := f.e.scratch()
	out, err := f.e.disk.Create(name)
	if err != nil {
		return err
	}
	buf := bufio.NewWriterSize(out, 64<<10)
	enc := gob.NewEncoder(buf)
	for {
		s, err := from.next()
		if err != nil {
			return errors.Join(err, out.Close())
		}
		if s == nil {
			break
		}
		if err := enc.Encode(s); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	if err := errors.Join(buf.Flush(), out.Close()); err != nil {
		return err
	}
	if _, all := from.(*merging); all {
		f.removeRuns()
	}
	f.runs = append(f.runs, name)
	return nil
}

func (f *folding) removeRuns() {
	for _, name := range f.runs {
		_ = f.e.disk.Remove(name)
	}
	f.runs = nil
}

// merged is a stream of all: of base, which is older and may be nil, of the runs, and of what
// is in memory.
func (f *folding) merged(base stream) *merging {
	m := &merging{}
	if base != nil {
		m.from = append(m.from, base)
	}
	for _, name := range f.runs {
		m.from = append(m.from, &runStream{name: name})
	}
	m.from = append(m.from, f.memory())
	return m
}

// stream gives triggers in their order, each once, and then nil. What it gives is valid until
// the next call.
type stream interface {
	next() (*folded, error)
	close() error
}

// memory is what the folding holds; it holds nothing afterwards.
func (f *folding) memory() stream {
	all := make([]*folded, 0, len(f.live))
	for _, s := range f.live {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *folded) int { return a.compare(&b.Standing) })
	clear(f.live)
	return &listStream{all}
}

type listStream struct{ rest []*folded }

func (l *listStream) next() (*folded, error) {
	if len(l.rest) == 0 {
		return nil, nil
	}
	s := l.rest[0]
	l.rest = l.rest[1:]
	return s, nil
}

func (*listStream) close() error { return nil }

// runStream reads a run.
type runStream struct {
	name string
	file *os.File
	dec  *gob.Decoder
}

func (r *runStream) next() (*folded, error) {
	if r.file == nil {
		f, err := os.Open(r.name)
		if err != nil {
			return nil, err
		}
		r.file, r.dec = f, gob.NewDecoder(bufio.NewReaderSize(f, 64<<10))
	}
	s := &folded{}
	switch err := r.dec.Decode(s); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return s, nil
}

func (r *runStream) close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// snapshotStream reads a snapshot.
type snapshotStream struct {
	file *os.File
	rows *parquet.GenericReader[Standing]
	buf  []Standing
	rest []Standing
	end  bool
	out  folded
}

func openSnapshot(dir string, s *Snapshot) (*snapshotStream, error) {
	name := filepath.Join(dir, filepath.FromSlash(s.Path))
	f, err := os.Open(name) //nolint:gosec // a file of the export
	if gone(err) {
		return nil, damaged(name, "is missing, and manifests name it")
	}
	if err != nil {
		return nil, err
	}
	p, err := openParquet(f)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &snapshotStream{
		file: f, rows: parquet.NewGenericReader[Standing](p), buf: make([]Standing, readRows),
		out: folded{SaysNext: true, SaysPlan: true},
	}, nil
}

func (r *snapshotStream) next() (*folded, error) {
	if len(r.rest) == 0 && !r.end {
		clear(r.buf)
		n, err := r.rows.Read(r.buf)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, damaged(r.file.Name(), "cannot be read: %v", err)
		}
		r.rest, r.end = r.buf[:n], err != nil
	}
	if len(r.rest) == 0 {
		return nil, nil
	}
	r.out.Standing, r.rest = r.rest[0], r.rest[1:]
	return &r.out, nil
}

func (r *snapshotStream) close() error { return errors.Join(r.rows.Close(), r.file.Close()) }

// merging merges streams, the oldest first.
type merging struct {
	from  []stream
	heads []*folded // of from, or nil; empty before the first call
	taken []int     // whose heads were given
}

func (m *merging) next() (*folded, error) {
	if m.heads == nil {
		m.heads = make([]*folded, len(m.from))
		for i := range m.from {
			m.taken = append(m.taken, i)
		}
	}
	for _, i := range m.taken {
		var err error
		if m.heads[i], err = m.from[i].next(); err != nil {
			return nil, err
		}
	}
	m.taken = m.taken[:0]
	for i, s := range m.heads {
		if s == nil {
			continue
		}
		if len(m.taken) > 0 {
			switch c := s.compare(&m.heads[m.taken[0]].Standing); {
			case c > 0:
				continue
			case c < 0:
				m.taken = m.taken[:0]
			}
		}
		m.taken = append(m.taken, i)
	}
	if len(m.taken) == 0 {
		return nil, nil
	}
	newest := m.heads[m.taken[len(m.taken)-1]]
	for _, i := range slices.Backward(m.taken[:len(m.taken)-1]) {
		newest.after(m.heads[i])
	}
	return newest, nil
}

func (m *merging) close() (err error) {
	for _, s := range m.from {
		err = errors.Join(err, s.close())
	}
	return err
}

// compare is the order of a snapshot.
func (s *Standing) compare(o *Standing) int {
	return cmp.Or(cmp.Compare(s.Tenant, o.Tenant), cmp.Compare(s.Trigger, o.Trigger))
}
