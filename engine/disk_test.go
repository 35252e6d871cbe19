package engine

import (
	"syscall"
	"testing"
	"time"
)

// TestRoom walks a disk through a bad day.
func TestRoom(t *testing.T) {
	const mib = 1 << 20
	start := time.Unix(0, 0)
	var tried int
	var r room
	for i, step := range []struct {
		at     time.Duration
		free   int64 // MiB; -1: not known
		failed error
		takes  error
		full   bool
		tries  int
	}{
		{0, 1000, nil, nil, false, 0},
		{time.Second, 256, nil, nil, false, 0},
		{2 * time.Second, 255, nil, nil, true, 0}, // below the reserve
		{3 * time.Second, 1000, nil, nil, true, 0},
		{13 * time.Second, 400, nil, nil, true, 0},   // not twice as much
		{14 * time.Second, 1000, nil, nil, false, 1}, // and it takes a write
		{15 * time.Second, 1000, syscall.EDQUOT, nil, true, 0},
		{26 * time.Second, 1000, nil, syscall.EDQUOT, true, 1}, // the quota is still met
		{27 * time.Second, 1000, nil, nil, true, 0},            // no write every second
		{37 * time.Second, 1000, nil, nil, false, 1},
		{38 * time.Second, -1, nil, nil, false, 0},
		{39 * time.Second, -1, syscall.ENOSPC, nil, true, 0},
		{50 * time.Second, -1, nil, nil, false, 1},
	} {
		tried = 0
		s := seen{reserve: 256 * mib, failed: step.failed, takes: func() error { tried++; return step.takes }}
		if step.free >= 0 {
			s.free, s.total = step.free*mib, 10_000*mib
		}
		if r = r.next(start.Add(step.at), s); r.full != step.full || tried != step.tries || r.full != (r.why != "") {
			t.Fatalf("step %d: %+v after %d tries, want full %v after %d", i, r, tried, step.full, step.tries)
		}
	}
}
