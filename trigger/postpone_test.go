package trigger

import (
	"fmt"
	"testing"
	"time"
)

// TestPostponedForAnHour: a store of preferences or an endpoint is away for an hour while 300,000
// occurrences are due. Each is emitted at most 20 times more, and the waits spread them: after ten
// minutes, no ten seconds have more than a tenth of them.
func TestPostponedForAnHour(t *testing.T) {
	const (
		due  = 300_000
		wait = 30 * time.Second // the worker's retry_after
	)
	most := 0
	var busy [360]int // by ten seconds
	for i := range due {
		id := DueID(Key(fmt.Sprintf("t%d", i)), "2026-11-20T09:00:00.000Z", 0)
		emitted := 0
		for at := time.Duration(0); ; emitted++ {
			if at += wait + postponeSpread(id, emitted); at >= time.Hour {
				break
			}
			busy[at/(10*time.Second)]++
		}
		most = max(most, emitted)
	}
	t.Logf("at most %d re-emissions of one occurrence", most)
	if most > 20 {
		t.Errorf("%d re-emissions of one occurrence in an hour, want at most 20", most)
	}
	for i, n := range busy {
		if at := time.Duration(i) * 10 * time.Second; at >= 10*time.Minute && n > due/10 {
			t.Errorf("%d re-emissions in the ten seconds after %v", n, at)
		}
	}
}
