package kafkapart

import (
	"context"
	"errors"
	"time"

	"github.com/waterclock/waterclock/internal/wait"
)

// RetryBackoff replaces kgo's 250 ms that double: a broker busy with the
// markers of our last transaction answers within milliseconds.
func RetryBackoff(tries int) time.Duration {
	return min(time.Duration(tries*tries)*5*time.Millisecond, time.Second)
}

// Pause is between two tries of what is not committed to the end yet, or has no
// leader; it doubles up to MaxPause.
const (
	Pause    = 5 * time.Millisecond
	MaxPause = 100 * time.Millisecond
)

// Retry tries until it succeeds, or fails with an error that does not pass.
func Retry(ctx context.Context, passes func(error) bool, try func() error) error {
	for pause := Pause; ; pause = min(2*pause, MaxPause) {
		err := try()
		if !passes(err) {
			return err
		}
		if wait.For(ctx, pause); ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
	}
}
