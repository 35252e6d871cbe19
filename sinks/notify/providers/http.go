// Package providers sends notifications by the services that reach people: FCM and APNs (push),
// Twilio (SMS), SMTP (mail), and a folder that needs no account.
//
// # What every provider over HTTP does
//
//   - It sends a message once. The engine waits and retries.
//   - It calls its server through internal/egress: an address is checked when it is
//     dialled, no redirect is followed, answers are bounded.
//   - An error on our side (credentials, permissions) postpones the message. It uses up no
//     attempt, and is sent once an operator has fixed the settings.
//   - An error of the address fails the message. The answer reports whether the address is dead.
//   - Its texts in receipts and logs have no credential, no address and no text of the
//     message.
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

// HTTP configures how a provider reaches its server. The zero value means the provider's
// defaults.
type HTTP struct {
	// URL replaces the base of all requests, for a proxy or a test. Its host may be a private
	// address. It must be https, or http on loopback.
	URL string
	// Roots are the trusted certificate authorities. nil means the system's.
	Roots *x509.CertPool
	// Conns bounds the connections. 0 means 2, and 64 for Twilio. HTTP/2 sends hundreds of
	// concurrent messages over each.
	Conns int
	// Within bounds a request whose context has a later deadline. 0 means 30 s.
	Within time.Duration
	// UserAgent is the user agent. "" means Waterclock.
	UserAgent string
	// Now is the clock. nil means time.Now.
	Now func() time.Time
}

const defaultConns = 2

// Answers are short texts. A longer one does not come from the provider.
const (
	maxAnswer  = 64 << 10
	maxHeaders = 32 << 10
)

// caller sends the requests of one provider.
type caller struct {
	base      string // without a trailing slash
	transport *egress.Transport
	conns     *conns // HTTP/2 to the base; nil uses transport
	within    time.Duration
	agent     string
	now       func() time.Time
}

// newCaller refuses an invalid base URL. own is the provider's default.
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

// newStreams makes a caller that sends to the base over a few HTTP/2 connections.
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

// via returns the round tripper for a URL.
func (c *caller) via(u *url.URL) http.RoundTripper {
	if c.conns != nil && u.Scheme == c.conns.base.Scheme && u.Host == c.conns.base.Host {
		return c.conns
	}
	return c.transport
}

// reply is a complete answer of a provider's server, or the reason why there is none.
type reply struct {
	status int // 0: none
	header http.Header
	body   []byte
	err    error
	sent   bool // whether the server may have received the request
}

// do sends one request.
func (c *caller) do(ctx context.Context, method, target string, header http.Header, body []byte) reply {
	var wrote atomic.Bool
	ctx, cancel := context.WithTimeout(ctx, c.within)
	defer cancel()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }})
	r, err := http.NewRequestWithContext(traced, method, target, bytes.NewReader(body))
	if err != nil {
		return reply{err: errors.New("the request cannot be created: its URL is not valid")}
	}
	if header != nil {
		r.Header = header
	}
	r.Header.Set("User-Agent", c.agent)
	answer, err := c.via(r.URL).RoundTrip(r) // errors of http.Client contain the URL, and so device tokens
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			err = errors.Join(ctx.Err(), err) // net/http may report what the time-out interrupted, and not the time-out
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

// The codes of answers without a code of the provider.
const (
	CodeConfig      = "provider_config"      // credentials, permissions or settings: an operator must act
	CodeUnavailable = "provider_unavailable" // the provider is unavailable or overloaded
	CodeThrottled   = "provider_throttled"   // the provider wants fewer messages
	CodeStatus      = "bad_answer"           // an answer that the provider's documentation does not list
	CodeInvalid     = "invalid_message"      // not sent: the provider could not accept it
	CodeDNS         = egress.CodeDNS
	CodeRefused     = egress.CodeRefused
	CodeReset       = egress.CodeReset
	CodeTLS         = egress.CodeTLS
	CodeConnection  = "connection"
	CodeTooLarge    = "answer_too_large"
)

// How long a message waits if the provider does not say so.
const (
	configWait   = time.Minute
	throttleWait = time.Minute
	awayWait     = 10 * time.Second
	maxWait      = 24 * time.Hour
)

// misconfigured postpones a message until an operator has acted. It is throttled, because every
// other message would fail in the same way.
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

// unanswered is the answer if the server gave none.
func unanswered(r reply) notify.Answer {
	code := codeOf(r.err)
	detail := "not sent: " + code
	if r.sent {
		detail = "it may have been sent: " + code
	}
	if code == egress.CodeForbiddenAddress || code == egress.CodeForbiddenURL {
		return misconfigured(code, "the provider's name resolves to an address that may not be called")
	}
	return retry(code, detail)
}

// codeOf returns the code for a request's error.
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

// retryAfter returns the wait in header Retry-After, from 1 s to 24 h. def applies if it is
// missing or invalid.
func retryAfter(h http.Header, now time.Time, def time.Duration) time.Duration {
	after, ok := egress.RetryAfter(h, now, maxWait)
	if !ok {
		return def
	}
	return max(after, time.Second)
}

// maxDetail bounds the provider's text in a receipt. minHidden is the length of the shortest text
// that is hidden in it, because a shorter one may be part of any word.
const (
	maxDetail = 256
	minHidden = 4
)

// clean makes a provider's text fit for a receipt: short, without control characters, and without
// the texts in hide, such as the address.
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

// leftUntil returns how long a message is useful. ok is false if it no longer is. 0 means for
// ever.
func leftUntil(expires, now time.Time) (left time.Duration, ok bool) {
	if expires.IsZero() {
		return 0, true
	}
	left = expires.Sub(now)
	return left, left > 0
}

// expired is the answer for a message that is no longer useful.
func expired() notify.Answer { return notify.Answer{Result: worker.Suppress(worker.CodeExpired)} }

// httpDetail describes an answer whose body says nothing.
func httpDetail(r reply) string { return fmt.Sprintf("HTTP %d", r.status) }
