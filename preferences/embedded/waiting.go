package embedded

import "context"

// WaitingErasures counts the erasures of a tenant that are not done, up to most.
func (s *Store) WaitingErasures(ctx context.Context, tenant string, most int) (n int, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	err = s.eachPending(func(_ int64, hash []byte) (bool, error) {
		v, err := s.readErasure(hash)
		if err == nil && v != nil && v.Tenant == tenant {
			n++
		}
		return n < most, err
	})
	return n, err
}
