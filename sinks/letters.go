package sinks

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Letters is the part of the history with dead letters. Topic dead-letter gives their rows. The
// events, through Writer.Apply, give what became of each. The two topics are read independently.
// So an end may be there before its letter, and reading joins them.
type Letters interface {
	// ApplyLetters makes the rows of a batch of records with a Letter durable, like Apply.
	ApplyLetters(ctx context.Context, batch []EventRecord) error

	// LetterProgress returns the position of every partition of topic dead-letter.
	LetterProgress(ctx context.Context) (map[int32]Progress, error)

	// Letters lists dead letters by tenant and time.
	Letters(ctx context.Context, q topics.LetterQuery) (topics.LetterPage, error)
}

// LettersOf returns a history in the form that the projector of topic dead-letter needs.
func LettersOf(h History) Writer { return letterWriter{h} }

type letterWriter struct{ h History }

func (w letterWriter) Apply(ctx context.Context, batch []EventRecord) error {
	return w.h.ApplyLetters(ctx, batch)
}

func (w letterWriter) Progress(ctx context.Context) (map[int32]Progress, error) {
	return w.h.LetterProgress(ctx)
}

func (w letterWriter) OwnsOffsets() bool { return w.h.OwnsOffsets() }

// NewLetterProjector is NewProjector for topic dead-letter.
func NewLetterProjector(h History, o Options) (*Projector, error) {
	setDefault(&o.Topic, "waterclock.dead-letter")
	setDefault(&o.Group, "waterclock-history-letters")
	p, err := NewProjector(LettersOf(h), o)
	if err == nil {
		p.decode = letterRecordOf
	}
	return p, err
}

// letterRecordOf decodes a record of topic dead-letter; see recordOf.
func letterRecordOf(r *kgo.Record) (rec EventRecord, err error) {
	rec = EventRecord{Partition: r.Partition, Offset: r.Offset, Poison: true}
	if r.Attrs.IsControl() {
		return rec, nil
	}
	l, err := topics.LetterOf(kafkarec.Of(r))
	if err != nil {
		return rec, err
	}
	rec.Poison, rec.Letter = false, &l
	rec.Tenant, rec.Trigger, rec.EventUS = l.Tenant, l.Trigger, int64(l.FailedAt)*1000
	return rec, nil
}

// LetterUntil returns when a letter's row expires: when its age reaches the retention.
func LetterUntil(failed trigger.Instant, retention time.Duration) time.Time {
	return failed.Time().Add(retention)
}

// LetterBounds narrow a query to rows that have not expired at now.
func LetterBounds(q *topics.LetterQuery, now time.Time, retention time.Duration) (from, to trigger.Instant) {
	from, to = max(q.From, trigger.At(now.Add(-retention))+1), q.To
	if to == 0 {
		to = trigger.Instant(topics.LastEventUS / 1000)
	}
	return from, to
}

// LetterRows reads at most n letters of a query after its cursor, whatever became of them. It may
// skip letters that do not match. more reports whether there are others after the last.
type LetterRows func(ctx context.Context, q topics.LetterQuery, n int) (rows []topics.Letter, more bool, err error)

// LetterEnds sets what became of letters.
type LetterEnds func(ctx context.Context, rows []*topics.Letter) error

// Bounds of one page: how many letters it reads in all, and at once.
const (
	maxVisited  = 10_000
	lettersOnce = 1000
)

// LetterPage assembles a page. The stores only read in order and find ends; this function
// filters. A page ends early when half of the time until ctx's deadline has passed. On a slow
// store, a short page with a cursor is better than none.
func LetterPage(ctx context.Context, q topics.LetterQuery, rows LetterRows, ends LetterEnds) (
	page topics.LetterPage, err error,
) {
	limit := PageSize(q.Limit)
	slow := halfTime(ctx)
	for n := limit; ; n = lettersOnce {
		list, more, err := rows(ctx, q, n)
		if err != nil {
			page.Visited += askedOf(ctx, n)
			return page, err
		}
		candidates := make([]*topics.Letter, 0, len(list))
		for i := range list {
			if q.Matches(&list[i]) {
				candidates = append(candidates, &list[i])
			}
		}
		if err := ends(ctx, candidates); err != nil {
			page.Visited += len(list)
			return page, err
		}
		for i := range list {
			l := &list[i]
			q.After = l.Cursor()
			page.Visited++
			if !q.Matches(l) || !q.Wants(l.Status) {
				continue
			}
			if page.Items = append(page.Items, *l); len(page.Items) == limit {
				if more || i < len(list)-1 {
					page.Next = q.After
				}
				return page, nil
			}
		}
		if !more {
			return page, nil
		}
		if page.Visited >= maxVisited || slow() {
			page.Next = q.After
			return page, nil
		}
	}
}

// askedOf is how many of n letters count as visited where the store failed: all that it was asked for if its caller
// left or its time was up, since nobody knows how many it read.
func askedOf(ctx context.Context, n int) int {
	if ctx.Err() != nil {
		return n
	}
	return 0
}

// halfTime reports when half of the time until ctx's deadline has passed; without a deadline,
// never.
func halfTime(ctx context.Context) func() bool {
	begun := time.Now()
	deadline, ok := ctx.Deadline()
	return func() bool { return ok && time.Since(begun) > deadline.Sub(begun)/2 }
}

// LetterDigest returns the row of a letter. What became of it is in the row of an event.
func LetterDigest(l *topics.Letter, retention time.Duration) Row {
	d := newDigest()
	d.text(l.DueID, l.Channel, l.Code, l.Endpoint) // without the detail, which an erasure removes
	d.number(int64(l.Attempt), int64(l.FailedAt), int64(l.ScheduledAt), int64(l.ExpiresAt), l.Offset)
	return Row{
		Tenant: l.Tenant, Trigger: l.Trigger, EventUS: int64(l.FailedAt) * 1000, Partition: l.Partition,
		Until: LetterUntil(l.FailedAt, retention).Unix(), Digest: d.sum(),
	}
}

// LetterEndDigest returns the row of an event about dead letters.
func LetterEndDigest(tenant, key string, e *topics.LetterEnd, retention time.Duration) Row {
	d := newDigest()
	d.text(e.DueID)
	d.number(int64(e.Attempt), e.US, int64(e.Status))
	return Row{
		Tenant: tenant, Trigger: key, EventUS: e.US, Partition: -1,
		Until: EventUntil(e.US, retention).Unix(), Digest: d.sum(),
	}
}

// ShardOfLetter spreads the letters of one minute of a tenant over the partitions of a table.
func ShardOfLetter(partition int32) int { return int(partition) % LetterShards }

// LetterShards is the number of shards of a minute of a tenant's letters.
const LetterShards = 16
