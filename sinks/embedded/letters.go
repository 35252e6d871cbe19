package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/go-json-experiment/json"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Dead letters (docs/formats/history.md). A value of tables d, b and z begins with the time from
// which the row's age counts, in milliseconds; the sweep reads only that. In table d the letter
// follows as JSON, in the others nothing. No row is ever changed: what became of a letter is a
// row of z, and readers join them.

// ApplyLetters writes letters and their offsets as one Pebble batch.
func (s *Store) ApplyLetters(ctx context.Context, batch []sinks.EventRecord) error {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return err
	}
	defer leave()
	out := s.db.NewBatch()
	defer out.Close()
	heads := map[int32]sinks.Progress{}
	for i := range batch {
		r := &batch[i]
		p := heads[r.Partition]
		heads[r.Partition] = sinks.Progress{Next: max(p.Next, r.Offset+1), EventUS: max(p.EventUS, r.EventUS)}
		if r.Letter == nil || !sinks.LetterUntil(r.Letter.FailedAt, s.retention()).After(s.opts.Now()) {
			continue
		}
		l := *r.Letter
		if err := errors.Join(s.blankErased(&l), putLetter(out, &l)); err != nil {
			return fmt.Errorf("apply dead letters: %w", err)
		}
	}
	for partition, p := range heads {
		was := s.letters[partition]
		if p.EventUS < was.EventUS && p.Next <= was.Next {
			delete(heads, partition) // it was applied before; otherwise the topic was recreated
			continue
		}
		p.EventUS = max(p.EventUS, was.EventUS)
		heads[partition] = p
		if err := out.Set(progressKey(tableLetterProgress, partition), encodeProgress(p), nil); err != nil {
			return fmt.Errorf("apply dead letters: %w", err)
		}
	}
	if err := s.commit(out); err != nil {
		return fmt.Errorf("apply dead letters: %w", err)
	}
	for partition, p := range heads {
		s.letters[partition] = p
	}
	return nil
}

func putLetter(out *pebble.Batch, l *topics.Letter) error {
	began := beganAt(int64(l.FailedAt))
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	at := l.Cursor()
	return errors.Join(out.Set(letterKey(at), append(slices.Clone(began), text...), nil),
		out.Set(appendPosition(triggerPrefix(tableByLetter, l.Tenant, l.Trigger), at), began, nil))
}

// blankErased blanks the detail of a letter whose trigger was erased since.
func (s *Store) blankErased(l *topics.Letter) error {
	is := *l
	prefix := appendText(triggerPrefix(tableEnds, l.Tenant, l.Trigger), "")
	if err := s.scan(prefix, after(prefix), func(k, _ []byte) error {
		end, err := takeEnd("", k[len(prefix):])
		is.EndedBy([]topics.LetterEnd{end})
		return err
	}); err != nil {
		return err
	}
	if is.Status == topics.LetterErased {
		l.Detail = ""
	}
	return nil
}

// eraseLetters blanks the details of the letters that a trigger had when it was erased, because
// an endpoint's answer may name a user.
func (c *change) eraseLetters(tenant, key string, us int64) error {
	end := topics.LetterEnd{US: us, Status: topics.LetterErased}
	prefix := triggerPrefix(tableByLetter, tenant, key)
	return c.s.scan(prefix, after(prefix), func(k, _ []byte) error {
		at, err := takePosition(tenant, k[len(prefix):])
		if err != nil {
			return err
		}
		l, ok, err := c.s.letter(at)
		if err != nil || !ok || !end.Ends(&l) {
			return err
		}
		l.Detail = ""
		return putLetter(c.out, &l)
	})
}

// putLetterEnd writes what an event reports about dead letters.
func (c *change) putLetterEnd(r *sinks.EventRecord) error {
	end, ok := topics.LetterEndOf(&r.Event)
	if !ok {
		return nil
	}
	k := appendText(triggerPrefix(tableEnds, r.Tenant, r.Trigger), end.DueID)
	k = append(appendInt(k, end.US), byte(end.Status))
	return c.out.Set(appendInt(k, int64(end.Attempt)), beganAt(end.US/1000), nil)
}

func beganAt(ms int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(ms)) }

// liveSince reports whether a row has not expired, by its value; see beganAt.
func (s *Store) liveSince(v []byte) (bool, error) {
	if len(v) < 8 {
		return false, errValue
	}
	began := trigger.Instant(binary.BigEndian.Uint64(v))
	return sinks.LetterUntil(began, s.retention()).After(s.opts.Now()), nil
}

// dropLetters removes what readers no longer see.
func (s *Store) dropLetters() (err error) {
	for _, table := range []byte{tableLetters, tableByLetter, tableEnds} {
		err = errors.Join(err, s.dropRows([]byte{table}, after([]byte{table}), s.liveSince))
	}
	return err
}

