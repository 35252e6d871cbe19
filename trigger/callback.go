package trigger

// allowed refuses content whose callback the settings do not allow. Duplicates are answered
// before this check: what was accepted once stays accepted, even if an allow-list is shorter
// now.
func (d *decision) allowed(key Key, s *Spec) *Error {
	if s.Callback == nil || d.m.CallbackURL == nil {
		return nil
	}
	return d.m.CallbackURL(key.Tenant(), s.Callback.URL)
}
