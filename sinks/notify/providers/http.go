// Package providers sends notifications by the services that reach people: FCM and
// APNs (push), Twilio (SMS), SMTP (mail), and a folder to see them without an account.
//
// # What every provider over HTTP does
//
//   - It sends a message once. Waiting and trying again are the engine's.
//   - It reaches its server by internal/egress: an address is checked when it is
//     dialled, no redirect is followed, answers are bounded.
//   - A fault of ours (credentials, permissions) postpones the message: it uses up no
//     attempt, and it goes out when an operator has mended the settings.
//   - A fault of the address fails the message, and says if the address is dead.
//   - What it says in receipts and logs has no credential, no address and no text of
//     the message.
package providers

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/sinks/notify"
)

// HTTP is how a provider reaches its server. The zero value is the provider's own.
type HTTP struct {
	// URL is the base of all requests, where it is not the provider's own: of a proxy, or
	// of a test. Its host may be a private address. https, or http on loopback.
	URL string
	// Roots are the certificate authorities to trust; nil means the system's.
	Roots *x509.CertPool
	// Conns bounds the connections; 0 means 2, and 64 for Twilio. HTTP/2 sends hundreds of
	// messages at once by each.
	Conns int
	// Within bounds a request whose context has a later deadline; 0 means 30 s.
	Within time.Duration
	// UserAgent names us; "" means Waterclock.
	UserAgent string
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const defaultConns = 2

// Answers are short texts. What is longer is no provider's.
const (
	maxAnswer  = 64 << 10
	maxHeaders = 32 << 10
)

// caller sends the requests of one provider.
type caller struct {
	base      string // without a slash at its end
	transport *egress.Transport
	conns     *conns // of HTTP/2 to the base; nil sends by the transport
	within    time.Duration
	agent     string
	now       func() time.Time
}

// newCaller refuses a base URL that cannot be called. own is the provider's.
func newCaller(h HTTP, own string) (*caller, error) {
	settings := egress.Settings{}
	if h.URL != "" {
		origin, err := egress.ParseBase(h.URL)
		if err != nil {
			return nil, err
		}
		settings.Allow, own = []string{origin.String()}, h.URL
	}
	policy, err := egress.NewPolicy(settings)
	if err != nil {
		return nil, err
	}
	if h.Conns <= 0 {
		h.Conns = defaultConns
	}
	if h.Within <= 0 {
		h.Within = 30 * time.Second
	}
	c := &caller{base: strings.TrimRight(own, "/"), within: h.Within, agent: h.UserAgent, now: h.Now}
	if c.agent == "" {
		c.agent = "Waterclock"
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.transport = egress.NewTransport(egress.Options{Policy: policy, RootCAs: h.Roots, Limits: egress.Limits{
		Answer: h.Within, Total: h.Within, HeaderBytes: maxHeaders, BodyBytes: maxAnswer,
		ConnsPerOrigin: h.Conns, IdlePerOrigin: h.Conns, IdleConns: 2 * h.Conns,
	}})
	return c, nil
}

// newStreams makes a caller that sends to the base by a few connections of HTTP/2.
func newStreams(h HTTP, own string) (*caller, error) {
	c, err := newCaller(h, own)
	if err != nil {
		return nil, err
	}
	base, err := url.Parse(c.base)
	if err != nil {
		return nil, err
	}
	c.conns = &conns{transport: c.transport, base: base, most: cmp.Or(max(h.Conns, 0), defaultConns)}
	return c, nil
}

func (c *caller) close() {
	c.transport.CloseIdleConnections()
	if c.conns != nil {
		c.conns.close()
	}
}

// via is what sends a request to a URL.
func (c *caller) via(u *url.URL) http.RoundTripper {
	if c.conns != nil && u.Scheme == c.conns.base.Scheme && u.Host == c.conns.base.Host {
		return c.conns
	}
	return c.transport
}

// reply is a whole answer of a provider's server, or why there is none.
type reply struct {
	status int // 0: none
	header http.Header
	body   []byte
	err    error
	sent   bool // whether the server may have the request
}

// do sends one request.
func (c *caller) do(ctx context.Context, method, target string, header http.Header, body []byte) reply {
	var wrote atomic.Bool
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	r, err := http.NewRequestWithContext(traced, method, target, bytes.NewReader(body))
	if err != nil {
		return reply{err: errors.New("the request cannot be written: its URL is none")}
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("User-Agent", c.agent)
	answer, err := c.via(r.URL).RoundTrip(r) // no client: its errors have the URL, and with it tokens of devices
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.Join(ctx.Err(), err) // net/http may name what the time-out has cut off, and not the time-out
		}
		return reply{err: err, sent: wrote.Load()}
	}
	defer answer.Body.Close()
	out := reply{status: answer.StatusCode, header: answer.Header, sent: true}
	if out.body, out.err = io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1)); len(out.body) > maxAnswer {
		out.err = egress.ErrBodyTooLarge
	}
	return out
}

