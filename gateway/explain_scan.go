package gateway

import (
	"context"
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
// unknown. It is bounded in time by ctx, and in records for all scans of a request together. It returns how many
// records it read.
func (s *explanations) scan(
	ctx context.Context, of *read, key trigger.Key, in *explain.Input, waits bool,
) (n int) {
	in.Events, in.Missing, in.Scanned = nil, 0, 0
	if saysAll(in) {
		return 0
	}
	in.Now = trigger.At(s.now())
	for {
		in.Events = nil
		in.Scanned = s.events.backwards(ctx, of, key, func(older []topics.Event) (enough bool) {
			in.Events = append(older, in.Events...)
			in.Events = in.Events[max(0, len(in.Events)-explainFurther):]
			return len(in.Events) == explainFurther || len(in.Events) > 0 && !explain.Undecided(in)
		})
		n += int(in.Scanned)
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
// until visit has enough. What an error cuts short is left out, so that there is no gap. It returns how many records
// it read. After an error the request reads no further trigger so: it would wait for Kafka once more.
func (h *eventLog) backwards(
	ctx context.Context, of *read, key trigger.Key, visit func(older []topics.Event) (enough bool),
) int64 {
	p := backward{partition: h.router.PartitionOf(key)}
	if of.leftBack() <= 0 {
		return 0
	}
	var err error
	if p.first, p.from, err = h.records.between(ctx, p.partition, 0, 0, -1); err != nil {
		of.back.Add(backwardRecords)
		return 0
	}
	for n := int64(leastScanned); p.from > p.first && p.bytes < backwardBytes; n = min(2*n, mostScanned) {
		before := p.visited
		if n = min(n, of.leftBack()); n <= 0 {
			break
		}
		var found []topics.Event
		err := p.more(ctx, n, h.records.read, func(r *kgo.Record) {
			if string(r.Key) != string(key) {
				return
			}
			if e, err := topics.DecodeEvent(r.Value); err == nil {
				e.Payload, e.PayloadBase64 = nil, ""
				found = append(found, e)
			}
		})
		of.back.Add(p.visited - before)
		if err != nil {
			of.back.Add(backwardRecords)
			break
		}
		if visit(slices.Clip(found)) {
			break
		}
	}
	return p.visited
}

// leftBack is how many records this request may still read from the end of a topic.
func (r *read) leftBack() int64 {
	most := int64(backwardRecords)
	if r.of.visits > 0 {
		most = min(most, r.of.visits)
	}
	return most - r.back.Load()
}
