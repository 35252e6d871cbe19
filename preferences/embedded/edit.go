package embedded

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/waterclock/waterclock/preferences"
)

// Edit replaces a user's preferences by the result of f. No PUT can happen in between.
func (s *Store) Edit(ctx context.Context, u preferences.User,
	f func(*preferences.Preferences) (*preferences.Preferences, bool),
) (changed bool, err error) {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	old, err := s.has(u)
	if err != nil {
		return false, err
	}
	defer func() { s.userAdded(u, changed && err == nil && !old) }()
	p, err := s.preferences(u)
	if err != nil {
		return false, err
	}
	p, changed = f(p)
	if !changed {
		return false, nil
	}
	return true, s.putDocument(u, p)
}

// Mend replaces a document that cannot be parsed.
func (s *Store) Mend(ctx context.Context, u preferences.User, f func([]byte) *preferences.Preferences) (bool, error) {
	leave, err := s.enterToWrite(ctx)
	if err != nil {
		return false, err
	}
	defer leave()
	document, err := s.get(userKey('p', u))
	if err != nil || document == nil {
		return false, err
	}
	if _, err := preferences.Parse(document); err == nil {
		return false, nil
	}
	return true, s.putDocument(u, f(document))
}

func (s *Store) putDocument(u preferences.User, p *preferences.Preferences) error {
	if err := s.db.Set([]byte(userKey('p', u)), p.Encode(), pebble.Sync); err != nil {
		return fmt.Errorf("write preferences: %w", err)
	}
	return nil
}
