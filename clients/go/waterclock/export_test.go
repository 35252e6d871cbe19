package waterclock

import "time"

// SetNow stops the clock of v.
func SetNow(v *Verifier, now time.Time) { v.now = func() time.Time { return now } }
