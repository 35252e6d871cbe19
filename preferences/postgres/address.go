package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/waterclock/waterclock/preferences"
)

var _ preferences.AddressBook = (*Store)(nil)

// The row is locked while its document is changed: a PUT comes before or after it.
const (
	lockDocument = `
SELECT document FROM waterclock_preferences WHERE tenant = $1 AND user_id = $2 FOR UPDATE`
	changeDocument = `
UPDATE waterclock_preferences SET document = $3, updated_at = now() WHERE tenant = $1 AND user_id = $2`
)

// DropAddress takes an address out of a user's preferences, if it is there now.
func (s *Store) DropAddress(ctx context.Context, u preferences.User, a preferences.Address) (dropped bool, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
			dropped, err = dropAddress(ctx, tx, u, a)
			return err
		})
	})
	return dropped && err == nil, err
}

func dropAddress(ctx context.Context, tx pgx.Tx, u preferences.User, a preferences.Address) (bool, error) {
	var document []byte
	err := tx.QueryRow(ctx, lockDocument, u.Tenant, u.ID).Scan(&document)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil || len(document) == 0 {
		return false, err
	}
	p, err := preferences.Parse(document)
	if err != nil {
		return false, err
	}
	without, had := p.Without(a)
	if !had {
		return false, nil
	}
	_, err = tx.Exec(ctx, changeDocument, u.Tenant, u.ID, without.Encode())
	return err == nil, err
}
