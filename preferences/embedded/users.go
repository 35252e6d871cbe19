package embedded

import "github.com/waterclock/waterclock/preferences"

// has reports whether a user has preferences.
func (s *Store) has(u preferences.User) (bool, error) {
	v, err := s.get(userKey('p', u))
	return v != nil, err
}

// countUsers counts a tenant's users once, when a new user comes. The count is only in memory, so
// it is right whichever release wrote the directory. The caller holds s.write.
func (s *Store) countUsers(tenant string) error {
	if _, counted := s.users[tenant]; counted {
		return nil
	}
	n := 0
	of := userKey('p', preferences.User{Tenant: tenant})
	err := s.each(of, of[:len(of)-1]+"\x01", func(_, _ []byte) (bool, error) { n++; return true, nil })
	if err == nil {
		s.users[tenant] = n
	}
	return err
}

// admitUser reports whether a user is new, and refuses a new one beyond the bound. The caller
// holds s.write.
func (s *Store) admitUser(u preferences.User) (added bool, err error) {
	old, err := s.has(u)
	if old || err != nil {
		return false, err
	}
	most := s.maxUsers(u.Tenant)
	if most == 0 {
		return true, nil
	}
	if err := s.countUsers(u.Tenant); err != nil {
		return false, err
	}
	if s.users[u.Tenant] >= most {
		return false, preferences.ErrTooManyUsers
	}
	return true, nil
}

// userAdded and userForgotten update the count of a tenant that was counted, once the change is
// written. The caller holds s.write.
func (s *Store) userAdded(u preferences.User, added bool) { s.usersChanged(u.Tenant, added, 1) }

func (s *Store) userForgotten(u preferences.User, forgotten bool) {
	s.usersChanged(u.Tenant, forgotten, -1)
}

func (s *Store) usersChanged(tenant string, changed bool, by int) {
	if _, counted := s.users[tenant]; counted && changed {
		s.users[tenant] += by
	}
}
