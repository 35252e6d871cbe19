package cassandra

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/trigger"
)

// native converts our types into the driver's.
func native(v any) any {
	switch v := v.(type) {
	case trigger.Instant:
		return int64(v)
	}
	return v
}

const eventColumns = `event_us, seq, type, version, event_id, occurred_at, revision, state, previous_state, channel, user_id,
 scheduled_at, local_time, timezone, tzdata, occurrence, step, attempt, lateness_ms,
 reason, detail, actor, source, due_topic, due_partition, correlation_id, tags, payload, payload_base64,
 count, first, last, previous_scheduled_at, previous_tzdata, first_fired_at, rule, next_at, effective_at,
 partition, "offset"`

const (
	selectEvents = `SELECT ` + eventColumns + ` FROM events_by_trigger
 WHERE tenant = ? AND trigger = ? AND era = ? AND (event_us, seq) > (?, ?)`
	selectNewest = `SELECT ` + eventColumns + ` FROM events_by_trigger
 WHERE tenant = ? AND trigger = ? AND era = ? AND (event_us, seq) < (?, ?) ORDER BY event_us DESC, seq DESC`
)

// Events reads the months in which the trigger has events.
func (s *Store) Events(ctx context.Context, q sinks.EventQuery) (page sinks.EventPage, err error) {
	err = s.do(ctx, "read events", func(session *gocql.Session) error {
		eras, erasedUS, err := s.erasOf(ctx, session, q.Tenant, q.Trigger)
		if err != nil {
			return err
		}
		if q.Since != 0 {
			now := s.opts.Now()
			eras = append(eras, erasSince(max(q.Since, trigger.At(now.Add(-s.opts.Retention))), now)...)
		}
		page = sinks.EventPage{}
		return s.eventPage(ctx, session, q, erasFor(eras, q), erasedUS, &page)
	})
	return page, err
}

// erasSince returns the months from an instant to now.
func erasSince(from trigger.Instant, now time.Time) (eras []int) {
	last := sinks.EraOf(now.UnixMicro())
	for era := sinks.EraOf(from.Time().UnixMicro()); era <= last; era++ {
		if era%100 > 12 {
			era += 100 - 12 // from month 13 to the first month of the next year
		}
		eras = append(eras, era)
	}
	return eras
}

// erasFor returns the months in the order of the query, without those before the cursor.
func erasFor(eras []int, q sinks.EventQuery) []int {
	slices.Sort(eras)
	eras = slices.Compact(eras)
	if q.Newest {
		slices.Reverse(eras)
	}
	if q.After.IsZero() {
		return eras
	}
	from := sinks.EraOf(q.After.EventUS)
	return slices.DeleteFunc(eras, func(era int) bool {
		return q.Newest && era > from || !q.Newest && era < from
	})
}

func (s *Store) eventPage(ctx context.Context, session *gocql.Session, q sinks.EventQuery, eras []int, erasedUS int64,
	page *sinks.EventPage,
) error {
	limit, cql, from := sinks.PageSize(q.Limit), selectEvents, q.After
	if q.Newest {
		cql = selectNewest
		if from.IsZero() {
			from = sinks.EventCursor{EventUS: math.MaxInt64, Seq: math.MaxInt64}
		}
	}
	for _, era := range eras {
		want := limit - len(page.Events) + 1 // one more than fits shows whether there is a next page
		if q.Bytes > 0 {
			want = min(want, eventsAtOnce)
		}
		it := session.Query(cql, q.Tenant, q.Trigger, era, from.EventUS,
			from.Seq).WithContext(ctx).PageSize(want).Iter()
		full, err := takeEvents(it, q, erasedUS, page)
		if err := errors.Join(err, it.Close()); err != nil || full {
			return err
		}
	}
	return nil
}

// eventsAtOnce is how many events of a page that is bounded in bytes come from Cassandra at once: with the
// largest payloads 16 MiB.
const eventsAtOnce = 32

