package check

import (
	"fmt"

	"github.com/waterclock/waterclock/schemas/statepb"
	"google.golang.org/protobuf/proto"
)

// worker replays triggers one by one.
type worker struct {
	v        *verifier
	triggers int64
	live     int64
	fired    int64
	late     *lateness
	faulty   *lateness
	skipped  map[string]int64
	trusted  map[string]int64
	clocks   map[string]*clockwork
	holidays map[holidaysKey]*holidays
}

func (w *worker) run(index []entry) {
	if w.late == nil {
		w.late, w.faulty, w.skipped, w.trusted = newLateness(), newLateness(), map[string]int64{}, map[string]int64{}
	}
	for len(index) > 0 {
		n := 1
		for n < len(index) && index[n].hash == index[0].hash {
			n++
		}
		w.group(index[:n])
		index = index[n:]
	}
}

func (w *worker) report() {
	if w.late == nil {
		return
	}
	v := w.v
	v.late.add(w.late)
	v.faulty.add(w.faulty)
	v.mu.Lock()
	defer v.mu.Unlock()
	v.report.Triggers += w.triggers
	v.report.Live += w.live
	v.report.Fired += w.fired
	for k, n := range w.skipped {
		v.report.Skipped[k] += n
	}
	for k, n := range w.trusted {
		v.report.Trusted[k] += n
	}
}

// group replays the records of one hash, which is nearly always one trigger.
func (w *worker) group(index []entry) {
	var first *life
	var others map[string]*life
	for _, e := range index {
		var r Record
		f := w.v.h.files[e.file()]
		if err := f.recordAt(e.pos(), &r); err != nil {
			panic(fmt.Sprintf("check: %s/%d: a record was there and is gone: %v", f.Topic, f.Partition, err))
		}
		key := triggerKey(f.kind, &r)
		t := first
		switch {
		case first == nil:
			first = w.newLife(string(key))
			t = first
		case string(key) != first.key:
			if others == nil {
				others = map[string]*life{}
			}
			if t = others[string(key)]; t == nil {
				t = w.newLife(string(key))
				others[t.key] = t
			}
		}
		t.take(f, &r)
	}
	first.judge()
	for _, t := range others {
		t.judge()
	}
}

// life holds all records of one trigger, and the model that replays them.
type life struct {
	w    *worker
	v    *verifier
	o    *Options
	key  string
	home int32
	part *partition

	commands []*command // commands on the home partition in order, without copies
	strays   []*command // commands on other partitions
	receipts []receipt
	events   []event
	dues     []due
	dead     []due
	refused  []refusal
	lastRaw  []byte // newest state; nil: none, or forgotten
	lastAt   location
	tombs    []int64 // times of tombstones on topic state
	states   int
	failed   int
	now      int64 // append time of the event that is replayed; 0: none

	emitted map[emission]*due

	model
}

func (w *worker) newLife(key string) *life {
	t := &life{w: w, v: w.v, o: &w.v.o, key: key, home: partitionOf([]byte(key), w.v.h.Partitions)}
	t.part = &w.v.parts[t.home]
	t.reset()
	return t
}

// take decodes a record of the trigger.
func (t *life) take(f *File, r *Record) {
	at := location{f.Partition, r.Offset}
	switch f.kind {
	case kindCommands:
		c := decodeCommand(r, f.Partition)
		if f.Partition == t.home {
			t.commands = append(t.commands, c)
		} else {
			t.strays = append(t.strays, c)
		}
	case kindReceipts:
		t.receipts = append(t.receipts, decodeReceipt(r, f.Partition))
	case kindEvents:
		t.events = append(t.events, event{})
		e := &t.events[len(t.events)-1]
		if err := decodeEvent(r.Value, e); err != nil {
			t.events = t.events[:len(t.events)-1]
			t.fail(Illegal, []string{f.Topic + "/" + at.String()}, "the event cannot be read: %v", err)
			return
		}
		e.at, e.append = at, r.Timestamp
		if f.Partition != t.home && !refusedAstray(e) {
			t.fail(Illegal, []string{f.Topic + "/" + at.String()}, "an event of partition %d stands on %d", t.home,
				f.Partition)
		}
	case kindDue:
		var d due
		if bad := decodeDue(r, &d); bad != "" {
			t.fail(Phantom, []string{f.Topic + "/" + at.String()},
				"header %s of a due event is missing or cannot be read", bad)
			return
		}
		d.topic, d.at = f.Topic, at
		t.dues = append(t.dues, d)
	case kindRejected:
		x := decodeRefusal(r, f.Partition)
		t.refused = append(t.refused, x)
	case kindDeadLetter:
		var d due
		_ = decodeDue(r, &d)
		d.topic, d.at = f.Topic, at
		t.dead = append(t.dead, d)
	case kindState:
		t.takeState(r, at)
	}
}

// refusedAstray reports whether an event refuses a command on the wrong partition, because it
// could not be forwarded.
func refusedAstray(e *event) bool {
	_, at, ok := sourceOf(e.source)
	return e.kind == evRejected && ok && at.partition == e.at.partition
}

// takeState keeps the newest state, and the times of tombstones.
func (t *life) takeState(r *Record, at location) {
	t.states++
	t.lastAt, t.lastRaw = at, r.Value
	if r.Value == nil {
		t.tombs = append(t.tombs, r.Timestamp)
	}
}

// lastState decodes the newest state. It returns nil if there is none.
func (t *life) lastState() *statepb.State {
	if t.lastRaw == nil {
		return nil
	}
	s := &statepb.State{}
	if err := proto.Unmarshal(t.lastRaw, s); err != nil {
		t.fail(NotTheFold, t.stateRecord(), "its state cannot be read: %v", err)
		return nil
	}
	return s
}

func (t *life) stateRecord() []string {
	return []string{t.v.h.Prefix + "state/" + t.lastAt.String()}
}

func (t *life) fail(class Class, records []string, format string, args ...any) {
	t.failed++
	t.v.add(t, Violation{
		Class: class, Trigger: t.key, Partition: t.home, Records: records,
		Sentence: fmt.Sprintf(format, args...),
	})
}
