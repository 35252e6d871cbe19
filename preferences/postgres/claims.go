package postgres

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waterclock/waterclock/preferences"
)

// lockedAtOnce is how many users a transaction locks. PostgreSQL has space for 64 locks per
// connection (max_locks_per_transaction).
const lockedAtOnce = 40

// Admit decides in several transactions, each for some of the messages. If one fails, the
// decisions of the earlier ones stay.
func (s *Store) Admit(
	ctx context.Context, at time.Time, l preferences.Limits, list []preferences.Message,
) (codes []string, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		codes = make([]string, 0, len(list))
		for some := range slices.Chunk(list, lockedAtOnce) {
			err := pgx.BeginTxFunc(ctx, s.pool, eachSees, func(tx pgx.Tx) error {
				decided, err := admit(ctx, tx, at, l, some)
				codes = append(codes, decided...)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return codes, err
}

// eachSees is the isolation that the statements below rely on. A database may have another one by
// default.
var eachSees = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}

// The statements of Admit. Each statement sees what was committed before it began. So the second
// and third see what other transactions wrote before they released the locks. A process that
// freezes in the middle loses its locks after 3 s.
const (
	idleBound  = `SELECT set_config('idle_in_transaction_session_timeout', '3000', true)`
	lockUsers  = `SELECT pg_advisory_xact_lock(k) FROM unnest($1::bigint[]) AS k`
	readClaims = `
SELECT m.place, c.refused
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) WITH ORDINALITY AS m (tenant, user_id, channel, ce_id, place)
JOIN waterclock_message_claims c USING (tenant, user_id, channel, ce_id)`
	readSent = `
SELECT m.place, s.ce_id, s.occurrence, s.type, s.claimed_at
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[])
    WITH ORDINALITY AS m (tenant, user_id, channel, occurrence, type, place),
LATERAL (
    (SELECT * FROM waterclock_message_claims c
    WHERE c.tenant = m.tenant AND c.user_id = m.user_id AND c.channel = m.channel AND c.refused = ''
        AND c.claimed_at > $6
    ORDER BY c.claimed_at DESC LIMIT $7)
    UNION ALL
    (SELECT * FROM waterclock_message_claims c
    WHERE c.tenant = m.tenant AND c.user_id = m.user_id AND c.channel = m.channel AND c.refused = ''
        AND c.claimed_at > $6 AND c.type = m.type AND c.type <> '' AND c.occurrence <> m.occurrence
    ORDER BY c.claimed_at DESC LIMIT 1)
) AS s`
	writeClaims = `
INSERT INTO waterclock_message_claims AS c
    (tenant, user_id, channel, ce_id, occurrence, type, refused, claimed_at, kept_until)
SELECT m.*, $8::timestamptz, $9::timestamptz
FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) AS m
ON CONFLICT (tenant, user_id, channel, ce_id) DO UPDATE SET kept_until = greatest(c.kept_until, excluded.kept_until)`
)

// columns holds messages as arrays, one per column, for PostgreSQL's unnest.
type columns struct{ tenants, users, channels, ids, occurrences, types []string }

func columnsOf(list []preferences.Message) (c columns) {
	for _, m := range list {
		c.tenants, c.users = append(c.tenants, m.User.Tenant), append(c.users, m.User.ID)
		c.channels, c.ids = append(c.channels, m.Channel), append(c.ids, m.ID)
		c.occurrences, c.types = append(c.occurrences, m.Occurrence), append(c.types, m.Type)
	}
	return c
}

// recipient is the unit of locks and ledgers.
type recipient struct{ tenant, user, channel string }

func recipientOf(m preferences.Message) recipient {
	return recipient{m.User.Tenant, m.User.ID, m.Channel}
}

// lock returns the number of a recipient's lock. If two recipients share a number, they only wait
// for each other.
func (r recipient) lock() int64 {
	h := fnv.New64a()
	h.Write([]byte("waterclock\x00" + r.tenant + "\x00" + r.user + "\x00" + r.channel))
	return int64(h.Sum64())
}

func admit(
	ctx context.Context, tx pgx.Tx, at time.Time, l preferences.Limits, list []preferences.Message,
) ([]string, error) {
	ledgers, err := readLedgers(ctx, tx, at, l, list)
	if err != nil {
		return nil, err
	}
	codes := make([]string, len(list))
	var once []preferences.Message // a statement must not write a row twice
	var refused []string
	written := map[string]bool{}
	for i, m := range list {
		codes[i] = ledgers[recipientOf(m)].Admit(l, at, m)
		if id := m.User.Tenant + "\x00" + m.User.ID + "\x00" + m.Channel + "\x00" + m.ID; !written[id] {
			written[id] = true
			once, refused = append(once, m), append(refused, codes[i])
		}
	}
	c := columnsOf(once)
	_, err = tx.Exec(ctx, writeClaims, c.tenants, c.users, c.channels, c.ids, c.occurrences, c.types, refused,
		at, l.Until(at))
	return codes, err
}

// readLedgers locks the recipients in an order common to all transactions, which prevents
// deadlocks. It then reads what was sent to them.
func readLedgers(
	ctx context.Context, tx pgx.Tx, at time.Time, l preferences.Limits, list []preferences.Message,
) (map[recipient]*preferences.Ledger, error) {
	ledgers, locks := map[recipient]*preferences.Ledger{}, []int64{}
	for _, m := range list {
		if r := recipientOf(m); ledgers[r] == nil {
			ledgers[r] = &preferences.Ledger{Known: map[string]string{}}
			locks = append(locks, r.lock())
		}
	}
	slices.Sort(locks)
	c := columnsOf(list)
	var b pgx.Batch
	b.Queue(idleBound)
	b.Queue(lockUsers, slices.Compact(locks))
	b.Queue(readClaims, c.tenants, c.users, c.channels, c.ids).Query(func(rows pgx.Rows) error {
		var row int64
		var code string
		_, err := pgx.ForEachRow(rows, []any{&row, &code}, func() error {
			m := list[row-1]
			ledgers[recipientOf(m)].Known[m.ID] = code
			return nil
		})
		return err
	})
	b.Queue(readSent, c.tenants, c.users, c.channels, c.occurrences, c.types, l.Since(at), l.Newest()).
		Query(func(rows pgx.Rows) error {
			var row int64
			var one preferences.Claim
			_, err := pgx.ForEachRow(rows, []any{&row, &one.ID, &one.Occurrence, &one.Type, &one.At}, func() error {
				g := ledgers[recipientOf(list[row-1])]
				g.Sent = append(g.Sent, one)
				return nil
			})
			return err
		})
	return ledgers, tx.SendBatch(ctx, &b).Close()
}

const dropMessage = `
DELETE FROM waterclock_message_claims WHERE tenant = $1 AND user_id = $2 AND channel = $3 AND ce_id = $4`

// Release drops the claim of a message.
func (s *Store) Release(ctx context.Context, m preferences.Message) error {
	return s.do(ctx, func(ctx context.Context) error {
		_, err := s.pool.Exec(ctx, dropMessage, m.User.Tenant, m.User.ID, m.Channel, m.ID)
		return err
	})
}

const sweepClaims = `
DELETE FROM waterclock_message_claims WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM waterclock_message_claims WHERE kept_until <= $1
    ORDER BY kept_until LIMIT $2 FOR UPDATE SKIP LOCKED
))`

// Sweep drops expired claims, and erasures that were done long ago.
func (s *Store) Sweep(ctx context.Context, now time.Time, most int) (dropped int, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		if _, err := s.pool.Exec(ctx, sweepErasures, now.Add(-preferences.ErasureKept)); err != nil {
			return err
		}
		tag, err := s.pool.Exec(ctx, sweepClaims, now, most)
		dropped = int(tag.RowsAffected())
		return err
	})
	return dropped, err
}
