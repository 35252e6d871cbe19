package check

import "github.com/waterclock/waterclock/schemas/statepb"

// statusName returns a status of topic state as events name it.
func statusName(s statepb.Status) string {
	switch s {
	case statepb.Status_STATUS_PENDING:
		return pending
	case statepb.Status_STATUS_PAUSED:
		return paused
	case statepb.Status_STATUS_IN_FLIGHT:
		return inFlight
	case statepb.Status_STATUS_FIRED:
		return fired
	case statepb.Status_STATUS_FAILED:
		return failed
	case statepb.Status_STATUS_CANCELLED:
		return cancelled
	case statepb.Status_STATUS_EXPIRED:
		return expired
	case statepb.Status_STATUS_UNKNOWN:
		return unknown
	case statepb.Status_STATUS_ERASED:
		return erased
	}
	return none
}