func letterKey(c topics.LetterCursor) []byte {
	return appendPosition(appendText([]byte{tableLetters}, c.Tenant), c)
}

func appendPosition(b []byte, c topics.LetterCursor) []byte {
	return appendInt(appendInt(appendInt(b, int64(c.FailedAt)), int64(c.Partition)), c.Offset)
}

func takePosition(tenant string, k []byte) (c topics.LetterCursor, err error) {
	var numbers [3]int64
	for i := range numbers {
		if numbers[i], k, err = takeInt(k); err != nil {
			return c, err
		}
	}
	return topics.LetterCursor{
		Tenant: tenant, FailedAt: trigger.Instant(numbers[0]), Partition: int32(numbers[1]), Offset: numbers[2],
	}, nil
}

func decodeLetter(v []byte) (l topics.Letter, err error) {
	if len(v) < 8 {
		return l, errValue
	}
	if err := json.Unmarshal(v[8:], &l); err != nil {
		return l, fmt.Errorf("decode dead letter: %w", err)
	}
	return l, nil
}

// LetterProgress reads the positions of all partitions of topic dead-letter.
func (s *Store) LetterProgress(context.Context) (map[int32]sinks.Progress, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	return s.progress(tableLetterProgress)
}

// Letters reads letters in key order.
func (s *Store) Letters(ctx context.Context, q topics.LetterQuery) (page topics.LetterPage, err error) {
	if err := s.enter(); err != nil {
		return page, err
	}
	defer s.leave()
	rows := s.letterRows
	if q.Trigger != "" {
		rows = s.lettersOfTrigger
	}
	page, err = sinks.LetterPage(ctx, q, rows, s.endsOf)
	return page, wrap("read dead letters", err)
}

// letterRows reads one tenant's letters, or those of one tenant after another.
func (s *Store) letterRows(ctx context.Context, q topics.LetterQuery, n int) (rows []topics.Letter, more bool,
	err error,
) {
	tenant, there := q.Tenant, true
	if tenant == "" {
		if tenant, there, err = s.letterTenant(q.After); err != nil {
			return nil, false, err
		}
	}
	for there {
		err := s.walk(s.letterRange(&q, tenant), q.Newest, func(_, v []byte) error {
			if len(rows) == n {
				more = true
				return errStop
			}
			l, err := decodeLetter(v)
			rows = append(rows, l)
			return errors.Join(err, ctx.Err())
		})
		if err != nil || more || q.Tenant != "" {
			return rows, more, err
		}
		if tenant, there, err = s.nextTenant(after(appendText([]byte{tableLetters}, tenant))); err != nil {
			return nil, false, err
		}
	}
	return rows, more, nil
}

// letterTenant returns the tenant at which a list of all tenants continues.
func (s *Store) letterTenant(at topics.LetterCursor) (tenant string, ok bool, err error) {
	return s.nextTenant(appendText([]byte{tableLetters}, at.Tenant))
}

// nextTenant returns the first tenant with letters from a key on.
func (s *Store) nextTenant(from []byte) (tenant string, ok bool, err error) {
	err = s.scan(from, after([]byte{tableLetters}), func(k, _ []byte) error {
		tenant, _, err = takeText(k[1:])
		ok = true
		return errors.Join(err, errStop)
	})
	return tenant, ok, err
}

// letterRange returns the key range of a query for a tenant, after its cursor.
func (s *Store) letterRange(q *topics.LetterQuery, tenant string) [2][]byte {
	from, to := sinks.LetterBounds(q, s.opts.Now(), s.retention())
	prefix := appendText([]byte{tableLetters}, tenant)
	bounds := [2][]byte{appendInt(slices.Clone(prefix), int64(from)), appendInt(slices.Clone(prefix), int64(to))}
	narrow(&bounds, q, tenant, letterKey(q.After))
	return bounds
}

// narrow moves the beginning or the end of a range to the cursor.
func narrow(bounds *[2][]byte, q *topics.LetterQuery, tenant string, at []byte) {
	switch {
	case q.After.IsZero() || q.After.Tenant != tenant:
	case q.Newest:
		if string(at) < string(bounds[1]) {
			bounds[1] = at
		}
	default:
		if at = append(at, 0); string(at) > string(bounds[0]) {
			bounds[0] = at
		}
	}
	if string(bounds[0]) > string(bounds[1]) {
		bounds[0] = bounds[1]
	}
}

