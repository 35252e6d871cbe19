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

// The codes that receipts of this worker have. There are no others, so they
// may be labels of metrics.
const (
	CodeRedirect    = "http_3xx"         // never followed
	CodeTimedOut    = "http_408"         // the receiver gave up waiting
	CodeGone        = "http_410"         // the receiver wants no more
	CodeTooMany     = "http_429"         // the receiver has a rate
	CodeClientError = "http_4xx"         // any other
	CodeUnavailable = "http_503"         // the receiver is away
	CodeServerError = "http_5xx"         // any other
	CodeBadStatus   = "http_other"       // no status that a final answer has
	CodeTimeout     = worker.CodeTimeout // no whole answer within callback.timeout
	CodeDNS         = egress.CodeDNS
	CodeRefused     = egress.CodeRefused
	CodeReset       = egress.CodeReset
	CodeTLS         = egress.CodeTLS
	CodeConnection  = "connection"                // any other fault of the network
	CodeProtocol    = "bad_answer"                // what came back is not HTTP
	CodeTooLarge    = "answer_too_large"          // over webhook.answer_limit
	CodeNoCallback  = "no_callback"               // the due event has no URL
	CodeURL         = egress.CodeForbiddenURL     // settings do not allow it any more
	CodeAddress     = egress.CodeForbiddenAddress // its name leads to an address that is not public
	CodeCancelled   = "cancelled"                 // callback.recheck found it cancelled
	CodeRecheck     = "recheck_failed"            // callback.recheck got no answer
	CodeOpen        = "breaker_open"              // not sent: most calls of the last 30 s failed
	CodeFull        = "endpoint_busy"             // not sent: too many to the endpoint wait already
	CodeShare       = "tenant_busy"               // not sent: the tenant has its share, and others wait
	CodeRate        = "rate_limited"              // not sent: endpoints.<origin>.rate
	CodePaused      = "paused"                    // not sent: endpoints.<origin>.paused
)

// Codes are all of them.
var Codes = []string{
	CodeRedirect, CodeTimedOut, CodeGone, CodeTooMany, CodeClientError, CodeUnavailable, CodeServerError, CodeBadStatus,
	CodeTimeout, CodeDNS, CodeRefused, CodeReset, CodeTLS, CodeConnection, CodeProtocol, CodeTooLarge, CodeNoCallback,
	CodeURL, CodeAddress, CodeCancelled, CodeRecheck, CodeOpen, CodeFull, CodeShare, CodeRate, CodePaused,
}

// Answer is what came of one request.
type Answer struct {
	Status int         // 0: no head of an answer came
	Header http.Header // of the answer
	Head   []byte      // the first bytes of its body
	Err    error       // why there is no whole answer; nil if there is
	Took   time.Duration
}

// errTooLarge is why an answer was not read to its end.
var errTooLarge = errors.New("the answer is larger than webhook.answer_limit")

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

// decide is the receipt of an answer, and whether it counts as a failure of the
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

// retryAfter is what header Retry-After asks for, at most 24 h. 0 is the profile: there is
// none, it is in the past, or it makes no sense.
func retryAfter(h http.Header, now time.Time) time.Duration {
	after, _ := egress.RetryAfter(h, now, maxRetryAfter)
	return after
}

// codeOf names what went wrong with a request.
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

// maxHead is how much of an answer a receipt shows.
const maxHead = 256

// detail is the log of the attempt: status, milliseconds, and the head of the
// answer or what went wrong. A URL is never in it: query strings hold secrets. Nor
// is an address: tenants read it, and would learn what names of our network resolve
// to, and who our resolver is. `endpoints test` shows operators more.
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

// discreet is what went wrong, without URLs and addresses.
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
		return "the look-up of the host timed out"
	case errors.As(err, &dns):
		return "the look-up of the host failed"
	case errors.As(err, &op) && op.Err != nil:
		return op.Op + ": " + op.Err.Error()
	}
	return err.Error()
}

// shown is text that may go into logs and terminals: one line of printable
// characters, at most n bytes.
func shown(b []byte, n int) string {
	var out strings.Builder
	blank := true // no blanks at the begin, nor two
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
