package cassandra

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
)

var _ sinks.Scanner = (*Store)(nil)

// scanRanges is the number of token ranges that a scan reads one after another, so that no single
// query pages through everything.
const scanRanges = 64

// Scan visits every row of a table, in token order.
func (s *Store) Scan(ctx context.Context, t sinks.Table, visit func(sinks.Row) error) error {
	return s.do(ctx, fmt.Sprintf("scan %s", t), func(session *gocql.Session) error {
		for i := range scanRanges {
			from, to := tokenRange(i)
			if err := s.scanRange(ctx, session, t, from, to, visit); err != nil {
				return err
			}
		}
		return nil
	})
}

// tokenRange returns the i-th token range, both ends included.
func tokenRange(i int) (from, to int64) {
	const width = math.MaxUint64/scanRanges + 1
	from = int64(uint64(i)*width + 1<<63)
	return from, from + int64(width-1)
}

const (
	scanEvents = `SELECT tenant, trigger, ` + eventColumns +
		` FROM events_by_trigger WHERE token(tenant, trigger, era) >= ? AND token(tenant, trigger, era) <= ?`
	scanState = `SELECT tenant, trigger, state, previous_state, type, reason, revision, seq, event_us FROM trigger_state
 WHERE token(tenant, trigger) >= ? AND token(tenant, trigger) <= ?`
	scanLetters = `SELECT tenant, ` + letterColumns + ` FROM dead_letters
 WHERE token(tenant, minute, shard) >= ? AND token(tenant, minute, shard) <= ?`
	scanEnds = `SELECT tenant, trigger, due_id, event_us, status, attempt FROM dead_letter_ends
 WHERE token(tenant, trigger, due_id) >= ? AND token(tenant, trigger, due_id) <= ?`
	scanMinute = `SELECT due_at, tenant, trigger, state, event_us FROM triggers_by_minute WHERE token(minute, shard) >= ? AND token(minute, shard) <= ?`
)

func (s *Store) scanRange(ctx context.Context, session *gocql.Session, t sinks.Table, from, to int64,
	visit func(sinks.Row) error,
) error {
	cql, next := scanEvents, nextEvent
	switch t {
	case sinks.TableState:
		cql, next = scanState, nextState
	case sinks.TableMinute:
		cql, next = scanMinute, nextMinute
	case sinks.TableLetters:
		cql, next = scanLetters, nextLetter
	case sinks.TableLetterEnds:
		cql, next = scanEnds, nextEnd
	case sinks.TableNotifications:
		cql, next = scanNotifications, nextNotification
	}
	it := session.Query(cql, from, to).WithContext(ctx).PageSize(1000).Iter()
	for {
		row, there, more := next(it, s.opts.Retention)
		if !more {
			return it.Close()
		}
		if !there {
			continue // only an erasure's blanks, or the months, remain of the row
		}
		if err := visit(row); err != nil {
			it.Close()
			return err
		}
	}
}

func nextEvent(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var e eventRow
	var tenant, key string
	if !it.Scan(append([]any{&tenant, &key}, e.dest()...)...) {
		return row, false, false
	}
	r := e.record(tenant, key)
	return sinks.EventDigest(&r, retention), r.Type != "", true
}

func nextState(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var t sinks.TriggerState
	if !it.Scan(&t.Tenant, &t.Trigger, &t.State, &t.PreviousState, &t.Type, &t.Reason, &t.Revision, &t.Seq,
		&t.EventUS) {
		return row, false, false
	}
	return sinks.StateDigest(&t, retention), t.State != "", true
}

func nextMinute(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var e sinks.MinuteEntry
	if !it.Scan((*int64)(&e.Due), &e.Tenant, &e.Trigger, &e.State, &e.EventUS) {
		return row, false, false
	}
	return sinks.MinuteDigest(&e, retention), e.State != "", true
}

func nextLetter(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var l topics.Letter
	if !it.Scan(append([]any{&l.Tenant}, letterDest(&l)...)...) {
		return row, false, false
	}
	return sinks.LetterDigest(&l, retention), l.DueID != "", true
}

func nextEnd(it *gocql.Iter, retention time.Duration) (row sinks.Row, there, more bool) {
	var tenant, key string
	var end topics.LetterEnd
	var status int8
	if !it.Scan(&tenant, &key, &end.DueID, &end.US, &status, &end.Attempt) {
		return row, false, false
	}
	end.Status = topics.LetterStatus(status)
	return sinks.LetterEndDigest(tenant, key, &end, retention), true, true
}
