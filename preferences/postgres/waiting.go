package postgres

import "context"

const waitingErasures = `
SELECT count(*) FROM (SELECT 1 FROM waterclock_erasures WHERE done_at IS NULL AND tenant = $1 LIMIT $2) AS waiting`

// WaitingErasures counts the erasures of a tenant that are not done, up to most.
func (s *Store) WaitingErasures(ctx context.Context, tenant string, most int) (n int, err error) {
	err = s.do(ctx, func(ctx context.Context) error {
		return s.pool.QueryRow(ctx, waitingErasures, tenant, most).Scan(&n)
	})
	return n, err
}
