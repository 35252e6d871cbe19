package embedded

import (
	"context"
	"fmt"

	"github.com/waterclock/waterclock/sinks"
)

// TriggersOf visits the triggers of a user.
func (s *Store) TriggersOf(ctx context.Context, tenant, user string, visit func(key string) error) error {
	var keys []string // visit may read too, so it is called after the scan
	if err := s.statesOf(ctx, tenant, user, &keys); err != nil {
		return fmt.Errorf("list a user's triggers: %w", err)
	}
	for _, key := range keys {
		if err := visit(key); err != nil {
			return err
		}
	}
	return sinks.NotifiedTriggers(ctx, s, tenant, user, visit)
}

func (s *Store) statesOf(ctx context.Context, tenant, user string, keys *[]string) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	prefix := appendText([]byte{tableState}, tenant)
	return s.scan(prefix, after(prefix), func(k, v []byte) error {
		_, key, err := parseStateKey(k)
		if err != nil {
			return err
		}
		var row sinks.StateRow
		if err := decodeRow(v, &row); err != nil {
			return err
		}
		if state, ok := row.At(s.opts.Now(), tenant, key); ok && state.UserID == user {
			*keys = append(*keys, key)
		}
		return ctx.Err()
	})
}
