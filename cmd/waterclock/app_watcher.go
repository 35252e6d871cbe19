package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// watcher reads what the engine writes about one partition, from before a
// command on. On topic events the command's event names its location. On topic
// state the triggers stand as a turn left them, and then a progress record that
// says up to where commands are decided. Engine partition p writes partition p
// of both, in one transaction a turn. So a command without an event is seen to
// be decided, too.
//
// Topic state may be closed to whoever writes commands. Then the event alone
// is the answer.
type watcher struct {
	reader        *kgo.Client
	admin         *kadm.Client
	events, state string
	partition     int32

	blind bool // topic state cannot be read

	buffered []topics.Event // read, and not yet taken
	passed   int64          // events below it were read

	key    string         // of the trigger whose state is wanted
	offset int64          // of the command; negative until it is written
	before int64          // commands below it are decided
	left   *trigger.State // the trigger, as the newest turn up to the command's left it
}

// answer is what became of a command: its event, and the trigger then. Either
// may be nil.
type answer struct {
	event *topics.Event
	state *trigger.State
}

// newWatcher stands at the ends of a partition; nil without an event log.
func newWatcher(ctx context.Context, a *app, c *config.Config, admin *kadm.Client, p int32) (*watcher, error) {
	w := &watcher{admin: admin, events: c.Topic("events"), state: c.Topic("state"), partition: p}
	ends, err := admin.ListEndOffsets(ctx, w.events, w.state)
	if err != nil {
		return nil, fmt.Errorf("find the end of %s: %w", w.events, err)
	}
	end, ok := ends.Lookup(w.events, p)
	if !ok || end.Err != nil {
		a.note("there is no partition %d of %s, so nobody can say what became of the command", p, w.events)
		return nil, nil
	}
	w.passed = end.Offset
	from := map[string]map[int32]kgo.Offset{w.events: {p: kgo.NewOffset().At(end.Offset)}}
	if end, ok := ends.Lookup(w.state, p); ok && end.Err == nil {
		from[w.state] = map[int32]kgo.Offset{p: kgo.NewOffset().At(end.Offset)}
	} else {
		w.blind = true
	}
	w.reader, err = a.kafka(ctx, c, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(from))
	return w, err
}

func (w *watcher) close() {
	if w != nil {
		w.reader.Close()
	}
}

// await waits until a command is decided. The end of ctx is no error if
// something is known by then.
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
		if decided && asked.Op != trigger.OpRunNow { // a run's event may be its firing, which is a later turn's
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

// readAll says whether every event committed by now was read. Then none of
// them is the answer.
func (w *watcher) readAll(ctx context.Context) (bool, error) {
	ends, err := w.admin.ListCommittedOffsets(ctx, w.events)
	if err != nil {
		return false, fmt.Errorf("find the end of %s: %w", w.events, err)
	}
	end, _ := ends.Lookup(w.events, w.partition)
	return end.Err == nil && w.passed >= end.Offset, end.Err
}

// restOnEvents stops reading topic state: what follows is a wait for events.
func (w *watcher) restOnEvents() {
	w.reader.PauseFetchPartitions(map[string][]int32{w.state: {w.partition}})
}

// next reads on until an event fits.
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

// take goes through what was read, up to the first event that fits.
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
		// what is no event answers nothing
		if w.passed = r.Offset + 1; !r.Attrs.IsControl() && json.Unmarshal(r.Value, &e) == nil {
			w.buffered = append(w.buffered, e)
		}
	})
	return failed
}

// readState follows the trigger up to the turn that decides the command. A
// state of a newer engine, which cannot be read, is as good as none.
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
