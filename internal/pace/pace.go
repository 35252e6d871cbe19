// Package pace holds the background work of Pebble databases back: flushes of
// memtables, compactions, and what their owners sweep. Left alone they run as
// fast as they can; and databases under an even load fill at the same time, so
// that four flushes with a compaction each took both of two cores for half a
// second, and all that was due in that time was late by as much.
//
// Paced, all of the process that work at once share a tenth of its cores:
// whoever has written a block rests the longer, the longer that block took, and
// the more others work. The more urgent its work is, the shorter it rests,
// down to nothing: a flush is urgent when the memtable behind it is nearly
// full, a compaction when level 0 is.
//
// Pebble has no such limit of its own. It writes a sorted file block by block,
// and that is where we wait.
package pace

import (
	"runtime"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const (
	// share is of the process's cores.
	share = 0.1
	// shortestRest is below what a timer is worth: rests add up to it.
	shortestRest = time.Millisecond
	// longestRest bounds what a slow block costs, and what a Close waits.
	longestRest = 50 * time.Millisecond
	// behindBy times as many files in level 0 as make Pebble compact them, a flush
	// being several, are far below what stops writes: then compactions are behind,
	// and do not rest.
	behindBy = 6
)

// Pace is of one database.
type Pace struct {
	cores    float64     // for all that is written in the background
	memtable int64       // bytes
	free     func() bool // nobody is waited for: the database is being filled, or closes

	queued  atomic.Int64 // bytes of memtables that the flush under way writes
	filled  atomic.Int64 // bytes committed since it began
	files   atomic.Int64 // in level 0, about
	most    int64        // of them, before compactions are behind
	stalled atomic.Bool  // Pebble makes writers wait
}

// New is a pace for a database with memtables of so many bytes, that does not
// matter while free.
func New(memtable int, free func() bool) *Pace {
	return &Pace{cores: share * float64(runtime.GOMAXPROCS(0)), memtable: int64(memtable), free: free}
}

// Apply makes a database that is opened with o keep the pace. Whoever writes
// to it calls Committed.
func (p *Pace) Apply(o *pebble.Options) {
	if o.EventListener == nil {
		o.EventListener = &pebble.EventListener{}
	}
	p.most = behindBy * int64(o.L0CompactionThreshold)
	p.listen(o.EventListener)
	o.FS = pacedFS{o.FS, p}
}

// Committed is called with the length of every batch.
func (p *Pace) Committed(bytes int) { p.filled.Add(int64(bytes)) }

// listen counts what is behind.
func (p *Pace) listen(l *pebble.EventListener) {
	l.FlushBegin = func(i pebble.FlushInfo) {
		p.queued.Store(int64(i.InputBytes))
		p.filled.Store(0)
	}
	l.FlushEnd = func(i pebble.FlushInfo) { p.files.Add(int64(len(i.Output))) }
	l.CompactionEnd = func(i pebble.CompactionInfo) {
		if i.Err == nil && len(i.Input) > 0 && i.Input[0].Level == 0 {
			if p.files.Add(-int64(len(i.Input[0].Tables))) < 0 { // some were there when it was opened
				p.files.Store(0)
			}
		}
	}
	begin, end := l.WriteStallBegin, l.WriteStallEnd
	l.WriteStallBegin = func(i pebble.WriteStallBeginInfo) {
		p.stalled.Store(true)
		if begin != nil {
			begin(i)
		}
	}
	l.WriteStallEnd = func() {
		p.stalled.Store(false)
		if end != nil {
			end()
		}
	}
}

// urgency is 0 for what may take its time, and 1 for what must not rest.
func (p *Pace) urgency(k kind) float64 {
	switch {
	case p.free():
		return 1
	case k == sweep:
		return 0
	case p.stalled.Load():
		return 1
	case k == compaction:
		return min(float64(p.files.Load())/float64(p.most), 1)
	}
	// One memtable is flushed while the next is filled; a batch takes up to a
	// third more in it.
	waiting := max(p.queued.Load()*3/4-p.memtable, 0) + p.filled.Load()*4/3
	return min(float64(waiting)/float64(p.memtable), 1)
}

// kind is why somebody works in the background.
type kind byte

const (
	flush kind = iota
	compaction
	sweep
)

// Work is one piece of background work under way, of one goroutine.
type Work struct {
	pace  *Pace
	kind  kind
	begun time.Time     // when it went on
	owed  time.Duration // of rest
	ended bool
}

// working counts the pieces under way in this process.
var working atomic.Int32

func (p *Pace) begin(k kind) *Work {
	working.Add(1)
	return &Work{pace: p, kind: k, begun: time.Now()}
}

// Sweep begins a reading of much that nobody waits for. It calls Pause often,
// and End.
func (p *Pace) Sweep() *Work { return p.begin(sweep) }

// Pause rests for what was done since the last call.
func (w *Work) Pause() {
	w.owed += w.pace.rest(w.kind, time.Since(w.begun))
	if w.owed >= shortestRest {
		time.Sleep(min(w.owed, longestRest))
		w.owed = 0
	}
	w.begun = time.Now()
}

// End is the last call; more of them do nothing.
func (w *Work) End() {
	if !w.ended {
		w.ended = true
		working.Add(-1)
	}
}

// rest is how long to pause after working for d.
func (p *Pace) rest(k kind, d time.Duration) time.Duration {
	each := p.cores / float64(max(working.Load(), 1))
	return time.Duration(float64(d) * max(1/each-1, 0) * (1 - p.urgency(k)))
}

// kinds are the words of Pebble that we pace.
var kinds = map[vfs.DiskWriteCategory]kind{"pebble-memtable-flush": flush, "pebble-compaction": compaction}

// pacedFS is a file system whose sorted files are written at a pace.
type pacedFS struct {
	vfs.FS
	pace *Pace
}

func (f pacedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	kind, ok := kinds[category]
	if !ok {
		return file, err
	}
	if err != nil {
		return file, failed(err)
	}
	return &pacedFile{file, f.pace.begin(kind)}, nil
}

// Unwrap is for Pebble, which looks for the disk below.
func (f pacedFS) Unwrap() vfs.FS { return f.FS }

type pacedFile struct {
	vfs.File
	work *Work
}

func (f *pacedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.work.Pause()
	return n, failed(err)
}

// failed makes Pebble wait before it begins the same anew, which it does at once
// and for as long as the disk is full: that would take a core and fill the log.
func failed(err error) error {
	if err != nil {
		time.Sleep(failedPause)
	}
	return err
}

const failedPause = 100 * time.Millisecond

// Sync is the last call on a file of Pebble's whose disk fails.
func (f *pacedFile) Sync() error {
	err := f.File.Sync()
	if err != nil {
		f.work.End()
	}
	return failed(err)
}

func (f *pacedFile) Close() error {
	f.work.End()
	return f.File.Close()
}