// lettersOfTrigger reads the letters of one trigger.
func (s *Store) lettersOfTrigger(ctx context.Context, q topics.LetterQuery, n int) (rows []topics.Letter, more bool,
	err error,
) {
	from, to := sinks.LetterBounds(&q, s.opts.Now(), s.retention())
	prefix := triggerPrefix(tableByLetter, q.Tenant, q.Trigger)
	bounds := [2][]byte{appendInt(slices.Clone(prefix), int64(from)), appendInt(slices.Clone(prefix), int64(to))}
	narrow(&bounds, &q, q.Tenant, appendPosition(slices.Clone(prefix), q.After))
	err = s.walk(bounds, q.Newest, func(k, _ []byte) error {
		if len(rows) == n {
			more = true
			return errStop
		}
		at, err := takePosition(q.Tenant, k[len(prefix):])
		if err != nil {
			return err
		}
		l, ok, err := s.letter(at)
		if ok {
			rows = append(rows, l)
		}
		return errors.Join(err, ctx.Err())
	})
	return rows, more, err
}

// letter reads one letter. ok is false if it was swept meanwhile.
func (s *Store) letter(at topics.LetterCursor) (l topics.Letter, ok bool, err error) {
	v, closer, err := s.db.Get(letterKey(at))
	if errors.Is(err, pebble.ErrNotFound) {
		return l, false, nil
	}
	if err != nil {
		return l, false, err
	}
	l, err = decodeLetter(v)
	return l, err == nil, errors.Join(err, closer.Close())
}

// endsOf sets what became of letters. One iterator reads their ranges in key order, and seeks only
// where it is not there already: an iterator for each took an eighth of the CPU of a redrive.
func (s *Store) endsOf(ctx context.Context, rows []*topics.Letter) (err error) {
	it, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: []byte{tableEnds}, UpperBound: after([]byte{tableEnds}),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	ranges := make([]endRange, 0, 2*len(rows))
	for _, l := range rows {
		ranges = append(ranges, endRangeOf(l, ""), endRangeOf(l, l.DueID)) // ends of the trigger, and of the occurrence
	}
	slices.SortStableFunc(ranges, func(a, b endRange) int { return bytes.Compare(a.prefix, b.prefix) })
	for i := range ranges {
		back := i == 0 || bytes.Equal(ranges[i].prefix, ranges[i-1].prefix)
		if err := errors.Join(ranges[i].note(it, back), ctx.Err()); err != nil {
			return err
		}
	}
	return nil
}

// endRange is the key range of what events report about a letter under one ce_id.
type endRange struct {
	letter *topics.Letter
	id     string
	prefix []byte
}

func endRangeOf(l *topics.Letter, id string) endRange {
	return endRange{l, id, appendText(triggerPrefix(tableEnds, l.Tenant, l.Trigger), id)}
}

// note reads the range. Unless it must go back, the iterator is at the first key behind an earlier
// range, or at the end. So if its key is not before this range, there is nothing to skip.
func (p *endRange) note(it *pebble.Iterator, back bool) error {
	ok := it.Valid()
	if back || ok && bytes.Compare(it.Key(), p.prefix) < 0 {
		ok = it.SeekGE(p.prefix)
	}
	for ; ok && bytes.HasPrefix(it.Key(), p.prefix); ok = it.Next() {
		end, err := takeEnd(p.id, it.Key()[len(p.prefix):])
		if err != nil {
			return err
		}
		p.letter.EndedBy([]topics.LetterEnd{end})
	}
	return it.Error()
}

func takeEnd(id string, k []byte) (end topics.LetterEnd, err error) {
	end.DueID = id
	if end.US, k, err = takeInt(k); err != nil {
		return end, err
	}
	if len(k) != 9 {
		return end, errKey
	}
	end.Status = topics.LetterStatus(k[0])
	attempt, _, err := takeInt(k[1:])
	end.Attempt = int(attempt)
	return end, err
}

func (s *Store) letterDigest(_, v []byte) (sinks.Row, bool, error) {
	l, err := decodeLetter(v)
	if err != nil {
		return sinks.Row{}, false, err
	}
	live, err := s.liveSince(v)
	return sinks.LetterDigest(&l, s.retention()), live, err
}

func (s *Store) letterEndDigest(k, v []byte) (sinks.Row, bool, error) {
	tenant, k, err := takeText(k[1:])
	if err != nil {
		return sinks.Row{}, false, err
	}
	key, k, err := takeText(k)
	if err != nil {
		return sinks.Row{}, false, err
	}
	id, k, err := takeText(k)
	if err != nil {
		return sinks.Row{}, false, err
	}
	end, err := takeEnd(id, k)
	if err != nil {
		return sinks.Row{}, false, err
	}
	live, err := s.liveSince(v)
	return sinks.LetterEndDigest(tenant, key, &end, s.retention()), live, err
}
