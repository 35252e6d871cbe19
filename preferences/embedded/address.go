package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/preferences"
)

var _ preferences.AddressBook = (*Store)(nil)

// DropAddress takes an address out of a user's preferences, if it is there now.
func (s *Store) DropAddress(ctx context.Context, u preferences.User, a preferences.Address) (bool, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	s.write.Lock()
	defer s.write.Unlock()
	v, err := s.get(userKey('p', u))
	if err != nil || v == nil {
		return false, err
	}
	p, err := preferences.Parse(v)
	if err != nil {
		return false, err
	}
	without, had := p.Without(a)
	if !had {
		return false, nil
	}
	if err := s.db.Set([]byte(userKey('p', u)), without.Encode(), pebble.Sync); err != nil {
		return false, fmt.Errorf("write preferences: %w", err)
	}
	return true, nil
}
