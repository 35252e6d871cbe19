package cassandra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
)

// Apply writes the batch's rows, many at a time and in no order: their write
// timestamps are the order. Erasures come last, when what they blank is there.
func (s *Store) Apply(ctx context.Context, batch []sinks.EventRecord) error {
	w := s.fold(batch)
	return s.do(ctx, "apply", func(session *gocql.Session) error {
		if err := s.runAll(ctx, session, w.statements); err != nil {
			return err
		}
		for _, e := range w.erased {
			if err := s.erase(ctx, session, e); err != nil {
				return fmt.Errorf("erase: %w", err)
			}
		}
		return s.runAll(ctx, session, w.progress(s.opts.Topic))
	})
}

// statement is one prepared write.
type statement struct {
	cql  string
	args []any
}

// runAll runs statements with bounded concurrency and stops at the first error.
func (s *Store) runAll(ctx context.Context, session *gocql.Session, all []statement) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.opts.Concurrency, len(all)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(all)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := s.run(ctx, session, all[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// run executes one statement. A row that the server refuses for what is in it
// is logged and left out, or it would hold its partition up for ever; but only
// once the same statement has worked for other rows, as else it is the schema
// that is wrong.
func (s *Store) run(ctx context.Context, session *gocql.Session, st statement) error {
	q := session.Query(st.cql, st.args...).WithContext(ctx)
	defer q.Release()
	err := q.Exec()
	if err == nil {
		s.proven.LoadOrStore(st.cql, true)
		return nil
	}
	if _, proven := s.proven.Load(st.cql); proven && refused(err) {
		s.opts.Logger.Error("history: Cassandra refuses a row; left out", "err", err, "key", st.args[len(st.args)-2:])
		s.opts.Refused(err)
		return nil
	}
	return err
}

// refused says that the server has read the statement and calls it invalid.
func refused(err error) bool {
	var request gocql.RequestError
	return errors.As(err, &request) && request.Code() == gocql.ErrCodeInvalid
}

// writes is a batch put into statements.
type writes struct {
	s          *Store
	now        int64 // seconds: TTLs are counted from here
	statements []statement
	erased     []erasure
	heads      map[int32]sinks.Progress
}

// fold merges what the events of a batch say about one row, and then writes
// only the cells that are left: older ones would lose against them anyway.
func (s *Store) fold(batch []sinks.EventRecord) *writes {
	w := &writes{s: s, now: s.opts.Now().Unix(), heads: map[int32]sinks.Progress{}}
	states := map[[2]string]*sinks.StateRow{}
	minutes := map[sinks.MinuteKey]*sinks.MinuteRow{}
	for i := range batch {
		r := &batch[i]
		w.advance(r)
		if r.Poison {
			continue
		}
		w.putEvent(r)
		said := sinks.StateOf(&r.Event, s.opts.Retention)
		merge(states, [2]string{r.Tenant, r.Trigger}, &said)
		sinks.MinutesOf(&r.Event, s.opts.Retention, func(k sinks.MinuteKey, said sinks.MinuteRow) {
			merge(minutes, k, &said)
		})
	}
	for k, row := range states {
		w.putState(k[0], k[1], row)
	}
	for k, row := range minutes {
		w.putMinute(k, row)
	}
	return w
}

// merge adds to a row of a batch.
func merge[K comparable, R any, P interface {
	*R
	Merge(*R)
}](rows map[K]P, k K, said *R) {
	if row, ok := rows[k]; ok {
		row.Merge(said)
		return
	}
	rows[k] = P(said)
}

func (w *writes) advance(r *sinks.EventRecord) {
	p := w.heads[r.Partition]
	p.Next, p.EventUS = max(p.Next, r.Offset+1), max(p.EventUS, r.EventUS)
	w.heads[r.Partition] = p
}

func (w *writes) add(cql string, args ...any) {
	w.statements = append(w.statements, statement{cql, args})
}

// ttl is what is left of a row's life, in seconds; ok is false if nothing is.
func (w *writes) ttl(until int64) (ttl int32, ok bool) {
	left := min(until, lastExpiry) - w.now
	return int32(max(0, left)), left > 0
}

// lastExpiry is 2037-12-31: what the on-disk format of a cluster in Cassandra's
// default compatibility mode can express ends in January 2038, and a write
// beyond is refused.
const lastExpiry = 2145830400

const insertEvent = `INSERT INTO events_by_trigger (tenant, trigger, era, event_us, seq,
 type, version, event_id, occurred_at, revision, state, previous_state, channel, user_id,
 scheduled_at, local_time, timezone, tzdata, occurrence, step, attempt, lateness_ms,
 reason, detail, actor, source, due_topic, due_partition, correlation_id, tags, payload, payload_base64,
 count, first, last, previous_scheduled_at, previous_tzdata, partition, "offset")
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
 USING TIMESTAMP ? AND TTL ?`

func (w *writes) putEvent(r *sinks.EventRecord) {
	ttl, ok := w.ttl(sinks.EventUntil(r.EventUS, w.s.opts.Retention).Unix())
	if !ok {
		return
	}
	w.add(insertEvent, r.Tenant, r.Trigger, sinks.EraOf(r.EventUS), r.EventUS, r.Seq,
		r.Type, r.Version, set(r.EventID), at(r.OccurredAt), set(r.Revision), set(r.State), set(r.PreviousState), set(r.Channel), set(r.UserID),
		at(r.ScheduledAt), set(r.LocalTime), set(r.Timezone), set(r.TZData), set(r.Occurrence), ptr(r.Step), set(r.Attempt), ptr(r.LatenessMS),
		set(r.Reason), set(r.Detail), set(r.Actor), set(r.Source), set(r.DueTopic), ptr(r.DuePartition), set(r.CorrelationID), tags(r.Tags), set(string(r.Payload)), set(r.PayloadBase64),
		set(r.Count), at(r.First), at(r.Last), at(r.PreviousScheduled), set(r.PreviousTZData), r.Partition, r.Offset,
		r.EventUS, ttl)
}

// set, ptr, at and tags bind a field, or nothing where the event has none.
func set[T comparable](v T) any {
	var zero T
	if v == zero {
		return gocql.UnsetValue
	}
	return v
}

func ptr[T any](v *T) any {
	if v == nil {
		return gocql.UnsetValue
	}
	return *v
}

func at(text string) any { return set(int64(sinks.InstantOf(text))) }

func tags(m map[string]string) any {
	if len(m) == 0 {
		return gocql.UnsetValue
	}
	return m
}

const updateState = `UPDATE trigger_state USING TIMESTAMP ? AND TTL ? SET
 state = ?, previous_state = ?, type = ?, reason = ?, revision = ?, seq = ?, event_us = ?,
 scheduled_at = ?, occurrence = ?, local_time = ?, timezone = ?, channel = ?, user_id = ?, correlation_id = ?,
 attempt = ?, tags = ?, erased_us = ?, eras = eras + ?
 WHERE tenant = ? AND trigger = ?`

// putState writes a row with one statement for every event that still has a
// word in it; nearly always one.
func (w *writes) putState(tenant, key string, row *sinks.StateRow) {
	for us, until := range stamps(row) {
		ttl, ok := w.ttl(until)
		if !ok {
			continue
		}
		eventUS := row.State
		w.add(updateState, us, ttl,
			of(row.State, us), of(row.PreviousState, us), of(row.Type, us), of(row.Reason, us), of(row.Revision, us), of(row.Seq, us),
			of(sinks.Cell[int64]{US: eventUS.US, V: eventUS.US}, us),
			of(row.ScheduledAt, us), of(row.Occurrence, us), of(row.LocalTime, us), of(row.Timezone, us),
			of(row.Channel, us), of(row.UserID, us), of(row.CorrelationID, us), of(row.Attempt, us), of(row.Tags, us), of(row.ErasedUS, us),
			erasAt(row, us), tenant, key)
		if row.ErasedUS.US == us {
			w.erased = append(w.erased, erasure{tenant, key, us})
		}
	}
}

// stamps are the events that have a word in a row, with when their words end.
func stamps(row *sinks.StateRow) map[int64]int64 {
	all := map[int64]int64{}
	note := func(us, until int64) {
		if us != 0 {
			all[us] = until
		}
	}
	for _, c := range []sinks.Cell[string]{row.State, row.PreviousState, row.Type, row.Reason, row.Occurrence, row.LocalTime,
		row.Timezone, row.Channel, row.UserID, row.CorrelationID} {
		note(c.US, c.Until)
	}
	for _, c := range []sinks.Cell[int64]{row.Revision, row.Seq, row.Attempt, row.ErasedUS} {
		note(c.US, c.Until)
	}
	note(row.ScheduledAt.US, row.ScheduledAt.Until)
	note(row.Tags.US, row.Tags.Until)
	for _, c := range row.Eras {
		note(c.US, c.Until)
	}
	return all
}

// of binds a cell in the statement of the event that wrote it.
func of[T any](c sinks.Cell[T], us int64) any {
	if c.US != us {
		return gocql.UnsetValue
	}
	return native(c.V)
}

func erasAt(row *sinks.StateRow, us int64) any {
	var eras []int
	for era, c := range row.Eras {
		if c.US == us {
			eras = append(eras, era)
		}
	}
	if eras == nil {
		return gocql.UnsetValue
	}
	return slices.Sorted(slices.Values(eras))
}

const updateMinute = `UPDATE triggers_by_minute USING TIMESTAMP ? AND TTL ? SET
 occurrence = ?, state = ?, channel = ?, user_id = ?, fired_us = ?, event_us = ?
 WHERE minute = ? AND shard = ? AND due_at = ? AND tenant = ? AND trigger = ?`

func (w *writes) putMinute(k sinks.MinuteKey, row *sinks.MinuteRow) {
	all := map[int64]int64{}
	for _, c := range []sinks.Cell[string]{row.State, row.Occurrence, row.Channel, row.UserID} {
		all[c.US] = c.Until
	}
	all[row.FiredUS.US] = row.FiredUS.Until
	delete(all, 0)
	for us, until := range all {
		ttl, ok := w.ttl(until)
		if !ok {
			continue
		}
		w.add(updateMinute, us, ttl, of(row.Occurrence, us), of(row.State, us), of(row.Channel, us), of(row.UserID, us), of(row.FiredUS, us),
			of(sinks.Cell[int64]{US: row.State.US, V: row.State.US}, us),
			int32(sinks.MinuteOf(k.Due)), int8(sinks.ShardOf(k.Trigger)), int64(k.Due), k.Tenant, k.Trigger)
	}
}

const insertProgress = `INSERT INTO progress (topic, partition, next_offset, event_us) VALUES (?, ?, ?, ?) USING TIMESTAMP ?`

// progress is written with event_us as its timestamp too, so that a projector
// that lost its partition cannot set it back. A batch of nothing but poison
// leaves it where it is.
func (w *writes) progress(topic string) (all []statement) {
	for partition, p := range w.heads {
		if p.EventUS > 0 {
			all = append(all, statement{insertProgress, []any{topic, partition, p.Next, p.EventUS, p.EventUS}})
		}
	}
	return all
}
