package providers

import (
	"context"
	"slices"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/sinks/notify"
)

// otherCode is the label for a code that is not in Codes.
const otherCode = "other"

// Codes are the codes of answers that may be labels of metrics. A provider may add other codes at
// any time.
var Codes = slices.Concat([]string{
	CodeConfig, CodeUnavailable, CodeThrottled, CodeStatus, CodeInvalid, CodeDNS, CodeRefused, CodeReset, CodeTLS,
	CodeConnection, CodeTooLarge, worker.CodeTimeout, worker.CodeExpired,
	egress.CodeForbiddenAddress, egress.CodeForbiddenURL,
}, fcmCodes, apnsCodes, twilioCodes, smtpCodes)

// CodeLabel returns the code, or "other" if it is not in Codes.
func CodeLabel(code string) string {
	if slices.Contains(Codes, code) {
		return code
	}
	return otherCode
}

// Counted wraps a provider to count its answers. count gets the provider's name, and "" for an
// accepted message or else the code by CodeLabel.
func Counted(p notify.Provider, count func(provider, code string)) notify.Provider {
	return counted{p, count}
}

type counted struct {
	notify.Provider
	count func(provider, code string)
}

// Reserve passes on to a provider that is a notify.Reserver.
func (c counted) Reserve(ctx context.Context, tenant string, within time.Duration) (context.Context, func(), error) {
	if r, ok := c.Provider.(notify.Reserver); ok {
		return r.Reserve(ctx, tenant, within)
	}
	return ctx, func() {}, nil
}

func (c counted) Send(ctx context.Context, m *notify.Message) notify.Answer {
	a := c.Provider.Send(ctx, m)
	code := ""
	if o := a.Result.Outcome; o != worker.OutcomeAccepted && o != worker.OutcomeDelivered {
		code = CodeLabel(a.Result.Code)
	}
	c.count(c.Name(), code)
	return a
}
