package pipeline

import (
	"sync/atomic"

	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
)

// Kept is what is kept of a partition from one opening to the next, for as long
// as this process owns it. It says to others what the partition does.
type Kept struct {
	health   *output.Health // of the due topics
	dangling dangling.Kept

	at     atomic.Pointer[Step] // step of opening, or of the turn
	moves  atomic.Int64         // counts steps
	read   atomic.Int64         // records of topic state, while restoring
	toRead atomic.Int64
}

// NewKept is that of a partition that this process is about to open.
func (o *Process) NewKept(partition int32) *Kept {
	return &Kept{health: output.NewHealth(o.due, partition), dangling: dangling.Kept{Endings: &o.endings}}
}

// Step notes what the partition does now.
func (k *Kept) Step(what Step) {
	k.at.Store(&what)
	k.moves.Add(1)
}

// Doing is the step that the partition is at.
func (k *Kept) Doing() Step {
	if at := k.at.Load(); at != nil {
		return *at
	}
	return StepTaken
}

// Moves counts steps: a partition whose count stands does not move.
func (k *Kept) Moves() int64 { return k.moves.Load() }

// Restored is how many records of topic state were read, and of how many, while
// the partition is restored.
func (k *Kept) Restored() (read, of int64) { return k.read.Load(), k.toRead.Load() }

// restoring notes how far reading topic state is.
func (k *Kept) restoring(read, of int64) {
	k.read.Store(read)
	k.toRead.Store(max(read, of))
	k.moves.Add(1)
}
