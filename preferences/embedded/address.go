package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/preferences"
)

var (
	_ preferences.AddressBook = (*Store)(nil)
	_ preferences.OptOuts     = (*Store)(nil)
)

// DropAddress takes an address out of a user's preferences, if it is there now.
func (s *Store) DropAddress(ctx context.Context, u preferences.User, a preferences.Address) (bool, error) {
	return s.edit(ctx, u, func(p *preferences.Preferences) (*preferences.Preferences, bool) { return p.Without(a) })
}

// OptOut adds an opt-out to a user's preferences.
func (s *Store) OptOut(ctx context.Context, u preferences.User, channel, typ string) (bool, error) {
	return s.edit(ctx, u, func(p *preferences.Preferences) (*preferences.Preferences, bool) {
		return p.OptedOutOf(channel, typ)
	})
}

// edit replaces a user's preferences by what f makes of them. No PUT comes in between.
func (s *Store) edit(ctx context.Context, u preferences.User,
	f func(*preferences.Preferences) (*preferences.Preferences, bool),
) (bool, error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	s.write.Lock()
	defer s.write.Unlock()
	v, err := s.get(userKey('p', u))
	if err != nil {
		return false, err
	}
	p := &preferences.Preferences{}
	if v != nil {
		if p, err = preferences.Parse(v); err != nil {
			return false, err
		}
	}
	p, changed := f(p)
	if !changed {
		return false, nil
	}
	if err := s.db.Set([]byte(userKey('p', u)), p.Encode(), pebble.Sync); err != nil {
		return false, fmt.Errorf("write preferences: %w", err)
	}
	return true, nil
}
