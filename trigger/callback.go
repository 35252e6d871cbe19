package trigger

// allowed refuses content whose callback the settings do not allow. It comes behind
// the duplicates: what was accepted once stays accepted, whatever an allow-list
// has lost since.
func (d *decision) allowed(key Key, s *Spec) *Error {
	if s.Callback == nil || d.m.CallbackURL == nil {
		return nil
	}
	return d.m.CallbackURL(key.Tenant(), s.Callback.URL)
}
