package cassandra

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
)

// Apply writes the batch's rows concurrently and in no order, because their write timestamps
// decide. Erasures come last, once the rows that they blank exist.
func (s *Store) Apply(ctx context.Context, batch []sinks.EventRecord) error {
	if err := s.knowNewest(ctx, batch); err != nil {
		return err
	}
	return s.do(ctx, "apply", func(session *gocql.Session) error {
		now, err := clock(ctx, session)
		if err != nil {
			return fmt.Errorf("read the server's time: %w", err)
		}
		w := s.fold(batch, now)
		if err := s.removeMoved(ctx, session, w); err != nil {
			return fmt.Errorf("move notifications: %w", err)
		}
		if err := s.runAll(ctx, session, w.statements); err != nil {
			return err
		}
		if err := s.listLate(ctx, session, w); err != nil {
			return fmt.Errorf("list late receipts: %w", err)
		}
		for _, e := range w.erased {
			err := s.erase(ctx, session, e, now)
			if err == nil {
				err = s.eraseLetters(ctx, session, e, now)
			}
			if err != nil {
				return fmt.Errorf("erase: %w", err)
			}
		}
		if err := s.eraseLate(ctx, session, batch, w); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		s.newest.note(w.heads)
		return s.runAll(ctx, session, w.progress(s.opts.Topic))
	})
}

// clock returns Cassandra's time. Cells expire by it, so TTLs are counted from it. This process's
// clock may be wrong, and rows that it took for expired would be lost.
func clock(ctx context.Context, session *gocql.Session) (seconds int64, err error) {
	var ms int64
	err = session.Query(`SELECT toUnixTimestamp(now()) FROM system.local`).WithContext(ctx).Scan(&ms)
	return ms / 1000, err
}

// statement is one prepared write. Statements of one partition may share a request. The zero
// partition means a request of its own.
type statement struct {
	cql       string
	args      []any
	partition partitionKey
}

// partitionKey identifies a partition of a table that may get many rows in one batch.
type partitionKey struct {
	table, tenant, key string
	era                int
}

// Bounds of one request to a partition.
const (
	maxTogether      = 64
	maxTogetherBytes = 64 << 10
)

// together groups the statements of a partition into requests, within the bounds.
func together(all []statement) (requests [][]statement) {
	open := map[partitionKey]int{} // the request that a partition's next statement joins
	size := map[partitionKey]int{}
	for _, st := range all {
		n := st.bytes()
		i, ok := open[st.partition]
		if st.partition == (partitionKey{}) || !ok || len(requests[i]) == maxTogether ||
			size[st.partition]+n > maxTogetherBytes {
			open[st.partition], size[st.partition] = len(requests), n
			requests = append(requests, []statement{st})
			continue
		}
		requests[i] = append(requests[i], st)
		size[st.partition] += n
	}
	return requests
}

// bytes estimates the size of a statement's values.
func (st statement) bytes() (n int) {
	for _, v := range st.args {
		n += 8
		if text, ok := v.(string); ok {
			n += len(text)
		}
	}
	return n
}

