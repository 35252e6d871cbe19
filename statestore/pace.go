package statestore

import (
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// pace holds flushes and compactions back. Left alone they run as fast as they
// can; and stores under an even load fill at the same time, so that four
// flushes with a compaction each took both of two cores for a quarter of a
// second, and every due event of that time was late by as much. Paced, they
// move with the turns: for every byte that turns commit, backgroundBytes may be
// written to sorted files.
//
// Pebble has no such limit of its own. It writes a sorted file block by block,
// and that is where we wait.
type pace struct {
	free    func() bool // nobody is waited for: the store is being filled, or closes
	credit  atomic.Int64
	earned  chan struct{}
	waiting atomic.Int32 // memtables that the flush under way writes
	runs    atomic.Int32 // sorted runs in level 0, about
	stalled atomic.Bool  // Pebble makes turns wait, and turns that wait earn nothing
}

const (
	// backgroundBytes is above what a byte costs on its way down: a flush, and a
	// merge in each of the few levels.
	backgroundBytes = 8
	// mostCredit is what a burst may save up.
	mostCredit = 1 << 20
	// idleBlock is how long a block waits for turns when there are none.
	idleBlock = 4 * time.Millisecond
	// mostRuns in level 0, far below what stops writes: beyond it compactions are
	// behind, and not paced.
	mostRuns = 24
)

func newPace(free func() bool) *pace { return &pace{free: free, earned: make(chan struct{}, 1)} }

// earn is called with the bytes that a turn has committed.
func (p *pace) earn(bytes int) {
	if p.credit.Add(backgroundBytes*int64(bytes)) > mostCredit {
		p.credit.Store(mostCredit)
	}
	select {
	case p.earned <- struct{}{}:
	default:
	}
}

// spend is called with the bytes that were written, and waits for more credit.
func (p *pace) spend(bytes int) {
	if p.credit.Add(-int64(bytes)) >= 0 {
		return
	}
	idle := time.NewTimer(idleBlock)
	defer idle.Stop()
	for p.credit.Load() < 0 && !p.free() && !p.behind() {
		select {
		case <-p.earned:
		case <-idle.C:
			p.credit.Store(0)
		}
	}
}

func (p *pace) behind() bool {
	return p.stalled.Load() || p.waiting.Load() > 1 || p.runs.Load() > mostRuns
}

// listen counts what is behind.
func (p *pace) listen(l *pebble.EventListener) {
	l.FlushBegin = func(i pebble.FlushInfo) { p.waiting.Store(int32(i.Input)) }
	tell := l.WriteStallBegin
	l.WriteStallBegin = func(i pebble.WriteStallBeginInfo) {
		p.stalled.Store(true)
		tell(i)
	}
	l.WriteStallEnd = func() { p.stalled.Store(false) }
	l.FlushEnd = func(i pebble.FlushInfo) {
		p.waiting.Store(0)
		p.runs.Add(int32(len(i.Output)))
	}
	l.CompactionEnd = func(i pebble.CompactionInfo) {
		if i.Err == nil && len(i.Input) > 0 && i.Input[0].Level == 0 {
			p.runs.Add(-int32(len(i.Input[0].Tables)))
		}
	}
}

// pacedFS is a file system whose sorted files are written at a pace.
type pacedFS struct {
	vfs.FS
	pace *pace
}

func (f pacedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil || category != "pebble-memtable-flush" && category != "pebble-compaction" {
		return file, err
	}
	return pacedFile{file, f.pace}, nil
}

// Unwrap is for Pebble, which looks for the disk below.
func (f pacedFS) Unwrap() vfs.FS { return f.FS }

type pacedFile struct {
	vfs.File
	pace *pace
}

func (f pacedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.pace.spend(n)
	return n, err
}
