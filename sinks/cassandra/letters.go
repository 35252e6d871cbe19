package cassandra

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

const (
	insertLetter = `INSERT INTO dead_letters (tenant, minute, shard, failed_at, partition, "offset",
 trigger, due_id, attempt, channel, code, detail, endpoint, scheduled_at, expires_at, truncated)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	insertMinute = `INSERT INTO dead_letter_minutes (tenant, era, minute, shard) VALUES (?, ?, ?, ?)
 USING TIMESTAMP ? AND TTL ?`
	insertTenant    = `INSERT INTO dead_letter_tenants (era, tenant) VALUES (?, ?) USING TIMESTAMP ? AND TTL ?`
	insertByTrigger = `INSERT INTO dead_letters_by_trigger (tenant, trigger, era, failed_at, partition, "offset")
 VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`
	insertEnd = `INSERT INTO dead_letter_ends (tenant, trigger, due_id, event_us, status, attempt)
 VALUES (?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?`

	// The letter is written with its own time and the blank with a later one (putBlankLetter). So
	// the letter stays blank, even if it is applied once more.
	blankLetter = `UPDATE dead_letters USING TIMESTAMP ? AND TTL ? SET detail = ''
 WHERE tenant = ? AND minute = ? AND shard = ? AND failed_at = ? AND partition = ? AND "offset" = ?`
)

// ApplyLetters writes letters. It then blanks the detail of those whose trigger was erased before
// they came, because the erasure could not find them.
func (s *Store) ApplyLetters(ctx context.Context, batch []sinks.EventRecord) error {
	return s.do(ctx, "apply dead letters", func(session *gocql.Session) error {
		now, err := clock(ctx, session)
		if err != nil {
			return fmt.Errorf("read the server's time: %w", err)
		}
		w := &writes{s: s, now: now, heads: map[int32]sinks.Progress{}}
		letters := w.putLetters(batch)
		if err := s.runAll(ctx, session, w.statements); err != nil {
			return err
		}
		w.statements = nil
		erased, err := s.erasedLetters(ctx, session, letters)
		if err != nil {
			return fmt.Errorf("find erasures: %w", err)
		}
		for _, l := range erased {
			w.putBlankLetter(&l, l.EndedUS)
		}
		return s.runAll(ctx, session, append(w.statements, w.letterProgress(s.opts.DeadLetters)...))
	})
}

// putLetters writes the rows of a batch, and once per batch the rows that index them.
func (w *writes) putLetters(batch []sinks.EventRecord) (letters []topics.Letter) {
	type minuteKey struct {
		tenant string
		minute int64
		shard  int
	}
	minutes, tenants := map[minuteKey]trigger.Instant{}, map[minuteKey]trigger.Instant{}
	for i := range batch {
		w.advance(&batch[i])
		l := batch[i].Letter
		if l == nil {
			continue
		}
		ttl, ok := w.ttl(sinks.LetterUntil(l.FailedAt, w.s.opts.Retention).Unix())
		if !ok {
			continue
		}
		letters = append(letters, *l)
		us, minute, shard := int64(l.FailedAt)*1000, sinks.MinuteOf(l.FailedAt), sinks.ShardOfLetter(l.Partition)
		w.add(insertLetter, l.Tenant, int32(minute), int8(shard), int64(l.FailedAt), l.Partition, l.Offset,
			l.Trigger, l.DueID, l.Attempt, l.Channel, l.Code, set(l.Detail), set(l.Endpoint), int64(l.ScheduledAt),
			set(int64(l.ExpiresAt)), set(l.Cut), us, ttl)
		w.add(insertByTrigger, l.Tenant, l.Trigger, sinks.EraOf(us), int64(l.FailedAt), l.Partition, l.Offset, us, ttl)
		k, t := minuteKey{l.Tenant, minute, shard}, minuteKey{tenant: l.Tenant, minute: int64(sinks.EraOf(us))}
		minutes[k], tenants[t] = max(minutes[k], l.FailedAt), max(tenants[t], l.FailedAt)
	}
	for k, failed := range minutes {
		ttl, _ := w.ttl(sinks.LetterUntil(failed, w.s.opts.Retention).Unix())
		us := int64(failed) * 1000
		w.add(insertMinute, k.tenant, sinks.EraOf(us), int32(k.minute), int8(k.shard), us, ttl)
	}
	for k, failed := range tenants {
		ttl, _ := w.ttl(sinks.LetterUntil(failed, w.s.opts.Retention).Unix())
		w.add(insertTenant, int(k.minute), k.tenant, int64(failed)*1000, ttl)
	}
	return letters
}

// putBlankLetter blanks a letter as of an erase. Its failure may be stamped later than the erase,
// by another clock (topics.LetterEnd.Ends).
func (w *writes) putBlankLetter(l *topics.Letter, us int64) {
	us = max(us, int64(l.FailedAt)*1000+1)
	if ttl, ok := w.ttl(sinks.LetterUntil(l.FailedAt, w.s.opts.Retention).Unix()); ok {
		w.add(blankLetter, us, ttl, l.Tenant, int32(sinks.MinuteOf(l.FailedAt)),
			int8(sinks.ShardOfLetter(l.Partition)), int64(l.FailedAt), l.Partition, l.Offset)
	}
}

// putLetterEnd writes what an event reports about dead letters.
func (w *writes) putLetterEnd(r *sinks.EventRecord) {
	end, ok := topics.LetterEndOf(&r.Event)
	if !ok {
		return
	}
	if ttl, ok := w.ttl(sinks.EventUntil(r.EventUS, w.s.opts.Retention).Unix()); ok {
		w.add(insertEnd, r.Tenant, r.Trigger, end.DueID, end.US, int8(end.Status), end.Attempt, end.US, ttl)
	}
}

// letterProgress is written with the offset as its timestamp, so a batch of only markers moves it
// too. Readers of lists wait for that.
func (w *writes) letterProgress(topic string) (all []statement) {
	for partition, p := range w.heads {
		all = append(all, statement{
			cql: insertProgress, args: []any{topic, partition, p.Next, p.EventUS, p.Next},
		})
	}
	return all
}

// erasedLetters returns the letters whose trigger was erased after they failed.
func (s *Store) erasedLetters(ctx context.Context, session *gocql.Session, letters []topics.Letter) (
	erased []topics.Letter, err error,
) {
	list := make([]*topics.Letter, len(letters))
	for i := range letters {
		list[i] = &letters[i]
	}
	if err := s.noteEnds(ctx, session, list, selectErased); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(letters, func(l topics.Letter) bool { return l.Status != topics.LetterErased }), nil
}

const (
	selectEnds = `SELECT due_id, event_us, status, attempt FROM dead_letter_ends
 WHERE tenant = ? AND trigger = ? AND due_id IN ('', ?)`
	selectErased = `SELECT due_id, event_us, status, attempt FROM dead_letter_ends
 WHERE tenant = ? AND trigger = ? AND due_id = ''`
)

// noteEnds sets what became of letters, several concurrently.
func (s *Store) noteEnds(ctx context.Context, session *gocql.Session, rows []*topics.Letter, cql string) error {
	return s.each(ctx, len(rows), func(ctx context.Context, i int) error {
		l := rows[i]
		args := []any{l.Tenant, l.Trigger, l.DueID}
		if cql == selectErased {
			args = args[:2]
		}
		it := session.Query(cql, args...).WithContext(ctx).Iter()
		var end topics.LetterEnd
		var status int8
		for it.Scan(&end.DueID, &end.US, &status, &end.Attempt) {
			end.Status = topics.LetterStatus(status)
			l.EndedBy([]topics.LetterEnd{end})
		}
		return it.Close()
	})
}

// each calls f for 0 to n-1 with bounded concurrency and returns the first error.
func (s *Store) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	slots := make(chan struct{}, s.opts.Concurrency)
	for i := range n {
		slots <- struct{}{}
		if ctx.Err() != nil {
			break
		}
		readers.Go(func() {
			defer func() { <-slots }()
			if err := f(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

// LetterProgress reads the positions of topic dead-letter.
func (s *Store) LetterProgress(ctx context.Context) (map[int32]sinks.Progress, error) {
	return s.progressOf(ctx, s.opts.DeadLetters)
}

// Letters reads minute by minute, with all shards of a minute concurrently.
func (s *Store) Letters(ctx context.Context, q topics.LetterQuery) (page topics.LetterPage, err error) {
	err = s.do(ctx, "read dead letters", func(session *gocql.Session) error {
		r := &letterReader{s: s, session: session}
		rows := r.rows
		if q.Trigger != "" {
			rows = r.ofTrigger
		}
		page, err = sinks.LetterPage(ctx, q, rows, func(ctx context.Context, rows []*topics.Letter) error {
			return s.noteEnds(ctx, session, rows, selectEnds)
		})
		return err
	})
	return page, err
}

type letterReader struct {
	s       *Store
	session *gocql.Session
}

// rows reads one tenant's letters, or those of one tenant after another.
func (r *letterReader) rows(ctx context.Context, q topics.LetterQuery, n int) (rows []topics.Letter, more bool,
	err error,
) {
	from, to := sinks.LetterBounds(&q, r.s.opts.Now(), r.s.opts.Retention)
	eras := erasBetween(from, min(to, trigger.At(r.s.opts.Now().Add(24*time.Hour))), q.Newest)
	tenants := []string{q.Tenant}
	if q.Tenant == "" {
		if tenants, err = r.tenants(ctx, eras, q.After.Tenant); err != nil {
			return nil, false, err
		}
	}
	for _, tenant := range tenants {
		one := letterRange{q: &q, tenant: tenant, from: from, to: to}
		if q.After.Tenant == tenant && !q.After.IsZero() {
			one.after = &q.After
		}
		for _, era := range eras {
			if rows, err = r.era(ctx, one, era, rows, n+1); err != nil {
				return nil, false, err
			}
			if len(rows) > n {
				return rows[:n], true, nil
			}
		}
	}
	return rows, false, nil
}

// letterRange is the part of a query for one tenant.
type letterRange struct {
	q        *topics.LetterQuery
	tenant   string
	from, to trigger.Instant
	after    *topics.LetterCursor // nil: from the beginning
}

// erasBetween returns the months of a range in the order in which they are read.
func erasBetween(from, to trigger.Instant, newest bool) (eras []int) {
	for at := from.Time().UTC(); ; {
		eras = append(eras, sinks.EraOf(at.UnixMicro()))
		at = time.Date(at.Year(), at.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if !at.Before(to.Time()) {
			break
		}
	}
	if newest {
		slices.Reverse(eras)
	}
	return eras
}

// tenants returns the tenants with letters in some months, from a given one on, sorted.
func (r *letterReader) tenants(ctx context.Context, eras []int, from string) (all []string, err error) {
	for _, era := range eras {
		it := r.session.Query(`SELECT tenant FROM dead_letter_tenants WHERE era = ? AND tenant >= ?`, era, from).
			WithContext(ctx).PageSize(1000).Iter()
		for tenant := ""; it.Scan(&tenant); {
			all = append(all, tenant)
		}
		if err := it.Close(); err != nil {
			return nil, err
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

const (
	selectMinutes = `SELECT minute, shard FROM dead_letter_minutes
 WHERE tenant = ? AND era = ? AND minute >= ? AND minute <= ?`
	newestMinutes = selectMinutes + ` ORDER BY minute DESC, shard DESC`
)

// era adds the letters of one month until there are n.
func (r *letterReader) era(ctx context.Context, g letterRange, era int, rows []topics.Letter, n int) (
	[]topics.Letter, error,
) {
	first, cql := sinks.MinuteOf(g.from), selectMinutes
	last := sinks.MinuteOf(min(g.to, trigger.Instant(lastExpiry*1000)))
	switch {
	case g.after != nil && g.q.Newest:
		last = min(last, sinks.MinuteOf(g.after.FailedAt))
	case g.after != nil:
		first = max(first, sinks.MinuteOf(g.after.FailedAt))
	}
	if g.q.Newest {
		cql = newestMinutes
	}
	it := r.session.Query(cql, g.tenant, era, int32(first), int32(last)).WithContext(ctx).PageSize(1000).Iter()
	var minute, current int32
	var shard int8
	var shards []int8
	flush := func() (err error) {
		if len(shards) > 0 && len(rows) < n {
			rows, err = r.minute(ctx, g, current, shards, rows, n)
		}
		shards = shards[:0]
		return err
	}
	for it.Scan(&minute, &shard) {
		if minute != current {
			if err := flush(); err != nil || len(rows) >= n {
				it.Close()
				return rows, err
			}
			current = minute
		}
		shards = append(shards, shard)
	}
	if err := it.Close(); err != nil {
		return rows, err
	}
	return rows, flush()
}

const (
	letterColumns = `failed_at, partition, "offset", trigger, due_id, attempt, channel, code, detail, endpoint, scheduled_at,
 expires_at, truncated`
	selectLetters = `SELECT ` + letterColumns + ` FROM dead_letters WHERE tenant = ? AND minute = ? AND shard = ?
 AND (failed_at, partition, "offset") > (?, ?, ?) AND (failed_at) < (?) LIMIT ?`
	newestLetters = `SELECT ` + letterColumns + ` FROM dead_letters WHERE tenant = ? AND minute = ? AND shard = ?
 AND (failed_at, partition, "offset") < (?, ?, ?) AND (failed_at) >= (?)
 ORDER BY failed_at DESC, partition DESC, "offset" DESC LIMIT ?`
)

// before returns the last position before an instant.
func before(at trigger.Instant) topics.LetterCursor {
	return topics.LetterCursor{FailedAt: at - 1, Partition: 1<<31 - 1, Offset: 1<<63 - 1}
}

// minute adds the first letters of all shards of a minute until there are n.
func (r *letterReader) minute(ctx context.Context, g letterRange, minute int32, shards []int8, rows []topics.Letter,
	n int,
) ([]topics.Letter, error) {
	want := n - len(rows)
	cql, at, end := selectLetters, before(g.from), g.to
	if g.q.Newest {
		cql, at, end = newestLetters, topics.LetterCursor{FailedAt: g.to}, g.from
	}
	if g.after != nil && (g.after.Compare(at) < 0) == g.q.Newest {
		at = *g.after
	}
	lists := make([][]topics.Letter, len(shards))
	err := r.s.each(ctx, len(shards), func(ctx context.Context, i int) error {
		it := r.session.Query(cql, g.tenant, minute, shards[i], int64(at.FailedAt), at.Partition, at.Offset,
			int64(end), want).WithContext(ctx).PageSize(want).Iter()
		for l := (topics.Letter{Tenant: g.tenant}); it.Scan(letterDest(&l)...); l = (topics.Letter{Tenant: g.tenant}) {
			if l.DueID != "" { // otherwise only the erasure's blanks remain of an expired row
				lists[i] = append(lists[i], l)
			}
		}
		return it.Close()
	})
	if err != nil {
		return rows, err
	}
	all := slices.Concat(lists...)
	slices.SortFunc(all, func(a, b topics.Letter) int {
		if g.q.Newest {
			a, b = b, a
		}
		return a.Cursor().Compare(b.Cursor())
	})
	return append(rows, all[:min(want, len(all))]...), nil
}

func letterDest(l *topics.Letter) []any {
	return []any{
		(*int64)(&l.FailedAt), &l.Partition, &l.Offset, &l.Trigger, &l.DueID, &l.Attempt, &l.Channel, &l.Code,
		&l.Detail, &l.Endpoint, (*int64)(&l.ScheduledAt), (*int64)(&l.ExpiresAt), &l.Cut,
	}
}

const (
	selectPositions = `SELECT failed_at, partition, "offset" FROM dead_letters_by_trigger
 WHERE tenant = ? AND trigger = ? AND era = ? AND (failed_at, partition, "offset") > (?, ?, ?) AND (failed_at) < (?)
 LIMIT ?`
	newestPositions = `SELECT failed_at, partition, "offset" FROM dead_letters_by_trigger
 WHERE tenant = ? AND trigger = ? AND era = ? AND (failed_at, partition, "offset") < (?, ?, ?) AND (failed_at) >= (?)
 ORDER BY failed_at DESC, partition DESC, "offset" DESC LIMIT ?`
	selectLetter = `SELECT ` + letterColumns + ` FROM dead_letters WHERE tenant = ? AND minute = ? AND shard = ?
 AND failed_at = ? AND partition = ? AND "offset" = ?`
)

// ofTrigger reads the letters of one trigger.
func (r *letterReader) ofTrigger(ctx context.Context, q topics.LetterQuery, n int) ([]topics.Letter, bool, error) {
	from, to := sinks.LetterBounds(&q, r.s.opts.Now(), r.s.opts.Retention)
	eras := erasBetween(from, min(to, trigger.At(r.s.opts.Now().Add(24*time.Hour))), q.Newest)
	cql, at, end := selectPositions, before(from), to
	if q.Newest {
		cql, at, end = newestPositions, topics.LetterCursor{FailedAt: to}, from
	}
	if !q.After.IsZero() && (q.After.Compare(at) < 0) == q.Newest {
		at = q.After
	}
	var positions []topics.LetterCursor
	for _, era := range eras {
		it := r.session.Query(cql, q.Tenant, q.Trigger, era, int64(at.FailedAt), at.Partition, at.Offset, int64(end),
			n+1-len(positions)).WithContext(ctx).Iter()
		for p := (topics.LetterCursor{Tenant: q.Tenant}); it.Scan((*int64)(&p.FailedAt), &p.Partition, &p.Offset); {
			positions = append(positions, p)
		}
		if err := it.Close(); err != nil {
			return nil, false, err
		}
		if len(positions) > n {
			break
		}
	}
	more := len(positions) > n
	positions = positions[:min(n, len(positions))]
	rows := make([]topics.Letter, len(positions))
	err := r.s.each(ctx, len(positions), func(ctx context.Context, i int) error {
		return r.letter(ctx, positions[i], &rows[i])
	})
	return slices.DeleteFunc(rows, func(l topics.Letter) bool { return l.DueID == "" }), more, err
}

// letter reads one letter. l stays empty if it has just expired.
func (r *letterReader) letter(ctx context.Context, p topics.LetterCursor, l *topics.Letter) error {
	it := r.session.Query(selectLetter, p.Tenant, int32(sinks.MinuteOf(p.FailedAt)),
		int8(sinks.ShardOfLetter(p.Partition)), int64(p.FailedAt), p.Partition, p.Offset).WithContext(ctx).Iter()
	l.Tenant = p.Tenant
	it.Scan(letterDest(l)...)
	return it.Close()
}

// eraseLetters blanks the details of the letters that a trigger had when it was erased, because
// an endpoint's answer may name a user.
func (s *Store) eraseLetters(ctx context.Context, session *gocql.Session, e erasure, now int64) error {
	r := &letterReader{s: s, session: session}
	q := topics.LetterQuery{Tenant: e.tenant, Trigger: e.key}
	end := topics.LetterEnd{US: e.us, Status: topics.LetterErased}
	for {
		rows, more, err := r.ofTrigger(ctx, q, eraseAtOnce)
		if err != nil {
			return err
		}
		w := &writes{s: s, now: now}
		for i := range rows {
			if q.After = rows[i].Cursor(); end.Ends(&rows[i]) {
				w.putBlankLetter(&rows[i], e.us)
			}
		}
		if err := s.runAll(ctx, session, w.statements); err != nil || !more || len(rows) == 0 {
			return err
		}
	}
}

// eraseAtOnce bounds the letters that an erasure holds in memory.
const eraseAtOnce = 1000
