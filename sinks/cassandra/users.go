package cassandra

import (
	"context"

	"github.com/gocql/gocql"

	"github.com/waterclock/waterclock/sinks"
)

// Cassandra filters the rows of other users on its nodes. These token ranges are smaller than
// those of a scan, to keep such a query within its time-out.
const (
	userRanges = 4 * scanRanges
	selectOf   = `SELECT tenant, trigger FROM trigger_state
 WHERE token(tenant, trigger) >= ? AND token(tenant, trigger) <= ? AND user_id = ? ALLOW FILTERING`
)

// TriggersOf visits the triggers of a user, in token order.
func (s *Store) TriggersOf(ctx context.Context, tenant, user string, visit func(key string) error) error {
	for i := range scanRanges {
		from, to := tokenRange(i)
		const parts = userRanges / scanRanges
		width := (uint64(to)-uint64(from))/parts + 1
		for part := range parts {
			begin := int64(uint64(from) + uint64(part)*width)
			end := begin + int64(width-1)
			if part == parts-1 {
				end = to
			}
			keys, err := s.triggersIn(ctx, begin, end, tenant, user)
			if err != nil {
				return err
			}
			for _, key := range keys {
				if err := visit(key); err != nil {
					return err
				}
			}
		}
	}
	return sinks.NotifiedTriggers(ctx, s, tenant, user, visit)
}

func (s *Store) triggersIn(ctx context.Context, from, to int64, tenant, user string) (keys []string, err error) {
	err = s.do(ctx, "list a user's triggers", func(session *gocql.Session) error {
		keys = nil
		it := session.Query(selectOf, from, to, user).WithContext(ctx).PageSize(1000).Iter()
		var owner, key string
		for it.Scan(&owner, &key) {
			if owner == tenant {
				keys = append(keys, key)
			}
		}
		return it.Close()
	})
	return keys, err
}
