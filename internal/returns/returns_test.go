package returns

import (
	"testing"
	"time"
)

// What one cause holds up comes back one after the other, at the rate, and never before it may.
func TestInTurn(t *testing.T) {
	var q Queue
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	for i := range 10_000 {
		want := time.Minute + time.Duration(i)*10*time.Millisecond
		if got := q.After(now, false, time.Minute, 100); got != want {
			t.Fatalf("event %d is away for %v, want %v", i, got, want)
		}
	}
	now = now.Add(2 * time.Minute) // 60 s of 100 s of them are still to come
	if got, want := q.After(now, false, time.Second, 100), 40*time.Second; got != want {
		t.Errorf("behind those that wait: %v, want %v", got, want)
	}
	now = now.Add(time.Hour)
	if got, want := q.After(now, false, time.Second, 100), time.Second; got != want {
		t.Errorf("when all are back: %v, want %v", got, want)
	}
}

// A queue that is too long comes back over half an hour, and what its cause asks for is kept.
func TestBounded(t *testing.T) {
	var q Queue
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	var first, second int // half hours
	for range 10_000 {
		switch away := q.After(now, false, time.Minute, 1); {
		case away > longestAway:
			t.Fatalf("away for %v", away)
		case away < longestAway/2:
			first++
		default:
			second++
		}
	}
	if first != 1740 { // a second each from the first minute on
		t.Errorf("%d of 10,000 come back in the first half hour", first)
	}
	if got := q.After(now, false, 5*time.Hour, 1); got != 5*time.Hour {
		t.Errorf("an endpoint that is closed for 5 h: %v", got)
	}
}

// An event of priority high waits for others of that priority alone.
func TestHighWaitsForHigh(t *testing.T) {
	var q Queue
	now := time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)
	for range 10_000 {
		q.After(now, false, time.Minute, 100)
	}
	for i := range 3 {
		want := time.Minute + time.Duration(i)*10*time.Millisecond
		if got := q.After(now, true, time.Minute, 100); got != want {
			t.Errorf("high %d is away for %v, want %v", i, got, want)
		}
	}
}