// takeEvents fills the page. full reports that there were more events.
func takeEvents(it *gocql.Iter, q sinks.EventQuery, erasedUS int64, page *sinks.EventPage) (full bool, err error) {
	for row := newEventRow(); it.Scan(row.dest()...); row = newEventRow() {
		if row.r.Type == "" {
			continue // only an erasure's blanks remain of an expired row
		}
		r := row.record(q.Tenant, q.Trigger)
		if r.EventUS <= erasedUS {
			sinks.Blank(&r.Event)
		}
		if !page.Add(&q, r) {
			return true, nil
		}
	}
	return false, nil
}

// eventRow is the target of a row scan. Times are milliseconds, and the payload is text.
type eventRow struct {
	r                                      sinks.EventRecord
	payload, rule                          string
	occurred, scheduled, first, last, prev int64
	fired, next, effective                 int64
}

func newEventRow() *eventRow { return &eventRow{} }

func (w *eventRow) dest() []any {
	r := &w.r
	return []any{
		&r.EventUS, &r.Seq, &r.Type, &r.Version, &r.EventID, &w.occurred, &r.Revision, &r.State, &r.PreviousState,
		&r.Channel, &r.UserID,
		&w.scheduled, &r.LocalTime, &r.Timezone, &r.TZData, &r.Occurrence, &r.Step, &r.Attempt, &r.LatenessMS,
		&r.Reason, &r.Detail, &r.Actor, &r.Source, &r.DueTopic, &r.DuePartition, &r.CorrelationID, &r.Tags, &w.payload,
		&r.PayloadBase64,
		&r.Count, &w.first, &w.last, &w.prev, &r.PreviousTZData, &w.fired, &w.rule, &w.next, &w.effective, &r.Partition,
		&r.Offset,
	}
}

func (w *eventRow) record(tenant, key string) sinks.EventRecord {
	r := w.r
	r.Tenant, r.Trigger = tenant, key
	r.OccurredAt, r.ScheduledAt = text(w.occurred), text(w.scheduled)
	r.First, r.Last, r.PreviousScheduled = text(w.first), text(w.last), text(w.prev)
	r.FirstFired, r.NextAt, r.EffectiveAt = text(w.fired), text(w.next), text(w.effective)
	if w.rule != "" {
		r.Rule = json.RawMessage(w.rule)
	}
	if w.payload != "" {
		r.Payload = json.RawMessage(w.payload)
	}
	if len(r.Tags) == 0 {
		r.Tags = nil
	}
	return r
}

func text(ms int64) string { return sinks.TextOf(trigger.Instant(ms)) }

// erasOf returns the months in which a trigger has events, and when it was last erased.
func (s *Store) erasOf(ctx context.Context, session *gocql.Session, tenant, key string) (eras []int, erasedUS int64,
	err error,
) {
	err = session.Query(`SELECT eras, erased_us FROM trigger_state WHERE tenant = ? AND trigger = ?`, tenant, key).
		WithContext(ctx).Scan(&eras, &erasedUS)
	if errors.Is(err, gocql.ErrNotFound) {
		err = nil
	}
	return eras, erasedUS, err
}

const selectState = `SELECT state, previous_state, type, reason, revision, seq, event_us, scheduled_at, occurrence, local_time, timezone,
 channel, user_id, correlation_id, attempt, tags, erased_us FROM trigger_state WHERE tenant = ? AND trigger = ?`

// Trigger reads one row of trigger_state.
func (s *Store) Trigger(ctx context.Context, tenant, key string) (t sinks.TriggerState, ok bool, err error) {
	err = s.do(ctx, "read trigger", func(session *gocql.Session) error {
		t = sinks.TriggerState{Tenant: tenant, Trigger: key}
		err := session.Query(selectState, tenant, key).WithContext(ctx).Scan(stateDest(&t)...)
		if errors.Is(err, gocql.ErrNotFound) {
			return nil
		}
		ok = err == nil && t.State != ""
		return err
	})
	if !ok {
		return sinks.TriggerState{}, false, err
	}
	if len(t.Tags) == 0 {
		t.Tags = nil
	}
	return t, true, nil
}

