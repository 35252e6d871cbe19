package gateway

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// How many offsets are read at once: few at first, because what people ask about is often new.
const (
	leastScanned = 256
	mostScanned  = 4096
)

// scan reads the newest events of a trigger where no history is kept: from topic events, from its end towards its
// beginning, until one of them says what became of the trigger. Without it a worker's decision not to send would be
// unknown. It is bounded in time by ctx, and in records and bytes for all scans of a request together. What was found
// before stays where a scan finds nothing: it may not have been let as far. It returns what it cost, in visits.
func (s *explanations) scan(
	ctx context.Context, of *read, key trigger.Key, in *explain.Input, waits bool,
) (n int) {
	in.Missing, in.Operator = 0, of.cost.Operator
	if saysAll(in) {
		in.Events, in.Scanned = nil, 0
		return 0
	}
	in.Now = trigger.At(s.now())
	for {
		before, scanned := in.Events, in.Scanned
		in.Events = nil
		p := s.events.backwards(ctx, of, key, func(older []topics.Event) (enough bool) {
			in.Events = append(older, in.Events...)
			in.Events = in.Events[max(0, len(in.Events)-explainFurther):]
			return len(in.Events) == explainFurther || len(in.Events) > 0 && !explain.Undecided(in)
		})
		n += int(p.cost())
		if in.Scanned = p.visited; len(in.Events) == 0 {
			in.Events, in.Scanned = before, max(scanned, p.visited)
		}
		if len(in.Events) > 0 {
			in.Missing = missing(in.State, in.Events)
		}
		if in.Missing == 0 || !waits {
			return n
		}
		select {
		case <-ctx.Done():
			return n
		case <-time.After(explainRecheck):
		}
	}
}

// saysAll reports whether the state alone says what became of a trigger: nothing yet.
func saysAll(in *explain.Input) bool {
	s := in.State
	return s != nil && in.Occurrence == "" && (s.Status == trigger.Pending || s.Status == trigger.Paused) &&
		!s.Recurring() && len(s.Live) == 0 && len(s.Done) == 0
}

// backwards passes the events of a trigger on topic events to visit, without their payloads, the newest part first,
// until visit has enough. What an error cuts short is left out, so that there is no gap. It returns what it read. After
// an error the request reads no further trigger so: it would wait for Kafka once more.
func (h *eventLog) backwards(
	ctx context.Context, of *read, key trigger.Key, visit func(older []topics.Event) (enough bool),
) *backward {
	p := &backward{partition: h.router.PartitionOf(key)}
	if records, _ := of.leftBack(); records <= 0 {
		return p
	}
	var err error
	if p.first, p.from, err = h.records.between(ctx, p.partition, 0, 0, -1); err != nil {
		of.back.Add(backwardRecords)
		return p
	}
	h.backOf(ctx, of, p, key, h.records.read, visit)
	return p
}

// backOf is backwards of a part of a partition.
func (h *eventLog) backOf(
	ctx context.Context, of *read, p *backward, key trigger.Key, read readRecords,
	visit func(older []topics.Event) (enough bool),
) {
	for n := int64(leastScanned); p.from > p.first; n = min(2*n, mostScanned) {
		records, bytes := of.leftBack()
		until, visited, had := p.from, p.visited, p.bytes
		if p.most = had + bytes; visited == 0 { // how large they are is not known yet
			p.most = had + bytes/2
		} else if had > 0 {
			n = min(n, bytes*visited/had)
		}
		if n = min(n, records); n <= 0 || bytes <= 0 {
			break
		}
		var found []topics.Event
		err := p.more(ctx, n, read, func(r *kgo.Record) {
			if string(r.Key) != string(key) {
				return
			}
			if e, err := topics.DecodeEvent(r.Value); err == nil {
				e.Payload, e.PayloadBase64 = nil, ""
				found = append(found, e)
			}
		})
		of.back.Add(p.visited - visited)
		of.backBytes.Add(p.bytes - had)
		if visited == 0 && errors.Is(err, errMostBytes) {
			p.from = until // anew, fewer of them
			continue
		}
		if err != nil {
			of.back.Add(backwardRecords)
			break
		}
		if visit(slices.Clip(found)) {
			break
		}
	}
}

// leftBack is how many records, and bytes, this request may still read from the end of a topic.
func (r *read) leftBack() (records, bytes int64) {
	records = backwardRecords
	if r.of.visits > 0 {
		records = min(records, r.of.visits)
	}
	return records - r.back.Load(), backwardBytes - r.backBytes.Load()
}
