package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"sync"
)

// verifier is one run of Verify.
type verifier struct {
	h     *History
	o     Options
	fates []*fates
	parts []partition
	end   int64 // ms; end of the judged history
	full  int64 // ms; every topic has all records appended until then

	mu     sync.Mutex
	report *Report
	late   *lateness // outside of faults
	faulty *lateness // during faults
	bytes  int64     // read so far
	total  int64
	byKey  map[string]bool // due topics that are partitioned by key
	topics map[string]bool // topics in the dump
	stalls map[int32][]stall

	puts      []calendarPut
	putsKnown bool // from the beginning of topic control
}

// partition is what is known of an engine partition as a whole.
type partition struct {
	applied   int64 // commands below this offset were decided
	receipts  int64 // receipts below this offset were decided
	lastTurn  int64 // clock of the newest turn, or newest append if turns are unknown
	from      int64 // first command offset in the dump
	fromEvent int64 // first event offset in the dump
	begun     bool  // the dump has the partition's history from its beginning
	stuck     bool
	settings  []settingsTurn
	turned    bool       // settings is known
	compacted [][2]int64 // command offsets that compaction may have removed: [from, to)
}

// stall is a foreign producer's transaction on topic commands. It hides later records while it is
// open.
type stall struct{ from, to, begin, end int64 } // offsets, instants

// Verify replays a history and reports the violations. An error means that it could not be
// judged, not that it has violations.
func Verify(h *History, o Options) (*Report, error) {
	v := &verifier{
		h: h, o: o.withDefaults(), late: newLateness(), faulty: newLateness(), byKey: map[string]bool{},
		topics: map[string]bool{},
		stalls: map[int32][]stall{},
		report: &Report{
			Counts: map[Class]int64{}, Skipped: map[string]int64{}, Trusted: map[string]int64{},
			Violations: []Violation{},
		},
	}
	if len(h.files) > 1<<16 {
		return nil, fmt.Errorf("%d topic partitions are more than the checker can index (65,536)", len(h.files))
	}
	if err := v.scan(); err != nil {
		return nil, err
	}
	v.acks()
	v.readPuts()
	for p := range v.parts {
		v.turns(int32(p))
		v.watermarks(int32(p))
	}
	v.nameless()
	v.replay()
	if err := v.stopped(); err != nil {
		return nil, err
	}
	v.finish()
	return v.report, nil
}

func (v *verifier) finish() {
	r := v.report
	r.NoFaults, r.InFaults = v.late.quantiles(), v.faulty.quantiles()
	v.late.add(v.faulty)
	r.Lateness = v.late.quantiles()
	slices.SortStableFunc(r.Violations, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(classRank(a.Class), classRank(b.Class)), cmp.Compare(a.Trigger, b.Trigger))
	})
	slices.Sort(r.Notes)
	r.Notes = slices.Compact(r.Notes)
}

func classRank(c Class) int {
	return slices.IndexFunc(Classes, func(k struct {
		Class Class
		Means string
	},
	) bool {
		return k.Class == c
	})
}

// scan reads every file once and finds out which part can be judged.
func (v *verifier) scan() error {
	v.parts = make([]partition, v.h.Partitions)
	for _, f := range v.h.files {
		v.total += 3 * int64(len(f.bytes))
	}
	last, asked := int64(0), int64(0)
	for _, f := range v.h.files {
		if err := v.stopped(); err != nil {
			return err
		}
		v.topics[f.Topic] = true
		ft, err := f.readFates()
		if err != nil {
			return fmt.Errorf("read dump: %w", err)
		}
		v.fates = append(v.fates, ft)
		v.report.Records += ft.records
		if f.kind == kindReceipts || f.kind >= kindControl {
			ft.last = 0
		}
		last = max(last, ft.last)
		if f.AskedAt > 0 && (asked == 0 || f.AskedAt < asked) {
			asked = f.AskedAt
		}
		v.begins(f, ft)
		v.progress(len(f.bytes))
	}
	v.end = cmp.Or(v.o.End, asked, last)
	v.full = v.end - v.o.Unread.Milliseconds()
	return nil
}

// begins notes the first offsets of a partition's commands and events, and where foreign
// transactions held commands back.
func (v *verifier) begins(f *File, ft *fates) {
	if int(f.Partition) >= len(v.parts) {
		return
	}
	p := &v.parts[f.Partition]
	switch f.kind {
	case kindCommands:
		p.from = f.Start
		v.holes(f, ft)
		v.findStalls(f, ft)
	case kindEvents:
		p.fromEvent = f.Start
	case kindState:
	}
	if f.Start > 0 && (f.kind == kindCommands || f.kind == kindEvents) {
		v.note("%s/%d begins at offset %d: triggers from before are judged from their next register on", f.Topic,
			f.Partition, f.Start)
	}
}

