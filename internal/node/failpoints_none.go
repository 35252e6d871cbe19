//go:build !failpoints

package node

import "github.com/waterclock/waterclock/pipeline"

// armFailpoints does nothing: only a binary built with -tags failpoints has failpoints.
func armFailpoints(*pipeline.Options) error { return nil }
