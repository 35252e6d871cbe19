package webhook

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// The codes in the receipts of this worker. There are no others, so they may be labels of
// metrics.
const (
	CodeRedirect    = "http_3xx"         // never followed
	CodeTimedOut    = "http_408"         // the receiver timed out
	CodeGone        = "http_410"         // the receiver wants no more requests
	CodeTooMany     = "http_429"         // the receiver has a rate limit
	CodeClientError = "http_4xx"         // any other 4xx
	CodeUnavailable = "http_503"         // the receiver is unavailable
	CodeServerError = "http_5xx"         // any other 5xx
	CodeBadStatus   = "http_other"       // not the status of a final answer
	CodeTimeout     = worker.CodeTimeout // no complete answer within callback.timeout
	CodeDNS         = egress.CodeDNS
	CodeRefused     = egress.CodeRefused
	CodeReset       = egress.CodeReset
	CodeTLS         = egress.CodeTLS
	CodeConnection  = "connection"                // any other network error
	CodeProtocol    = "bad_answer"                // the answer is not HTTP
	CodeTooLarge    = "answer_too_large"          // over webhook.answer_limit
	CodeNoCallback  = "no_callback"               // the due event has no URL
	CodeURL         = egress.CodeForbiddenURL     // the settings no longer permit it
	CodeAddress     = egress.CodeForbiddenAddress // its name resolves to an address that is not public
	CodeCancelled   = "cancelled"                 // callback.recheck found that it was cancelled
	CodeRecheck     = "recheck_failed"            // callback.recheck got no answer
	CodeOpen        = "breaker_open"              // not sent: most calls of the last 30 s failed
	CodeFull        = "endpoint_busy"             // not sent: too many requests to the endpoint wait already
	CodeShare       = "tenant_busy"               // not sent: the tenant uses its share, and others wait
	CodeRate        = "rate_limited"              // not sent: endpoints.<origin>.rate
	CodePaused      = "paused"                    // not sent: endpoints.<origin>.paused
)

// Codes lists all codes.
var Codes = []string{
	CodeRedirect, CodeTimedOut, CodeGone, CodeTooMany, CodeClientError, CodeUnavailable, CodeServerError, CodeBadStatus,
	CodeTimeout, CodeDNS, CodeRefused, CodeReset, CodeTLS, CodeConnection, CodeProtocol, CodeTooLarge, CodeNoCallback,
	CodeURL, CodeAddress, CodeCancelled, CodeRecheck, CodeOpen, CodeFull, CodeShare, CodeRate, CodePaused,
}

// Answer is the result of one request.
type Answer struct {
	Status int         // 0: no response headers came
	Header http.Header // of the answer
	Head   []byte      // the first bytes of its body
	Err    error       // why there is no complete answer; nil: it is complete
	Took   time.Duration
}

// errTooLarge means that an answer was not read to its end.
var errTooLarge = errors.New("the answer is larger than webhook.answer_limit")

// maxRetryAfter bounds the wait that a receiver may request.
const maxRetryAfter = 24 * time.Hour

// decide returns the receipt for an answer, and whether the answer counts as a failure of the
// endpoint (for its breaker).
//
//	answer                          receipt              endpoint failed
//	2xx, whole                      delivered            no
//	3xx                             failed    http_3xx   no
//	410                             failed    http_410   no
//	429, 503 with Retry-After       retry, after that    yes
//	408, 429, 5xx                   retry                yes
//	other 4xx                       retry                no
//	not whole, or none              retry                yes
//	an address that is forbidden    failed               no
func decide(a Answer, now time.Time) (r worker.Result, failed bool) {
	r, failed = judge(a, now)
	r.Detail = detail(a)
	return r, failed
}

func judge(a Answer, now time.Time) (r worker.Result, failed bool) {
	if a.Err != nil && (a.Status == 0 || a.Status/100 == 2) {
		code := codeOf(a.Err)
		if code == CodeAddress || code == CodeURL {
			return worker.Fail(code, ""), false
		}
		return worker.Retry(0).WithCode(code), true
	}
	switch {
	case a.Status/100 == 2:
		return worker.Delivered(), false
	case a.Status/100 == 3:
		return worker.Fail(CodeRedirect, ""), false
	case a.Status == http.StatusGone:
		return worker.Fail(CodeGone, ""), false
	case a.Status == http.StatusTooManyRequests:
		return worker.Retry(retryAfter(a.Header, now)).WithCode(CodeTooMany), true
	case a.Status == http.StatusServiceUnavailable:
		return worker.Retry(retryAfter(a.Header, now)).WithCode(CodeUnavailable), true
	case a.Status == http.StatusRequestTimeout:
		return worker.Retry(0).WithCode(CodeTimedOut), true
	case a.Status/100 == 4:
		return worker.Retry(0).WithCode(CodeClientError), false
	case a.Status/100 == 5:
		return worker.Retry(0).WithCode(CodeServerError), true
	}
	return worker.Retry(0).WithCode(CodeBadStatus), true
}

// retryAfter returns the wait in header Retry-After, at most 24 h. 0 means that the retry profile
// applies: the header is missing, in the past, or invalid.
func retryAfter(h http.Header, now time.Time) time.Duration {
	after, _ := egress.RetryAfter(h, now, maxRetryAfter)
	return after
}

// codeOf returns the code for a request's error.
func codeOf(err error) string {
	if errors.Is(err, errTooLarge) || errors.Is(err, egress.ErrBodyTooLarge) {
		return CodeTooLarge
	}
	if code := egress.Fault(err); code != "" {
		return code
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return CodeConnection
	}
	return CodeProtocol
}

// maxHead is how many bytes of an answer a receipt shows.
const maxHead = 256

// detail is the log text of the attempt: status, milliseconds, and the head of the answer or the
// error. It never has a URL, because query strings hold secrets. It never has an address either:
// tenants read it, and would learn to what names in our network resolve, and which resolver we
// use. `endpoints test` shows operators more.
func detail(a Answer) string {
	ms := a.Took.Milliseconds()
	what := shown(a.Head, maxHead)
	if a.Err != nil {
		what = shown([]byte(discreet(a.Err)), maxHead)
	}
	text := fmt.Sprintf("no answer in %d ms", ms)
	if a.Status != 0 {
		text = fmt.Sprintf("HTTP %d in %d ms", a.Status, ms)
	}
	if what != "" {
		text += ": " + what
	}
	return text
}

// discreet describes an error without URLs and addresses.
func discreet(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	var dns *net.DNSError
	var op *net.OpError
	if e, ok := errors.AsType[*egress.Error](err); ok {
		if e.Code == egress.CodeForbiddenAddress {
			return "the host resolves to an address that may not be called"
		}
		return e.Reason
	}
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "the host has no address"
	case errors.As(err, &dns) && dns.IsTimeout:
		return "the DNS lookup of the host timed out"
	case errors.As(err, &dns):
		return "the DNS lookup of the host failed"
	case errors.As(err, &op) && op.Err != nil:
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// shown returns text that may go into logs and terminals: one line of printable characters, at
// most n bytes.
func shown(b []byte, n int) string {
	var out strings.Builder
	blank := true // drop leading and repeated blanks
	for len(b) > 0 {
		r, size := utf8.DecodeRune(b)
		b = b[size:]
		if !unicode.IsPrint(r) || r == ' ' {
			if !blank && out.Len()+1 <= n {
				out.WriteByte(' ')
			}
			blank = true
			continue
		}
		if out.Len()+utf8.RuneLen(r) > n {
			break
		}
		blank = false
		out.WriteRune(r)
	}
	return strings.TrimRight(out.String(), " ")
}