// holes notes missing offsets of commands. Compaction keeps records younger than its lag (7 d),
// so a hole among younger ones is a loss.
func (v *verifier) holes(f *File, ft *fates) {
	lag := v.o.CompactionLag.Milliseconds()
	if len(ft.holes) == 0 {
		return
	}
	c := newCursor(f, ft)
	oldest := int64(0)
	if c.next() {
		oldest = c.rec.Timestamp
	}
	n := int64(0)
	for _, h := range ft.holes {
		n += h[1] - h[0]
	}
	if ft.last-oldest < lag {
		v.add(nil, Violation{
			Class: LostAck, Partition: f.Partition, Records: []string{fmt.Sprintf("%s/%d/%d", f.Topic,
				f.Partition, ft.holes[0][0])},
			Sentence: fmt.Sprintf(
				"%d offsets of commands are missing from %d on, and nothing there is old enough to be compacted", n,
				ft.holes[0][0]),
		})
		return
	}
	v.parts[f.Partition].compacted = ft.holes
	v.skip("command offsets that are missing (compacted before they were recorded)", n)
}

// mayBeCompacted reports whether compaction may have removed a missing command.
func (v *verifier) mayBeCompacted(at location) bool {
	if int(at.partition) >= len(v.parts) {
		return false
	}
	holes := v.parts[at.partition].compacted
	i := sort.Search(len(holes), func(i int) bool { return holes[i][1] > at.offset })
	return i < len(holes) && holes[i][0] <= at.offset
}

// findStalls finds the transactions of producers on topic commands.
func (v *verifier) findStalls(f *File, ft *fates) {
	if len(ft.markers) == 0 {
		return
	}
	open := map[int64]stall{}
	var r Record
	for pos := 0; pos < ft.end; {
		body, after, err := unchecked(f.bytes, pos)
		if err != nil || decodeBody(body, &r) != nil {
			return
		}
		pos = after
		s, is := open[r.ProducerID]
		switch {
		case r.Kind == InTxn && !is:
			open[r.ProducerID] = stall{from: r.Offset, begin: r.Timestamp}
		case r.Kind >= CommitMarker && is:
			s.to, s.end = r.Offset, r.Timestamp
			v.stalls[f.Partition] = append(v.stalls[f.Partition], s)
			delete(open, r.ProducerID)
		}
	}
	for _, s := range open {
		s.to, s.end = 1<<62, 1<<62
		v.stalls[f.Partition] = append(v.stalls[f.Partition], s)
	}
}

// stalled reports whether another producer's open transaction may have hidden a command at an
// instant.
func (v *verifier) stalled(p int32, offset, at int64) bool {
	for _, s := range v.stalls[p] {
		if s.from <= offset && offset <= s.to && s.end > at {
			return true
		}
	}
	return false
}

// acks checks the commands whose acknowledgement clients got (C1).
func (v *verifier) acks() {
	if len(v.o.Acks) == 0 {
		return
	}
	wanted := map[location]*Ack{}
	for i := range v.o.Acks {
		a := &v.o.Acks[i]
		wanted[location{a.Partition, a.Offset}] = a
	}
	for i, f := range v.h.files {
		if f.kind != kindCommands {
			continue
		}
		for c := newCursor(f, v.fates[i]); c.next(); {
			at := location{f.Partition, c.rec.Offset}
			a := wanted[at]
			if a == nil {
				continue
			}
			delete(wanted, at)
			if string(c.rec.Key) != a.Key || a.Value != nil && string(a.Value) != string(c.rec.Value) {
				v.add(nil, Violation{
					Class: LostAck, Trigger: a.Key, Partition: f.Partition,
					Records:  []string{fmt.Sprintf("%s/%s", f.Topic, at)},
					Sentence: "another record stands where this command was acknowledged",
				})
			}
		}
	}
	for at, a := range wanted {
		if int(at.partition) < len(v.parts) && at.offset < v.parts[at.partition].from {
			v.skip("acknowledged commands from before the dump", 1)
			continue
		}
		if v.mayBeCompacted(at) {
			v.skip("acknowledged commands that may be compacted", 1)
			continue
		}
		v.add(nil, Violation{
			Class: LostAck, Trigger: a.Key, Partition: a.Partition,
			Records:  []string{v.h.Prefix + "commands/" + at.String()},
			Sentence: "this command was acknowledged, and readers of committed records do not find it",
		})
	}
}

// replay replays all triggers, in parts that fit into memory.
func (v *verifier) replay() {
	bits := uint(0)
	for share := range uint64(1 << bits) {
		var index []entry
		index, bits = v.index(share, bits)
		v.report.IndexBytes = max(v.report.IndexBytes, int64(cap(index))*16)
		v.triggers(index)
	}
	v.report.Shares = 1 << bits
}

