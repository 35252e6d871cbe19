package loadtest

import (
	"context"
	"time"
)

// RemindersOptions set how many reminders fall due, and for how long.
type RemindersOptions struct {
	Rate    int // per second
	For     time.Duration
	Payload int // bytes of text per reminder
}

// RemindersResult is the output of bench reminders. Lateness counts from the due time until the
// provider's server has the push.
type RemindersResult struct {
	Machine
	Broker     string   `json:"broker"`
	Rate       int      `json:"rate"`
	Reminders  int      `json:"reminders"`
	Payload    int      `json:"payload"`
	Lateness   Lateness `json:"lateness_ms"`
	Within2S   int      `json:"within_2s"`
	Within30S  int      `json:"within_30s"`
	Lost       int      `json:"lost"`
	Doubled    int      `json:"doubled"`
	CPUSeconds float64  `json:"cpu_seconds"`
	RSSBytes   int64    `json:"rss_bytes"`
}

// MeasureReminders registers reminders at a rate, each due one second later, and measures how
// late the provider gets them. The engine, the worker and the provider's server share this
// process.
func MeasureReminders(ctx context.Context, s Setup, o RemindersOptions) (r *RemindersResult, err error) {
	b := &pushRun{Setup: s}
	err = b.besidePush(ctx, o.Payload, func(ctx context.Context, kind string) error {
		n := int(o.For.Seconds() * float64(o.Rate))
		cpu := CPUTime()
		b.begin("reminders", n, 0, time.Now().Add(2*time.Second), time.Second/time.Duration(o.Rate))
		if err := b.register(ctx, "reminders", "normal", n); err != nil {
			return err
		}
		if err := b.await(ctx); err != nil {
			return err
		}
		late, within, lost, doubled := b.judged()
		r = &RemindersResult{
			Machine: s.machine(), Broker: kind, Rate: o.Rate, Reminders: n, Payload: o.Payload, Lateness: late,
			Within2S: within(2 * time.Second), Within30S: within(30 * time.Second), Lost: lost, Doubled: doubled,
			CPUSeconds: (CPUTime() - cpu).Seconds(), RSSBytes: peakRSS(),
		}
		return nil
	})
	return r, err
}
