package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// watcher reads what the engine writes about one partition, starting before a command. It reads
// two topics. On topic events, the event of the command names the location of the command. On
// topic state, each turn writes the triggers that it changed and then a progress record, which
// says up to which offset commands are decided. Partition p of both topics belongs to engine
// partition p, and each turn writes to both in one transaction. So the watcher also notices when
// a command without an event is decided.
//
// A user who may write commands may not be allowed to read topic state. Then the watcher relies
// on the event alone.
type watcher struct {
	reader        *kgo.Client
	admin         *kadm.Client
	events, state string
	partition     int32

	blind bool // topic state cannot be read

	buffered []topics.Event // events that were read but not taken yet
	passed   int64          // events below this offset were read

	key    string         // the trigger whose state is wanted
	offset int64          // offset of the command; negative until it is written
	before int64          // commands below this offset are decided
	left   *trigger.State // the trigger after the newest turn that does not go beyond the command
}

// answer is the outcome of a command: its event and the state of its trigger. Either may be nil.
type answer struct {
	event *topics.Event
	state *trigger.State
}

// newWatcher starts at the ends of a partition. It returns nil if there is no event log.
func newWatcher(ctx context.Context, a *app, c *config.Config, admin *kadm.Client, p int32) (*watcher, error) {
	w := &watcher{admin: admin, events: c.Topic("events"), state: c.Topic("state"), partition: p}
	ends, err := admin.ListEndOffsets(ctx, w.events, w.state)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", w.events, err)
	}
	end, ok := ends.Lookup(w.events, p)
	if !ok || end.Err != nil {
		a.note("topic %[2]s has no partition %[1]d, so the outcome of the command is unknown", p, w.events)
		return nil, nil
	}
	w.passed = end.Offset
	from := map[string]map[int32]kgo.Offset{w.events: {p: kgo.NewOffset().At(end.Offset)}}
	if end, ok := ends.Lookup(w.state, p); ok && end.Err == nil {
		from[w.state] = map[int32]kgo.Offset{p: kgo.NewOffset().At(end.Offset)}
	} else {
		w.blind = true
	}
	if w.reader, err = a.kafkaReader(ctx, c, kgo.ConsumePartitions(from)); err != nil {
		return nil, err // a watcher without a reader could not be closed
	}
	return w, nil
}

func (w *watcher) close() {
	if w != nil {
		w.reader.Close()
	}
}

// await waits until a command is decided. If ctx ends first, await returns no error as long as it
// has learned something.
func (w *watcher) await(ctx context.Context, asked wish, source string, offset int64) (o answer, err error) {
	w.key, w.offset = asked.Key, offset
	defer w.restOnEvents()
	for {
		if o.event == nil {
			o.event = w.take(func(e *topics.Event) bool { return answers(e, asked, source) })
		}
		decided := w.before > offset
		if o.state = w.left; o.event != nil && (decided || w.blind) {
			return o, nil
		}
		// The event of a run may be its firing, which a later turn writes.
		if decided && asked.Op != trigger.OpRunNow {
			if all, err := w.readAll(ctx); err != nil || all {
				return o, err
			}
		}
		if err := w.poll(ctx); err != nil {
			if ctx.Err() != nil && (o.event != nil || decided) {
				return o, nil
			}
			return o, err
		}
	}
}

// readAll reports whether every event committed so far has been read. If none of them is the
// answer, there is no event.
func (w *watcher) readAll(ctx context.Context) (bool, error) {
	ends, err := w.admin.ListCommittedOffsets(ctx, w.events)
	if err != nil {
		return false, fmt.Errorf("find the end of %s: %w", w.events, err)
	}
	end, _ := ends.Lookup(w.events, w.partition)
	return end.Err == nil && w.passed >= end.Offset, end.Err
}

// restOnEvents stops reading topic state, because the rest of the wait needs only events.
func (w *watcher) restOnEvents() {
	w.reader.PauseFetchPartitions(map[string][]int32{w.state: {w.partition}})
}

// next reads until an event fits.
func (w *watcher) next(ctx context.Context, fits func(*topics.Event) bool) (*topics.Event, error) {
	for {
		if e := w.take(fits); e != nil {
			return e, nil
		}
		if err := w.poll(ctx); err != nil {
			return nil, err
		}
	}
}

// take removes buffered events up to and including the first that fits, and returns that one.
func (w *watcher) take(fits func(*topics.Event) bool) *topics.Event {
	for len(w.buffered) > 0 {
		e := w.buffered[0]
		w.buffered = w.buffered[1:]
		if fits(&e) {
			return &e
		}
	}
	return nil
}

func (w *watcher) poll(ctx context.Context) error {
	fetches := w.reader.PollFetches(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	var failed error
	fetches.EachError(func(topic string, _ int32, err error) {
		if topic == w.state {
			w.blind = true
			w.restOnEvents()
			return
		}
		failed = fmt.Errorf("read the event log: %w", err)
	})
	fetches.EachRecord(func(r *kgo.Record) {
		if r.Topic == w.state {
			w.readState(r)
			return
		}
		var e topics.Event
		// Skip records that are not events.
		if w.passed = r.Offset + 1; !r.Attrs.IsControl() && json.Unmarshal(r.Value, &e) == nil {
			w.buffered = append(w.buffered, e)
		}
	})
	return failed
}

// readState follows the trigger up to the turn that decides the command. It ignores a state that
// a newer engine wrote in a format that this version cannot read.
func (w *watcher) readState(r *kgo.Record) {
	switch {
	case r.Attrs.IsControl() || w.before > w.offset:
	case bytes.Equal(r.Key, topics.KeyProgress):
		if p, err := topics.DecodeProgress(r.Value); err == nil {
			w.before = p.NextCommand
		}
	case string(r.Key) == w.key:
		w.left, _ = topics.DecodeState(trigger.Key(r.Key), r.Value)
	}
}
