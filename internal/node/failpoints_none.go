//go:build !failpoints

package node

import "github.com/waterclock/waterclock/pipeline"

// armFailpoints does nothing: only a binary built with -tags failpoints can be
// told to die, or to stand still, at a step of the turn.
func armFailpoints(*pipeline.Options) error { return nil }