// index collects the records of a part of the triggers. If the first part is too large, its size
// is halved.
func (v *verifier) index(share uint64, bits uint) ([]entry, uint) {
	most := max(1024, int(v.o.Memory/16))
	room := min(int64(most), v.report.Records>>bits+v.report.Records>>(bits+4)+16)
	out := make([]entry, 0, room)
	mask := uint64(1)<<bits - 1
	for i, f := range v.h.files {
		if f.kind > kindState || v.stopped() != nil {
			continue
		}
		for c := newCursor(f, v.fates[i]); c.next(); {
			if f.kind == kindState && reservedKey(c.rec.Key) || isNameless(f.kind, &c.rec) {
				continue
			}
			h := hashKey(triggerKey(f.kind, &c.rec))
			if h&mask != share {
				continue
			}
			if len(out) >= most && share == 0 && bits < 16 {
				bits++
				mask = uint64(1)<<bits - 1
				out = slices.DeleteFunc(out, func(e entry) bool { return e.hash&mask != 0 })
				if h&mask != 0 {
					continue
				}
			}
			out = append(out, entry{h, uint64(i)<<48 | uint64(c.loc)})
		}
		v.progress(len(f.bytes))
	}
	return out, bits
}

// triggers replays every trigger of an index.
func (v *verifier) triggers(index []entry) {
	slices.SortFunc(index, func(a, b entry) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return cmp.Compare(a.loc, b.loc)
	})
	workers := max(1, v.o.Workers)
	cuts := make([]int, 0, workers*8+1)
	for i := range workers*8 + 1 {
		at := len(index) * i / (workers * 8)
		for at > 0 && at < len(index) && index[at].hash == index[at-1].hash {
			at++
		}
		cuts = append(cuts, at)
	}
	work := make(chan []entry)
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			w := &worker{v: v}
			for part := range work {
				w.run(part)
			}
			w.report()
		})
	}
	for i := 1; i < len(cuts); i++ {
		if cuts[i] > cuts[i-1] && v.stopped() == nil {
			work <- index[cuts[i-1]:cuts[i]]
		}
	}
	close(work)
	wg.Wait()
}

// stopped is the error with which the caller ends the check, or nil.
func (v *verifier) stopped() error {
	if v.o.Stop == nil {
		return nil
	}
	return v.o.Stop()
}

// add stores a violation with the trigger's timeline, up to the limit.
func (v *verifier) add(t *life, x Violation) {
	v.mu.Lock()
	v.report.Counts[x.Class]++
	keep := len(v.report.Violations) < v.o.Limit
	v.mu.Unlock()
	if !keep {
		return
	}
	if t != nil {
		x.Timeline = t.timeline()
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Violations = append(v.report.Violations, x)
}

func (v *verifier) skip(what string, n int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Skipped[what] += n
}

func (v *verifier) note(format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) progress(n int) {
	v.mu.Lock()
	v.bytes = min(v.bytes+int64(n), v.total)
	done := v.bytes
	v.mu.Unlock()
	if v.o.Progress != nil {
		v.o.Progress(done, v.total)
	}
}

// lateness is a histogram whose buckets grow by a tenth.
type lateness struct {
	mu  sync.Mutex
	n   map[int64]int64
	all int64
	max int64

	within []int64 // exact, by LatenessBounds
}

func newLateness() *lateness {
	return &lateness{n: map[int64]int64{}, within: make([]int64, len(LatenessBounds)+1)}
}

func (l *lateness) add(other *lateness) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for k, n := range other.n {
		l.n[k] += n
	}
	for i, n := range other.within {
		l.within[i] += n
	}
	l.all += other.all
	l.max = max(l.max, other.max)
}

func (l *lateness) note(ms int64) {
	ms = max(0, ms)
	bucket := ms
	for scale := int64(1); bucket >= 100; scale *= 10 {
		if ms/scale < 100 {
			bucket = ms / scale * scale
			break
		}
	}
	l.n[bucket]++
	class, _ := slices.BinarySearch(LatenessBounds, ms)
	l.within[class]++
	l.all++
	l.max = max(l.max, ms)
}

func (l *lateness) quantiles() Lateness {
	keys := make([]int64, 0, len(l.n))
	for k := range l.n {
		keys = append(keys, k)
	}
	sort.Slice(keys, func(i, j int) bool { return keys[i] < keys[j] })
	out := Lateness{Max: l.max, Count: l.all, Within: slices.Clone(l.within)}
	seen := int64(0)
	for _, k := range keys {
		seen += l.n[k]
		if out.P50 == 0 && seen*2 >= l.all {
			out.P50 = k
		}
		if seen*100 >= l.all*99 {
			out.P99 = k
			break
		}
	}
	return out
}
