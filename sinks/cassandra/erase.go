package cassandra

import (
	"context"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// erasure is one trigger.erased: the trigger, and the time up to which it is erased.
type erasure struct {
	tenant, key string
	us          int64
}

const (
	selectForErase = `SELECT event_us, seq, scheduled_at, previous_scheduled_at, first, type, user_id, occurrence, first_fired_at
 FROM events_by_trigger WHERE tenant = ? AND trigger = ? AND era = ? AND event_us <= ?`

	// Empty values rather than DELETE: they expire with their rows and leave no tombstone. They
	// have the erasure's timestamp, so replayed values stay blank. An UPDATE creates no row that
	// did not exist.
	blankEvent = `UPDATE events_by_trigger USING TIMESTAMP ? AND TTL ? SET
 user_id = '', detail = '', correlation_id = '', tags = {}, payload = '', payload_base64 = ''
 WHERE tenant = ? AND trigger = ? AND era = ? AND event_us = ? AND seq = ?`
)

// erase blanks the content of every row of a trigger that is older than the erasure: its events,
// era by era, and the minutes that they name.
func (s *Store) erase(ctx context.Context, session *gocql.Session, e erasure, now int64) error {
	eras, _, err := s.erasOf(ctx, session, e.tenant, e.key)
	if err != nil {
		return err
	}
	for _, era := range eras {
		if err := s.eraseEra(ctx, session, e, era, now); err != nil {
			return err
		}
	}
	return nil
}

// eraseEra blanks the events of an era only after the rows that they name. A blank event no longer
// names its notification, so an erase that failed between them could not find it when it is repeated.
func (s *Store) eraseEra(ctx context.Context, session *gocql.Session, e erasure, era int, now int64) error {
	rows, events := &writes{s: s, now: now}, &writes{s: s, now: now}
	minutes := map[sinks.MinuteKey]bool{}
	if err := rows.eraseNamed(ctx, session, e, era, minutes, events); err != nil {
		return err
	}
	for k := range minutes {
		row := sinks.MinuteErased(e.us, s.opts.Retention)
		rows.putMinute(k, &row)
	}
	if err := s.runAll(ctx, session, rows.statements); err != nil {
		return err
	}
	return s.runAll(ctx, session, events.statements)
}

// eraseNamed reads the events of an era. It notes their minutes, and writes what erases their
// notifications; events gets what blanks the events.
func (w *writes) eraseNamed(ctx context.Context, session *gocql.Session, e erasure, era int,
	minutes map[sinks.MinuteKey]bool, events *writes,
) error {
	it := session.Query(selectForErase, e.tenant, e.key, era, e.us).WithContext(ctx).PageSize(1000).Iter()
	var us, seq, due, before, missed, fired int64
	said := topics.Event{Tenant: e.tenant, Trigger: e.key}
	for it.Scan(&us, &seq, &due, &before, &missed, &said.Type, &said.UserID, &said.Occurrence, &fired) {
		said.EventUS, said.FirstFired = us, text(fired)
		w.eraseNotification(&said, e.us)
		if ttl, ok := w.ttl(sinks.EventUntil(us, w.s.opts.Retention).Unix()); ok {
			events.add(blankEvent, e.us, ttl, e.tenant, e.key, era, us, seq)
		}
		for _, at := range []int64{due, before, missed} {
			if at != 0 {
				minutes[sinks.MinuteKey{Due: trigger.Instant(at), Tenant: e.tenant, Trigger: e.key}] = true
			}
		}
	}
	return it.Close()
}
