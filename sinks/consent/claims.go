package consent

import (
	"context"

	"github.com/waterclock/waterclock/clients/go/worker"
)

// After takes the result of a due event that was to be sent. One that failed for good
// does not count against its user.
func (g *Gate) After(context.Context, *worker.DueEvent, worker.Result) {}
