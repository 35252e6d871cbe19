package broker

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
)

// maxOutcomeBytes is where the log starts anew.
const maxOutcomeBytes = 4 << 20

var errLongOutcome = errors.New("the transaction has too many partitions and group offsets")

// append writes one outcome. If it fails, so does the broker: a start sees nothing behind a frame that is torn, so none
// may follow. The lock is held.
func (x *txns) append(o outcome) error {
	if err := x.b.failure(); err != nil {
		return err
	}
	frame := o.appendTo(nil)
	if len(frame) > maxFrame {
		return errLongOutcome // a start would take it, and all behind it, for a torn end
	}
	if _, err := x.log.Write(frame); err != nil {
		err = fmt.Errorf("write outcome: %w", err)
		x.b.fail(err)
		return err
	}
	x.size += int64(len(frame))
	return nil
}

// write is append for what nobody waits for here: if it fails, so does the broker. The lock is held.
func (x *txns) write(o outcome) {
	if err := x.append(o); err != nil {
		x.b.fail(err)
	}
}

// restart begins a new log once nothing in the old one matters. Ends that kfake has not answered
// move over. The lock is held.
func (x *txns) restart() error {
	if err := x.sync(); err != nil {
		return err
	}
	keep := x.begunOnes()
	clear(x.moved)
	for _, o := range x.owners {
		for _, t := range o.open {
			if t.ends > 0 && t.ended != nil {
				keep = append(keep, *t.ended)
			}
			if t.outcome == nil {
				continue
			}
			keep = append(keep, *t.outcome)
			for _, at := range t.targets(true) {
				x.moved[at] = struct{}{}
			}
		}
	}
	return x.begin(x.log.Name(), keep)
}

// shorten begins a new log if this one is long. The lock is held.
func (x *txns) shorten() {
	if x.log == nil || x.size <= maxOutcomeBytes {
		return
	}
	if err := x.restart(); err != nil {
		x.b.fail(err)
	}
}

// begunOnes are the transactions that kfake has not turned to the end of.
func (x *txns) begunOnes() (list []outcome) {
	for _, o := range x.owners {
		for _, t := range o.open {
			if t.ends == 0 {
				list = append(list, t.mark(kindBegun))
			}
		}
	}
	return list
}

// deleting is called as kfake turns to a request that may delete group offsets, or a topic: outcomes of before
// must not bring them back.
func (x *txns) deleting() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil || x.size <= int64(len(outcomeMagic)) {
		return
	}
	if err := x.restart(); err != nil {
		x.b.fail(err)
	}
}

// sync sees to it that nothing in the log matters: every marker that it could have to restore is on disk,
// and so are offsets and epochs.
func (x *txns) sync() error {
	if x.b.syncer == nil {
		return nil
	}
	return x.b.syncer.emptyJournal(append(slices.Collect(maps.Keys(x.moved)), x.b.outcomeLog(), x.b.groupsLog(),
		x.b.pidsLog())...)
}

// begin replaces the log by one that holds keep.
func (x *txns) begin(path string, keep []outcome) error {
	if x.log != nil {
		x.log.Close()
	}
	f, size, err := createOutcomes(path, keep)
	x.log, x.size = f, size
	return err
}

func createOutcomes(path string, keep []outcome) (*os.File, int64, error) {
	raw := []byte(outcomeMagic)
	for _, o := range keep {
		raw = o.appendTo(raw)
	}
	if err := replaceFile(path, raw); err != nil {
		return nil, 0, fmt.Errorf("begin outcome log: %w", err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("begin outcome log: %w", err)
	}
	return f, int64(len(raw)), nil
}

// close ends the log. After a clean stop it has no outcomes: what kfake has saved is all there is, and offsets in
// here may be of groups that were deleted since.
func (x *txns) close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.log == nil {
		return nil
	}
	var err error
	if x.size > int64(len(outcomeMagic)) && x.b.failure() == nil {
		if err = x.sync(); err == nil {
			err = x.begin(x.log.Name(), x.begunOnes())
		}
	}
	err = errors.Join(err, x.log.Close())
	x.log = nil
	return err
}