// runAll runs statements with bounded concurrency and stops at the first error.
func (s *Store) runAll(ctx context.Context, session *gocql.Session, all []statement) error {
	requests := together(all)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.opts.Concurrency, len(requests)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(requests)) && ctx.Err() == nil; i = next.Add(1) - 1 {
				if err := run(ctx, session, requests[i]); err != nil {
					cancel(err)
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// run executes a request. No error lets it skip a row: events that could cause an error were
// refused earlier (sinks.DecodeEvent).
func run(ctx context.Context, session *gocql.Session, request []statement) error {
	if len(request) == 1 {
		q := session.Query(request[0].cql, request[0].args...).WithContext(ctx)
		defer q.Release()
		if err := q.Exec(); err != nil {
			return fmt.Errorf("%s: %w", request[0].row(), err)
		}
		return nil
	}
	b := session.NewBatch(gocql.UnloggedBatch).WithContext(ctx) // of one partition, so it is one write
	for _, st := range request {
		b.Query(st.cql, st.args...)
	}
	if err := session.ExecuteBatch(b); err != nil {
		return fmt.Errorf("%s and %d more: %w", request[0].row(), len(request)-1, err)
	}
	return nil
}

// row names the row that a statement writes, for the log. It leaves out the content.
func (st statement) row() string {
	words, key := strings.Fields(st.cql), st.args[len(st.args)-2:] // UPDATE table …, with the key last
	switch words[0] {
	case "INSERT": // INTO table (…), with the key first
		words, key = words[1:], st.args[:2]
	case "DELETE": // FROM table …, with the key last
		words = words[1:]
	}
	return fmt.Sprintf("write %s %v", words[1], key)
}

// writes is a batch as statements.
type writes struct {
	s          *Store
	now        int64 // seconds; TTLs are counted from it
	statements []statement
	erased     []erasure
	moved      []moved
	positions  []sinks.NotificationKey // of notifications, in the batch
	receipts   []lateReceipt
	late       map[[2]string]bool // triggers whose events may be older than an erase that was applied before
	heads      map[int32]sinks.Progress
}

// fold merges what the events of a batch set in one row, and then writes only the remaining
// cells. Older ones would lose against them anyway.
func (s *Store) fold(batch []sinks.EventRecord, now int64) *writes {
	w := &writes{s: s, now: now, heads: map[int32]sinks.Progress{}}
	states := map[[2]string]*sinks.StateRow{}
	minutes := map[sinks.MinuteKey]*sinks.MinuteRow{}
	notifications := map[sinks.NotificationKey]*sinks.NotificationRow{}
	for i := range batch {
		r := &batch[i]
		w.advance(r)
		if r.Poison {
			continue
		}
		w.putEvent(r)
		w.putLetterEnd(r)
		said := sinks.StateOf(&r.Event, s.opts.Retention)
		merge(states, [2]string{r.Tenant, r.Trigger}, &said)
		sinks.MinutesOf(&r.Event, s.opts.Retention, func(k sinks.MinuteKey, said sinks.MinuteRow) {
			merge(minutes, k, &said)
		})
		if k, said, ok := sinks.NotificationOf(&r.Event, s.opts.Retention); ok {
			merge(notifications, k, &said)
			w.noteLate(r)
			w.noteMoved(r, k)
			if said.User.US == 0 {
				w.receipts = append(w.receipts, lateReceipt{k, said})
			}
		}
	}
	for k, row := range states {
		w.putState(k[0], k[1], row)
	}
	for k, row := range minutes {
		w.putMinute(k, row)
	}
	for k, row := range notifications {
		if len(w.moved) > 0 {
			w.positions = append(w.positions, k)
		}
		w.putNotification(k, row)
	}
	return w
}

// merge merges into a row of a batch.
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
	w.statements = append(w.statements, statement{cql: cql, args: args})
}

func (w *writes) addTo(p partitionKey, cql string, args ...any) {
	w.statements = append(w.statements, statement{cql, args, p})
}

// ttl returns the remaining life of a row, in seconds. ok is false if none remains.
func (w *writes) ttl(until int64) (ttl int32, ok bool) {
	left := min(until, lastExpiry) - w.now
	return int32(max(0, left)), left > 0
}

// lastExpiry is 2037-12-31. In Cassandra's default compatibility mode, the on-disk format ends in
// January 2038, and a later write is refused.
const lastExpiry = 2145830400

const insertEvent = `INSERT INTO events_by_trigger (tenant, trigger, era, event_us, seq,
 type, version, event_id, occurred_at, revision, state, previous_state, channel, user_id,
 scheduled_at, local_time, timezone, tzdata, occurrence, step, attempt, lateness_ms,
 reason, detail, actor, source, due_topic, due_partition, correlation_id, tags, payload, payload_base64,
 count, first, last, previous_scheduled_at, previous_tzdata, first_fired_at, rule, next_at, effective_at,
 partition, "offset")
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
 USING TIMESTAMP ? AND TTL ?`

func (w *writes) putEvent(r *sinks.EventRecord) {
	ttl, ok := w.ttl(sinks.EventUntil(r.EventUS, w.s.opts.Retention).Unix())
	if !ok {
		return
	}
	era := sinks.EraOf(r.EventUS)
	w.addTo(partitionKey{"events_by_trigger", r.Tenant, r.Trigger, era}, insertEvent,
		r.Tenant, r.Trigger, era, r.EventUS, r.Seq,
		r.Type, r.Version, set(r.EventID), at(r.OccurredAt), set(r.Revision), set(r.State), set(r.PreviousState),
		set(r.Channel), set(r.UserID),
		at(r.ScheduledAt), set(r.LocalTime), set(r.Timezone), set(r.TZData), set(r.Occurrence), ptr(r.Step),
		set(r.Attempt), ptr(r.LatenessMS),
		set(r.Reason), set(r.Detail), set(r.Actor), set(r.Source), set(r.DueTopic), ptr(r.DuePartition),
		set(r.CorrelationID), tags(r.Tags), set(string(r.Payload)), set(r.PayloadBase64),
		set(r.Count), at(r.First), at(r.Last), at(r.PreviousScheduled), set(r.PreviousTZData),
		at(r.FirstFired), set(string(r.Rule)), at(r.NextAt), at(r.EffectiveAt), r.Partition, r.Offset,
		r.EventUS, ttl)
}

// set, ptr, at and tags bind a field, or an unset value if the event does not have it.
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

// forgetState is updateState for an event whose values have expired. They still hide the older
// ones: a finished trigger's end expires before the values of its plan.
const forgetState = `UPDATE trigger_state USING TIMESTAMP ? SET
 state = ?, previous_state = ?, type = ?, reason = ?, revision = ?, seq = ?, event_us = ?,
 scheduled_at = ?, occurrence = ?, local_time = ?, timezone = ?, channel = ?, user_id = ?, correlation_id = ?,
 attempt = ?, tags = ?, erased_us = ?, eras = eras - ?
 WHERE tenant = ? AND trigger = ?`

// putState writes a row with one statement for every event that still sets a cell; nearly always
// one.
func (w *writes) putState(tenant, key string, row *sinks.StateRow) {
	for at := range stateStamps(row) {
		ttl, ok := w.ttl(at.until)
		if !ok {
			w.add(forgetState, append(append([]any{at.us}, stateCells(row, at, gone)...), erasAt(row, at), tenant,
				key)...)
			continue
		}
		w.add(updateState, append(append([]any{at.us, ttl}, stateCells(row, at, native)...), erasAt(row, at), tenant,
			key)...)
		if row.ErasedUS.US == at.us {
			w.erased = append(w.erased, erasure{tenant, key, at.us})
		}
	}
}

// stateCells binds the cells that an event wrote, with their values or as expired.
func stateCells(row *sinks.StateRow, at stamp, as func(any) any) []any {
	eventUS := sinks.Cell[int64]{US: row.State.US, Until: row.State.Until, V: row.State.US}
	return []any{
		of(row.State, at, as), of(row.PreviousState, at, as), of(row.Type, at, as), of(row.Reason, at, as),
		of(row.Revision, at, as), of(row.Seq, at, as),
		of(eventUS, at, as), of(row.ScheduledAt, at, as), of(row.Occurrence, at, as), of(row.LocalTime, at, as),
		of(row.Timezone, at, as),
		of(row.Channel, at, as), of(row.UserID, at, as), of(row.CorrelationID, at, as), of(row.Attempt, at, as),
		of(row.Tags, at, as), of(row.ErasedUS, at, as),
	}
}

// gone returns null, for a cell that has expired. It has the event's timestamp.
func gone(any) any { return nil }

// stamp identifies the event that wrote a cell, and when the cell expires. One statement can
// write the cells of one stamp.
type stamp struct{ us, until int64 }

func stampOf[T any](c sinks.Cell[T]) stamp { return stamp{c.US, c.Until} }

// stateStamps returns the stamps of all cells that were written.
func stateStamps(row *sinks.StateRow) map[stamp]bool {
	all := map[stamp]bool{}
	for _, c := range []sinks.Cell[string]{
		row.State, row.PreviousState, row.Type, row.Reason, row.Occurrence, row.LocalTime,
		row.Timezone, row.Channel, row.UserID, row.CorrelationID,
	} {
		all[stampOf(c)] = true
	}
	for _, c := range []sinks.Cell[int64]{row.Revision, row.Seq, row.Attempt, row.ErasedUS} {
		all[stampOf(c)] = true
	}
	all[stampOf(row.ScheduledAt)], all[stampOf(row.Tags)] = true, true
	for _, c := range row.Eras {
		all[stampOf(c)] = true
	}
	delete(all, stamp{})
	return all
}

// of binds a cell in the statement that writes it, or else an unset value.
func of[T any](c sinks.Cell[T], at stamp, as func(any) any) any {
	if stampOf(c) != at {
		return gocql.UnsetValue
	}
	return as(c.V)
}

func erasAt(row *sinks.StateRow, at stamp) any {
	var eras []int
	for era, c := range row.Eras {
		if stampOf(c) == at {
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

// putMinute leaves out expired cells, because all older ones have expired too.
func (w *writes) putMinute(k sinks.MinuteKey, row *sinks.MinuteRow) {
	all := map[stamp]bool{stampOf(row.FiredUS): true}
	for _, c := range []sinks.Cell[string]{row.State, row.Occurrence, row.Channel, row.UserID} {
		all[stampOf(c)] = true
	}
	delete(all, stamp{})
	eventUS := sinks.Cell[int64]{US: row.State.US, Until: row.State.Until, V: row.State.US}
	for at := range all {
		ttl, ok := w.ttl(at.until)
		if !ok {
			continue
		}
		w.add(updateMinute, at.us, ttl, of(row.Occurrence, at, native), of(row.State, at, native),
			of(row.Channel, at, native),
			of(row.UserID, at, native), of(row.FiredUS, at, native), of(eventUS, at, native),
			int32(sinks.MinuteOf(k.Due)), int8(sinks.ShardOf(k.Trigger)), int64(k.Due), k.Tenant, k.Trigger)
	}
}

const insertProgress = `INSERT INTO progress (topic, partition, next_offset, event_us) VALUES (?, ?, ?, ?) USING TIMESTAMP ?`

// progress is also written with event_us as its timestamp, so a projector that lost its partition
// cannot set it back. A batch of only poison, such as the marker of an aborted turn, has the
// timestamp of the newest event before it. Of two positions with one timestamp, Cassandra keeps
// the larger.
func (w *writes) progress(topic string) (all []statement) {
	for partition, p := range w.heads {
		us := p.EventUS
		if us == 0 {
			us = w.s.newest.of(partition)
		}
		all = append(all, statement{cql: insertProgress, args: []any{topic, partition, p.Next, us, us}})
	}
	return all
}
