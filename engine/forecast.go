package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Pictures of what owned partitions expect. One goroutine for each frame walks the states of one
// partition after another and rests in between, so that both together take at most 5 % of a core.
// A picture is made anew so early that it is done before the old one is `oldest` old, or as soon as
// it cost so little that the effort is below a half percent. Where a round over all partitions
// takes longer than half of `oldest`, pictures get older: the share of a core does not grow.

// painter makes the pictures of one frame.
type painter struct {
	e     *Engine
	frame int

	rest   int           // for each unit of work, this many units of rest
	least  time.Duration // a picture is kept at least so long …
	oldest time.Duration // … and replaced before it is so old
	kept   map[*ownership]paintedAt
	draw   func(context.Context, *ownership) (_ *forecast.Picture, work time.Duration, err error)
}

// paintedAt is when the picture of a partition was begun, and what it cost.
type paintedAt struct {
	begun      time.Time
	work, took time.Duration // took has the rests in it
}

// next is when a picture is to be begun anew. Before its turn come all others, so what all of them took goes off its
// age.
func (p *painter) next(own *ownership, all time.Duration) time.Time {
	at, ok := p.kept[own]
	if !ok {
		return time.Time{}
	}
	return at.begun.Add(min(max(paintWorth*at.work, p.least), p.oldest-all))
}

// allTook is how long it took to make the pictures that are kept.
func (p *painter) allTook() (all time.Duration) {
	for _, at := range p.kept {
		all += at.took
	}
	return all
}

// How many triggers are visited, and for how long, before others go first.
const (
	paintChunk = 256
	paintTime  = 2 * time.Millisecond
	paintEvery = 200 * time.Millisecond // how often it is checked what is to be made
	paintWorth = 200                    // a picture is made anew after so many times the work that it was
)

// KeepForecasts keeps the pictures until ctx ends.
func (e *Engine) KeepForecasts(ctx context.Context) error {
	var all sync.WaitGroup
	for i, p := range []*painter{
		{rest: 49, least: time.Second, oldest: 45 * time.Second},
		{rest: 32, least: 5 * time.Second, oldest: 12 * time.Minute},
	} {
		p.e, p.frame, p.kept, p.draw = e, i, map[*ownership]paintedAt{}, p.paint
		all.Go(func() { wait.Every(ctx, paintEvery, func() { p.round(ctx) }) })
	}
	all.Wait()
	return nil
}

// round makes the pictures that are due to be made.
func (p *painter) round(ctx context.Context) {
	p.e.mu.Lock()
	owned := maps.Clone(p.e.owned)
	p.e.mu.Unlock()
	kept := make(map[*ownership]paintedAt, len(owned))
	for _, own := range owned {
		if at, ok := p.kept[own]; ok {
			kept[own] = at
		}
	}
	p.kept = kept
	all := p.allTook()
	for _, id := range slices.Sorted(maps.Keys(owned)) {
		own, begun := owned[id], time.Now()
		if ctx.Err() != nil || begun.Before(p.next(own, all)) {
			continue
		}
		picture, work, err := p.draw(ctx, own)
		if err != nil { // the partition moves, or its store is damaged and opens anew
			continue
		}
		own.expects[p.frame].Store(picture)
		p.kept[own] = paintedAt{begun: begun, work: work, took: time.Since(begun)}
		all = p.allTook()
	}
}

// paint walks the states of a partition, of the minutes only those that have a timer within
// them: a trigger's home is its earliest timer.
func (p *painter) paint(ctx context.Context, own *ownership) (_ *forecast.Picture, work time.Duration, err error) {
	v, _ := own.get()
	if v == nil {
		return nil, 0, pipeline.ErrNotOwner // it opens
	}
	sn, err := v.Snapshot()
	if err != nil {
		return nil, 0, err
	}
	defer sn.Close()
	now, frame := p.e.process.Now().UnixMilli(), forecast.Frames[p.frame]
	scan := painting{
		machine: p.e.process.Machine, builder: forecast.NewBuilder(frame, now),
		end: trigger.Instant(frame.EndOf(now)) - 1,
	}
	scan.machine.Timetable = p.e.process.Timetable()
	for !scan.done {
		begun := time.Now()
		if err := scan.chunk(sn, begun); err != nil {
			return nil, 0, err
		}
		took := time.Since(begun)
		work += took
		if wait.For(ctx, took*time.Duration(p.rest)); ctx.Err() != nil {
			return nil, 0, ctx.Err()
		}
	}
	return scan.builder.Picture(), work, nil
}

// painting is a picture under way.
type painting struct {
	machine trigger.Machine
	builder *forecast.Builder
	end     trigger.Instant

	at    statestore.Home // where to go on
	done  bool
	state trigger.State
}

// chunk visits some triggers.
func (s *painting) chunk(sn *statestore.Snapshot, begun time.Time) error {
	s.done = true
	n := 0
	var bad error
	err := sn.ScanHomes(s.at, func(at statestore.Home, key trigger.Key, value []byte) bool {
		if at.Here != "" || at.Due.Due > s.end {
			return false // paused, or after all that is counted
		}
		s.at = at
		if bad = topics.DecodeStateInto(&s.state, key, value); bad != nil {
			return false
		}
		s.visit()
		if n++; n == paintChunk || time.Since(begun) > paintTime {
			s.done = false
		}
		return s.done
	})
	return errors.Join(err, bad)
}

func (s *painting) visit() {
	spec := &s.state.Spec
	k := forecast.Key{Tenant: s.state.Key.Tenant(), Channel: spec.Channel, Priority: spec.Priority.String()}
	s.machine.Expect(&s.state, s.end, func(nominal, due trigger.Instant) bool {
		s.builder.Add(k, int64(nominal), int64(due))
		return true
	})
}

// Forecast answers from the picture of an owned partition.
func (e *Engine) Forecast(partition int32, q forecast.Query) (forecast.Answer, error) {
	if _, err := e.partition(partition); err != nil {
		return forecast.Answer{}, err
	}
	e.mu.Lock()
	own := e.owned[partition]
	e.mu.Unlock()
	if own == nil {
		return forecast.Answer{}, pipeline.ErrNotOwner
	}
	picture := own.expects[q.Frame].Load()
	if picture == nil {
		return forecast.Answer{}, &trigger.Error{
			Code: trigger.CodeNotOwner, Msg: "the partition has not counted its occurrences yet; try again",
		}
	}
	return picture.Answer(q), nil
}