// The codes of answers that have none of the provider's own.
const (
	CodeConfig      = "provider_config"      // credentials, permissions or settings: an operator must act
	CodeUnavailable = "provider_unavailable" // the provider is away or overloaded
	CodeThrottled   = "provider_throttled"   // the provider wants fewer messages
	CodeStatus      = "bad_answer"           // an answer that its documentation does not have
	CodeInvalid     = "invalid_message"      // not sent: the provider could not take it
	CodeDNS         = egress.CodeDNS
	CodeRefused     = egress.CodeRefused
	CodeReset       = egress.CodeReset
	CodeTLS         = egress.CodeTLS
	CodeConnection  = "connection"
	CodeTooLarge    = "answer_too_large"
)

// How long a message waits where the provider does not say it.
const (
	configWait   = time.Minute
	throttleWait = time.Minute
	awayWait     = 10 * time.Second
	maxWait      = 24 * time.Hour
)

// misconfigured postpones a message until an operator has acted. It is throttled,
// because every other message would meet the same.
func misconfigured(code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Postpone(configWait, code).WithDetail(detail), Throttled: true}
}

// throttled postpones a message and all others of the provider.
func throttled(wait time.Duration, code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Postpone(wait, code).WithDetail(detail), Throttled: true}
}

func failed(code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Fail(code, detail)}
}

func retry(code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Retry(0).WithCode(code).WithDetail(detail)}
}

// dead fails a message whose address will never work again.
func dead(code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Fail(code, detail), DeadAddress: true}
}

// unanswered is the answer where there is none from the server.
func unanswered(r reply) notify.Answer {
	code := codeOf(r.err)
	detail := "not sent: " + code
	if r.sent {
		detail = "it may have been sent: " + code
	}
	if code == egress.CodeForbiddenAddress || code == egress.CodeForbiddenURL {
		return misconfigured(code, "the provider's name leads to an address that may not be called")
	}
	return retry(code, detail)
}

// codeOf names what went wrong with a request.
func codeOf(err error) string {
	code := egress.Fault(err)
	switch {
	case errors.Is(err, egress.ErrBodyTooLarge):
		return CodeTooLarge
	case code == "" && isStreamReset(err):
		return CodeReset
	}
	return cmp.Or(code, CodeConnection)
}

// retryAfter is what header Retry-After asks for, from 1 s to 24 h. def is for where there is
// none, or none that makes sense.
func retryAfter(h http.Header, now time.Time, def time.Duration) time.Duration {
	after, ok := egress.RetryAfter(h, now, maxWait)
	if !ok {
		return def
	}
	return max(after, time.Second)
}

// maxDetail is as much of a provider's words as goes into a receipt, and minHidden the
// shortest text that is hidden in them: a shorter one is part of any word.
const (
	maxDetail = 256
	minHidden = 4
)

// clean makes a provider's words fit for a receipt: no control characters, not long, and
// nothing of what is hidden, such as the address.
func clean(text string, hide ...string) string {
	for _, h := range hide {
		if len(h) >= minHidden {
			text = strings.ReplaceAll(text, h, "…")
		}
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxDetail {
		text = strings.ToValidUTF8(text[:maxDetail], "")
	}
	return text
}

// leftUntil is how long a message is of use; ok is false for one that no longer is. 0 is for
// ever.
func leftUntil(expires, now time.Time) (left time.Duration, ok bool) {
	if expires.IsZero() {
		return 0, true
	}
	left = expires.Sub(now)
	return left, left > 0
}

// expired is the answer for a message that is of no use any more.
func expired() notify.Answer { return notify.Answer{Result: worker.Suppress(worker.CodeExpired)} }

// httpDetail says what came back, for answers whose body says nothing.
func httpDetail(r reply) string { return fmt.Sprintf("HTTP %d", r.status) }
