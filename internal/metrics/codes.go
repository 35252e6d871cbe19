package metrics

import "slices"

// otherCode is the label of codes that are not in the set.
const otherCode = "other"

// knownCodes are the codes of dead letters that are labels: the engine's, those of
// the worker kit and those of our own workers. A receipt may have any other; a
// set that grew with what comes would be a different one in each process.
var knownCodes = []string{
	"receipt_timeout", "overrun", "due_topic", "postponed_too_long", // the engine
	"error", "panic", "timeout", "no_result", "expired", // the worker kit
	"http_3xx", "http_408", "http_410", "http_429", "http_4xx", "http_503", "http_5xx", "http_other", // webhooks
	"dns", "connection_refused", "connection_reset", "connection", "tls", "bad_answer", "answer_too_large",
	"no_callback", "forbidden_url", "forbidden_address", "cancelled", "recheck_failed", "breaker_open",
	"endpoint_busy", "tenant_busy", "rate_limited", "paused",
	"invalid_payload", "no_address", "invalid_address", "no_provider", "template_not_found", "template_failed",
	"provider_paused", "invalid_message", "may_be_sent", "5.1.1", "5.2.1", "5.2.2", "5.7.1", "smtp_550", // mails
	"quiet_hours", "preferences_away", "preferences_unread", "duplicate", "capped", // notifications
}

// labelOf is the code, or "other" if it is not in the set.
func labelOf(code string) string {
	if slices.Contains(knownCodes, code) {
		return code
	}
	return otherCode
}
