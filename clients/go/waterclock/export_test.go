package waterclock

import "time"

// SetNow fixes the clock of v.
func SetNow(v *Verifier, now time.Time) { v.now = func() time.Time { return now } }
