package broker

import (
	"context"
	"path/filepath"
)

// takeBackRefuted writes into the log which commits do not hold. The markers of this start take the place of what a
// power cut took, and the next start would believe such a commit, should this one be killed.
func (r *repairer) takeBackRefuted(context.Context) error {
	var list []outcome
	for i := range r.outcomes {
		o := &r.outcomes[i]
		void := o.stands() && r.refuted(o)
		o.void = o.void || void
		if list = append(list, *o); void {
			list = append(list, outcome{kind: kindAbort, pid: o.pid, epoch: o.epoch, at: o.at})
		}
	}
	if len(list) == len(r.outcomes) {
		return nil
	}
	r.outcomes = list
	f, _, err := createOutcomes(filepath.Join(r.dir, outcomeFile), list)
	if err != nil {
		return err
	}
	return f.Close()
}

// endOpen writes the marker of every transaction that has none.
func (r *repairer) endOpen(context.Context) error {
	commits, aborts := 0, 0
	for _, p := range r.parts {
		for _, pid := range p.sortedOpen() {
			open := p.open[pid]
			commit := r.decided(p, pid, open)
			if err := p.close(pid, open.epoch, commit, r.now.UnixMilli()); err != nil {
				return err
			}
			if commit {
				commits++
				continue
			}
			aborts++
			r.aborted[inEpoch{pid, open.epoch}] = true
		}
	}
	if commits+aborts > 0 {
		r.log.Info("ended transactions that were open when the broker stopped", "committed", commits, "aborted", aborts)
	}
	return nil
}

// decided says whether an open transaction of one partition was committed:
// an outcome that stands lists the partition, and was written behind the data.
// A producer may keep its epoch, so earlier transactions have outcomes too.
func (r *repairer) decided(p *part, pid int64, open *openData) bool {
	for i := len(r.outcomes) - 1; i >= 0; i-- {
		o := &r.outcomes[i]
		if o.pid != pid || o.epoch != open.epoch || !o.stands() {
			continue
		}
		if end, ok := o.tail(p); ok && open.at.before(end) {
			return true
		}
	}
	return false
}

func (o *outcome) tail(p *part) (position, bool) {
	for _, t := range o.parts {
		if t.topic == p.topic.Name && t.partition == p.partition {
			return position{t.base, t.size}, true
		}
	}
	return position{}, false
}

// refuted says whether an outcome does not hold. Kfake may have aborted the
// transaction after all: then one of its partitions has an ABORT marker where
// the COMMIT marker belongs. Or kfake never heard of it.
func (r *repairer) refuted(o *outcome) bool {
	for _, p := range r.parts {
		end, ok := o.tail(p)
		if !ok {
			continue
		}
		for _, e := range p.seen {
			if e.pid == o.pid && e.data && !e.at.before(end) {
				return !e.commit
			}
		}
	}
	return r.ahead(o)
}

// ahead says whether an outcome reached its own file before all the data that
// it speaks of was durable: a power cut takes what is not synced in any order.
// Nobody has heard of it then.
func (r *repairer) ahead(o *outcome) bool {
	for _, p := range r.parts {
		if end, ok := o.tail(p); ok && p.reached.before(end) {
			return true
		}
	}
	return false
}

// takeBack marks the commits that an abort took back: each the newest of its
// producer and epoch before it that stands.
func takeBack(list []outcome) {
	for i := range list {
		if list[i].kind != kindAbort {
			continue
		}
		for j := i - 1; j >= 0; j-- {
			if o := &list[j]; o.stands() && o.pid == list[i].pid && o.epoch == list[i].epoch {
				o.void = true
				break
			}
		}
	}
}

func (o *outcome) stands() bool { return o.kind == kindCommit && !o.void }
