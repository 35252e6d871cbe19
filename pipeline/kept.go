package pipeline

import (
	"sync/atomic"

	"github.com/waterclock/waterclock/internal/lateness"
	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
)

// Kept is what a process keeps of a partition from one opening to the next, for as long as
// it owns the partition. It shows to others what the partition does.
type Kept struct {
	health   *output.Health // of the due topics
	dangling dangling.Kept
	late     *lateness.Recent // how late its due events were
	live     *live.Recent     // its recent facts, if somebody watches

	at     atomic.Pointer[Step] // current step of opening, or of the turn
	moves  atomic.Int64         // counts steps
	read   atomic.Int64         // records of topic state read while restoring
	toRead atomic.Int64

	onRestore func() // of the opening under way; nil: nothing
}

// NewKept makes the Kept of a partition that this process is about to open.
func (o *Process) NewKept(partition int32) *Kept {
	return &Kept{
		health: output.NewHealth(o.due, partition), dangling: dangling.Kept{Endings: &o.endings},
		late: lateness.NewRecent(), live: live.NewRecent(),
	}
}

// Step notes what the partition does now.
func (k *Kept) Step(what Step) {
	k.at.Store(&what)
	k.moves.Add(1)
}

// Doing is the current step of the partition.
func (k *Kept) Doing() Step {
	if at := k.at.Load(); at != nil {
		return *at
	}
	return StepTaken
}

// Moves counts steps. A partition whose count does not change does not move.
func (k *Kept) Moves() int64 { return k.moves.Load() }

// Restored returns how many records of topic state were read, and of how many, while the
// partition restores.
func (k *Kept) Restored() (read, of int64) { return k.read.Load(), k.toRead.Load() }

// OnRestore sets what is called when the next opening has to restore its store, which may take minutes, and only a few
// do at a time.
func (k *Kept) OnRestore(f func()) { k.onRestore = f }

func (k *Kept) restores() {
	if k.onRestore != nil {
		k.onRestore()
	}
}

// restoring notes how far the reading of topic state is.
func (k *Kept) restoring(read, of int64) {
	k.read.Store(read)
	k.toRead.Store(max(read, of))
	k.moves.Add(1)
}
