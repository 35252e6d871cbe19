package broker

import (
	"context"
	"path/filepath"
)

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
			r.ended[endedTxn{pid, open.epoch}] = commit
			if commit {
				commits++
			} else {
				aborts++
			}
		}
	}
	if commits+aborts > 0 {
		r.log.Info("ended transactions that were open when the broker stopped", "committed", commits, "aborted", aborts)
	}
	return nil
}

// decided says whether an open transaction of one partition was committed:
// an outcome says so that lists the partition, was written behind the data,
// and was not taken back.
func (r *repairer) decided(p *part, pid int64, open *openData) bool {
	for i := len(r.outcomes) - 1; i >= 0; i-- {
		o := &r.outcomes[i]
		if o.pid != pid || o.epoch != open.epoch {
			continue
		}
		if o.kind == kindAbort {
			return false
		}
		end, ok := o.tail(p)
		if ok && open.at.before(end) {
			return !r.refuted(o)
		}
		return false
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
// transaction after all: its timeout ran out between our writing and kfake's
// reading. Then one of its partitions has an ABORT marker where the COMMIT
// marker belongs, or pids.log has the timeout. Or kfake never heard of it.
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
	return r.ahead(o) || r.timedOut(o)
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

func (r *repairer) timedOut(o *outcome) bool {
	entries, _, err := loadLog[pidEntry](filepath.Join(r.data, "pids.log"))
	if err != nil {
		return false // restoreProducers reports it
	}
	for _, e := range entries {
		if e.Type == "timeout" && e.PID == o.pid && e.Epoch == o.epoch+1 {
			return true
		}
	}
	return false
}

// takenBack says whether an abort follows outcome i.
func (r *repairer) takenBack(i int) bool {
	for _, o := range r.outcomes[i+1:] {
		if o.kind == kindAbort && o.pid == r.outcomes[i].pid && o.epoch == r.outcomes[i].epoch {
			return true
		}
	}
	return false
}
