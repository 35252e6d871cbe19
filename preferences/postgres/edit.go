package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waterclock/waterclock/preferences"
)

// The row is locked while its document is changed, so a PUT runs before or after.
const (
	lockDocument = `
SELECT document FROM waterclock_preferences WHERE tenant = $1 AND user_id = $2 FOR UPDATE`
	changeDocument = `
UPDATE waterclock_preferences SET document = $3, updated_at = now() WHERE tenant = $1 AND user_id = $2`
	mendDocument = `
UPDATE waterclock_preferences SET timezone = $3, document = $4, updated_at = now()
WHERE tenant = $1 AND user_id = $2`
)

// Edit replaces a user's preferences by the result of f, in one transaction.
func (s *Store) Edit(ctx context.Context, u preferences.User,
	f func(*preferences.Preferences) (*preferences.Preferences, bool),
) (changed bool, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			changed, err = edit(ctx, tx, u, f)
			return err
		})
	})
	return changed && err == nil, err
}

func edit(ctx context.Context, tx pgx.Tx, u preferences.User,
	f func(*preferences.Preferences) (*preferences.Preferences, bool),
) (bool, error) {
	p := &preferences.Preferences{}
	var document []byte
	err := tx.QueryRow(ctx, lockDocument, u.Tenant, u.ID).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		if _, changed := f(p); !changed {
			return false, nil
		}
		if _, err = tx.Exec(ctx, putRow, u.Tenant, u.ID); err == nil {
			err = tx.QueryRow(ctx, lockDocument, u.Tenant, u.ID).Scan(&document)
		}
	}
	if err != nil {
		return false, err
	}
	if len(document) > 0 {
		if p, err = preferences.Parse(document); err != nil {
			return false, (*preferences.UnreadableError)(nil).Add(u, err)
		}
	}
	p, changed := f(p)
	if !changed {
		return false, nil
	}
	_, err = tx.Exec(ctx, changeDocument, u.Tenant, u.ID, p.Encode())
	return err == nil, err
}

// Mend replaces a document that cannot be parsed, in one transaction.
func (s *Store) Mend(ctx context.Context, u preferences.User, f func([]byte) *preferences.Preferences) (
	mended bool, err error,
) {
	err = s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			mended = false
			var document []byte
			err := tx.QueryRow(ctx, lockDocument, u.Tenant, u.ID).Scan(&document)
			if errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err != nil {
				return err
			}
			if _, err := preferences.Parse(document); err == nil {
				return nil
			}
			p := f(document)
			mended = true
			_, err = tx.Exec(ctx, mendDocument, u.Tenant, u.ID, p.Zone, p.Encode())
			return err
		})
	})
	return mended && err == nil, err
}
