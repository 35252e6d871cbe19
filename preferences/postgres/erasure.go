package postgres

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waterclock/waterclock/preferences"
)

// The statements of Erase. An unfinished erasure of the user keeps its row. The new one covers
// both: for each partition, the larger end offset counts.
const (
	dropDocument = `DELETE FROM waterclock_preferences WHERE tenant = $1 AND user_id = $2`
	dropZoneMove = `DELETE FROM waterclock_zone_moves WHERE tenant = $1 AND user_id = $2`
	dropMessages = `DELETE FROM waterclock_message_claims WHERE tenant = $1 AND user_id = $2`
	putErasure   = `
INSERT INTO waterclock_erasures AS e (user_hash, tenant, user_id, erased_at, before) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (user_hash) DO UPDATE SET user_id = excluded.user_id, seq = excluded.seq, done_at = NULL,
    claim = '', claimed_until = '-infinity',
    erased_at = greatest(e.erased_at, excluded.erased_at),
    triggers = CASE WHEN e.done_at IS NULL THEN e.triggers ELSE 0 END,
    before = (SELECT coalesce(jsonb_object_agg(key, value), '{}') FROM (
        SELECT key, max(value::bigint) AS value FROM (
            SELECT * FROM jsonb_each_text(excluded.before) UNION ALL SELECT * FROM jsonb_each_text(e.before)
        ) AS both_of_them GROUP BY key) AS furthest)`
)

// Erase deletes all data of a user, and writes the erasure.
func (s *Store) Erase(ctx context.Context, e preferences.Erasure) error {
	before, err := json.Marshal(e.Before)
	if err != nil {
		return fmt.Errorf("encode an erasure: %w", err)
	}
	hash := e.User.Hash()
	return s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(dropDocument, e.User.Tenant, e.User.ID)
			b.Queue(dropZoneMove, e.User.Tenant, e.User.ID)
			b.Queue(dropMessages, e.User.Tenant, e.User.ID)
			b.Queue(putErasure, hash[:], e.User.Tenant, e.User.ID, e.At, string(before))
			return tx.SendBatch(ctx, &b).Close()
		})
	})
}

const erasureColumns = `tenant, user_id, erased_at, before, triggers, done_at IS NOT NULL, seq`

// scanErasure returns false if there is no row.
func scanErasure(row pgx.Row) (e preferences.Erasure, ok bool, err error) {
	var before []byte
	err = row.Scan(&e.User.Tenant, &e.User.ID, &e.At, &before, &e.Triggers, &e.Done, &e.Seq)
	if errors.Is(err, pgx.ErrNoRows) {
		return e, false, nil
	}
	if err == nil {
		if err = json.Unmarshal(before, &e.Before); err != nil {
			err = fmt.Errorf("read an erasure: %w", err)
		}
	}
	e.At = e.At.UTC()
	return e, err == nil, err
}

// Erasure returns a user's newest erasure.
func (s *Store) Erasure(ctx context.Context, u preferences.User) (e preferences.Erasure, ok bool, err error) {
	hash := u.Hash()
	err = s.do(ctx, func(ctx context.Context) error {
		e, ok, err = scanErasure(s.pool.QueryRow(ctx,
			`SELECT `+erasureColumns+` FROM waterclock_erasures WHERE user_hash = $1`, hash[:]))
		return err
	})
	return e, ok && err == nil, err
}

// claimErasure claims an erasure of the next tenant behind $3 that has one. Of that tenant it takes
// the oldest that was never claimed, or else the one whose claim ended first.
const claimErasure = `
UPDATE waterclock_erasures SET claim = $1, claimed_until = clock_timestamp() + $2::interval
WHERE user_hash = (
    SELECT user_hash FROM waterclock_erasures
    WHERE done_at IS NULL AND claimed_until < clock_timestamp() AND NOT tenant = ANY($4)
    ORDER BY tenant COLLATE "C" <= $3, tenant COLLATE "C", claimed_until, seq LIMIT 1 FOR UPDATE SKIP LOCKED
)
RETURNING ` + erasureColumns

// ClaimErasure claims an erasure that is not done and has no valid claim.
func (s *Store) ClaimErasure(
	ctx context.Context, turn preferences.Turn, lease time.Duration,
) (e preferences.Erasure, ok bool, err error) {
	by, except := rand.Text(), append([]string{}, turn.Except...) // not NULL, which no tenant differs from
	err = s.do(ctx, func(ctx context.Context) error {
		e, ok, err = scanErasure(s.pool.QueryRow(ctx, claimErasure, by, lease, turn.After, except))
		return err
	})
	e.Claim = by
	return e, ok && err == nil, err
}

const renewErasure = `
UPDATE waterclock_erasures SET triggers = $4, claimed_until = clock_timestamp() + $5::interval
WHERE user_hash = $1 AND claim = $2 AND seq = $3 AND done_at IS NULL`

// RenewErasure extends a claim, and stores how many triggers were erased.
func (s *Store) RenewErasure(ctx context.Context, e preferences.Erasure, lease time.Duration) (ok bool, err error) {
	hash := e.User.Hash()
	err = s.do(ctx, func(ctx context.Context) error {
		tag, err := s.pool.Exec(ctx, renewErasure, hash[:], e.Claim, e.Seq, e.Triggers, lease)
		ok = err == nil && tag.RowsAffected() == 1
		return err
	})
	return ok, err
}

const (
	endErasure = `
UPDATE waterclock_erasures SET user_id = '', before = '{}', triggers = $4, done_at = clock_timestamp()
WHERE user_hash = $1 AND claim = $2 AND seq = $3 AND done_at IS NULL`
	dropOldMessages = `
DELETE FROM waterclock_message_claims c USING waterclock_erasures e
WHERE e.user_hash = $1 AND e.claim = $2 AND e.seq = $3 AND e.done_at IS NULL
    AND c.tenant = $4 AND c.user_id = $5 AND c.claimed_at <= e.erased_at`
)

// FinishErasure ends an erasure.
func (s *Store) FinishErasure(ctx context.Context, e preferences.Erasure) error {
	hash := e.User.Hash()
	return s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(dropOldMessages, hash[:], e.Claim, e.Seq, e.User.Tenant, e.User.ID)
			b.Queue(endErasure, hash[:], e.Claim, e.Seq, e.Triggers)
			return tx.SendBatch(ctx, &b).Close()
		})
	})
}

// PendingErasures counts the erasures that are not done.
func (s *Store) PendingErasures(ctx context.Context) (n int, oldest time.Time, err error) {
	var first *time.Time
	err = s.do(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx,
			`SELECT count(*), min(erased_at) FROM waterclock_erasures WHERE done_at IS NULL`).Scan(&n, &first)
	})
	if first != nil {
		oldest = first.UTC()
	}
	return n, oldest, err
}

const sweepErasures = `DELETE FROM waterclock_erasures WHERE done_at <= $1`