func stateDest(t *sinks.TriggerState) []any {
	return []any{
		&t.State, &t.PreviousState, &t.Type, &t.Reason, &t.Revision, &t.Seq, &t.EventUS, (*int64)(&t.ScheduledAt),
		&t.Occurrence, &t.LocalTime, &t.Timezone,
		&t.Channel, &t.UserID, &t.CorrelationID, &t.Attempt, &t.Tags, &t.ErasedUS,
	}
}

const selectMinute = `SELECT due_at, tenant, trigger, occurrence, state, channel, user_id, fired_us, event_us FROM triggers_by_minute
 WHERE minute = ? AND shard = ? AND (due_at, tenant, trigger) > (?, ?, ?)`

// shardReaders bounds the shards that are read concurrently.
const shardReaders = 16

// ByMinute reads a page from every shard, and keeps the first entries of all.
func (s *Store) ByMinute(ctx context.Context, q sinks.MinuteQuery) (page sinks.MinutePage, err error) {
	err = s.do(ctx, "read minute", func(session *gocql.Session) error {
		all, err := s.readShards(ctx, session, q)
		page = minutePage(all, sinks.PageSize(q.Limit))
		return err
	})
	return page, err
}

func minutePage(all []sinks.MinuteEntry, limit int) (page sinks.MinutePage) {
	slices.SortFunc(all, func(a, b sinks.MinuteEntry) int { return a.Cursor().Compare(b.Cursor()) })
	page.Entries = all[:min(limit, len(all))]
	if len(all) > limit {
		page.Next = page.Entries[limit-1].Cursor()
	}
	return page
}

func (s *Store) readShards(ctx context.Context, session *gocql.Session, q sinks.MinuteQuery) (all []sinks.MinuteEntry,
	err error,
) {
	shards := q.Shards
	if shards == nil {
		shards = allShards()
	}
	var mu sync.Mutex
	var readers sync.WaitGroup
	slots := make(chan struct{}, shardReaders)
	for _, shard := range shards {
		slots <- struct{}{}
		readers.Go(func() {
			defer func() { <-slots }()
			entries, e := readShard(ctx, session, q, shard)
			mu.Lock()
			defer mu.Unlock()
			all, err = append(all, entries...), errors.Join(err, e)
		})
	}
	readers.Wait()
	return all, err
}

func allShards() []int {
	all := make([]int, sinks.Shards)
	for i := range all {
		all[i] = i
	}
	return all
}

func readShard(ctx context.Context, session *gocql.Session, q sinks.MinuteQuery,
	shard int,
) (entries []sinks.MinuteEntry, err error) {
	from, want := q.After, sinks.PageSize(q.Limit)+1
	if from.IsZero() {
		from.Due = trigger.Instant(q.Minute*60_000 - 1) // with empty texts, it is before every entry of the minute
	}
	it := session.Query(selectMinute, int32(q.Minute), int8(shard), int64(from.Due), from.Tenant, from.Trigger).
		WithContext(ctx).PageSize(want).Iter()
	for len(entries) < want {
		var e sinks.MinuteEntry
		if !it.Scan((*int64)(&e.Due), &e.Tenant, &e.Trigger, &e.Occurrence, &e.State, &e.Channel, &e.UserID, &e.FiredUS,
			&e.EventUS) {
			break
		}
		if e.State != "" {
			entries = append(entries, e)
		}
	}
	return entries, it.Close()
}

// Progress reads the positions of the events topic.
func (s *Store) Progress(ctx context.Context) (map[int32]sinks.Progress, error) {
	return s.progressOf(ctx, s.opts.Topic)
}

func (s *Store) progressOf(ctx context.Context, topic string) (all map[int32]sinks.Progress, err error) {
	err = s.do(ctx, "read progress", func(session *gocql.Session) error {
		all = map[int32]sinks.Progress{}
		it := session.Query(`SELECT partition, next_offset, event_us FROM progress WHERE topic = ?`,
			topic).WithContext(ctx).Iter()
		var partition int32
		var p sinks.Progress
		for it.Scan(&partition, &p.Next, &p.EventUS) {
			all[partition] = p
		}
		return it.Close()
	})
	return all, err
}
