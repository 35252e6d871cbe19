package explain

import (
	"slices"
	"testing"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
	"github.com/waterclock/waterclock/sinks/webhook"
)

// TestCodesHaveWords: support reads words, and not the codes of our own workers alone.
func TestCodesHaveWords(t *testing.T) {
	for _, code := range slices.Concat(webhook.Codes, []string{
		worker.CodeError, worker.CodePanic, worker.CodeTimeout, worker.CodeNoResult, worker.CodeExpired,
		consent.CodeUnread, consent.CodeAway, consent.CodeErased,
		notify.CodePayload, notify.CodeNoAddress, notify.CodeInvalidAddress, notify.CodeNoProvider,
		notify.CodeNoTemplate, notify.CodeTemplate, notify.CodePaused, notify.CodeShare,
		providers.CodeConfig, providers.CodeUnavailable, providers.CodeThrottled, providers.CodeStatus,
		providers.CodeInvalid, providers.CodeOptedOut,
	}) {
		if reasonWords[code] == "" {
			t.Errorf("%s has no words", code)
		}
	}
}
