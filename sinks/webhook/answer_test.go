package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func after(text string, more ...string) http.Header {
	h := http.Header{"Retry-After": {text}}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// Tenants read the detail, so it must not have an address of our network.
func TestDetailIsDiscreet(t *testing.T) {
	from := &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 40001}
	to := &net.TCPAddr{IP: net.IPv4(10, 9, 9, 9), Port: 443}
	for _, row := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "no such host", Name: "hr.corp", Server: "10.255.255.53:53", IsNotFound: true,
		}}, "the host has no address"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "i/o timeout", Name: "hr.corp", Server: "10.255.255.53:53", IsTimeout: true,
		}}, "the DNS lookup of the host timed out"},
		{&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "read udp 10.1.2.3:1->10.255.255.53:53: connection refused", Name: "hr.corp",
			Server: "10.255.255.53:53",
		}}, "the DNS lookup of the host failed"},
		{
			&net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
			"dial: connect: connection refused",
		},
		{
			&net.OpError{
				Op: "read", Net: "tcp", Source: from, Addr: to, Err: os.NewSyscallError("read", syscall.ECONNRESET),
			},
			"read: read: connection reset by peer",
		},
		{&url.Error{Op: "Post", URL: "https://a.example/?secret", Err: &net.OpError{
			Op: "remote error", Err: tls.AlertError(40),
		}}, "remote error: tls: handshake failure"},
		{&net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: &egress.Error{
			Code: CodeAddress, Reason: "hr.corp resolves to 10.9.9.9 is no public address",
		}}, "the host resolves to an address that may not be called"},
	} {
		r, _ := decide(Answer{Err: row.err}, noon)
		if r.Detail != "no answer in 0 ms: "+row.want || strings.Contains(r.Detail, "10.") ||
			strings.Contains(r.Detail, "secret") {
			t.Errorf("%v: %q, want %q", row.err, r.Detail, row.want)
		}
	}
}

// TestDecide tests every row of the table of decide.
func TestDecide(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", err)}
	}
	for _, row := range []struct {
		name   string
		a      Answer
		want   worker.Outcome
		code   string
		after  time.Duration
		failed bool
	}{
		{"200", Answer{Status: 200}, "delivered", "", 0, false},
		{"202", Answer{Status: 202}, "delivered", "", 0, false},
		{"204", Answer{Status: 204}, "delivered", "", 0, false},
		{"299", Answer{Status: 299}, "delivered", "", 0, false},
		{"200, Retry-After", Answer{Status: 200, Header: after("5")}, "delivered", "", 0, false},
		{"200, cut", Answer{Status: 200, Err: io.ErrUnexpectedEOF}, "retry", CodeReset, 0, true},
		{"200, endless", Answer{Status: 200, Err: errTooLarge}, "retry", CodeTooLarge, 0, true},
		{"200, cut by the transport", Answer{Status: 200, Err: egress.ErrBodyTooLarge}, "retry", CodeTooLarge, 0, true},
		{"200, trickles", Answer{Status: 200, Err: context.DeadlineExceeded}, "retry", CodeTimeout, 0, true},
		{"101", Answer{Status: 101}, "retry", CodeBadStatus, 0, true},
		{"301", Answer{Status: 301, Header: http.Header{"Location": {"/"}}}, "failed", CodeRedirect, 0, false},
		{"304", Answer{Status: 304}, "failed", CodeRedirect, 0, false},
		{"307", Answer{Status: 307}, "failed", CodeRedirect, 0, false},
		{"400", Answer{Status: 400}, "retry", CodeClientError, 0, false},
		{"401", Answer{Status: 401}, "retry", CodeClientError, 0, false},
		{"404", Answer{Status: 404}, "retry", CodeClientError, 0, false},
		{"404, Retry-After", Answer{Status: 404, Header: after("5")}, "retry", CodeClientError, 0, false},
		{"408", Answer{Status: 408}, "retry", CodeTimedOut, 0, true},
		{"410", Answer{Status: 410}, "failed", CodeGone, 0, false},
		{"410, cut", Answer{Status: 410, Err: io.ErrUnexpectedEOF}, "failed", CodeGone, 0, false},
		{"429", Answer{Status: 429}, "retry", CodeTooMany, 0, true},
		{"429, seconds", Answer{Status: 429, Header: after("120")}, "retry", CodeTooMany, 2 * time.Minute, true},
		{"500", Answer{Status: 500}, "retry", CodeServerError, 0, true},
		{"500, Retry-After", Answer{Status: 500, Header: after("5")}, "retry", CodeServerError, 0, true},
		{"502, cut", Answer{Status: 502, Err: io.EOF}, "retry", CodeServerError, 0, true},
		{"503", Answer{Status: 503}, "retry", CodeUnavailable, 0, true},
		{
			"503, date",
			Answer{Status: 503, Header: after("Fri, 20 Nov 2026 12:00:30 GMT")},
			"retry", CodeUnavailable,
			30 * time.Second, true,
		},
		{"599", Answer{Status: 599}, "retry", CodeServerError, 0, true},
		{"600", Answer{Status: 600}, "retry", CodeBadStatus, 0, true},
		{"no answer in time", Answer{Err: context.DeadlineExceeded}, "retry", CodeTimeout, 0, true},
		{"dial in time", Answer{Err: dial(syscall.ETIMEDOUT)}, "retry", CodeTimeout, 0, true},
		{"refused", Answer{Err: dial(syscall.ECONNREFUSED)}, "retry", CodeRefused, 0, true},
		{"no route", Answer{Err: dial(syscall.EHOSTUNREACH)}, "retry", CodeConnection, 0, true},
		{"reset", Answer{Err: &net.OpError{Op: "read", Err: syscall.ECONNRESET}}, "retry", CodeReset, 0, true},
		{"closed", Answer{Err: io.EOF}, "retry", CodeReset, 0, true},
		{
			"no such host",
			Answer{Err: &net.OpError{Op: "dial", Err: &net.DNSError{IsNotFound: true}}},
			"retry",
			CodeDNS, 0, true,
		},
		{"handshake", Answer{Err: tls.RecordHeaderError{Msg: "x"}}, "retry", CodeTLS, 0, true},
		{
			"certificate",
			Answer{Err: &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
			"retry",
			CodeTLS, 0, true,
		},
		{"alert", Answer{Err: fmt.Errorf("remote error: %w", tls.AlertError(40))}, "retry", CodeTLS, 0, true},
		{"no HTTP", Answer{Err: errors.New("malformed HTTP response")}, "retry", CodeProtocol, 0, true},
		{
			"forbidden at the dial",
			Answer{Err: &net.OpError{Op: "dial", Err: &egress.Error{Code: CodeAddress}}},
			"failed",
			CodeAddress, 0, false,
		},
		{"forbidden since", Answer{Err: &egress.Error{Code: CodeURL}}, "failed", CodeURL, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r, failed := decide(row.a, noon)
			if r.Outcome != row.want || r.Code != row.code || r.RetryAfter != row.after || failed != row.failed {
				t.Errorf("%s %q after %v, failed %v; want %s %q after %v, failed %v", r.Outcome, r.Code, r.RetryAfter,
					failed, row.want, row.code, row.after, row.failed)
			}
			if r.Code != "" && !slices.Contains(Codes, r.Code) {
				t.Errorf("code %q is not one of Codes", r.Code)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for _, row := range []struct {
		name string
		h    http.Header
		want time.Duration
	}{
		{"none", http.Header{}, 0},
		{"zero is the profile", after("0"), 0},
		{"seconds", after("7"), 7 * time.Second},
		{"blanks", after(" 7 "), 7 * time.Second},
		{"a day", after("86400"), 24 * time.Hour},
		{"over a day", after("86401"), 24 * time.Hour},
		{"over any number", after("99999999999999999999999"), 24 * time.Hour},
		{"negative", after("-5"), 0},
		{"fraction", after("1.5"), 0},
		{"a date", after("Fri, 20 Nov 2026 12:01:00 GMT"), time.Minute},
		{"a date in the past", after("Fri, 20 Nov 2026 11:00:00 GMT"), 0},
		{"a date far away", after("Fri, 20 Nov 9999 11:00:00 GMT"), 24 * time.Hour},
		{"a date long ago", after("Mon, 01 Jan 0001 00:00:00 GMT"), 0},
		{
			"by the receiver's clock", after("Fri, 20 Nov 2026 10:00:09 GMT", "Date", "Fri, 20 Nov 2026 10:00:00 GMT"),
			9 * time.Second,
		},
		{"garbage", after("soon"), 0},
		{"a line end", after("5\r\nX: y"), 0},
	} {
		if got := retryAfter(row.h, noon); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// A receipt shows what happened, and no more than is allowed: one printable line, no URL.
func TestDetail(t *testing.T) {
	took := 12 * time.Millisecond
	for _, row := range []struct {
		name string
		a    Answer
		want string
	}{
		{"plain", Answer{Status: 503, Head: []byte("busy"), Took: took}, "HTTP 503 in 12 ms: busy"},
		{"nothing", Answer{Status: 204, Took: took}, "HTTP 204 in 12 ms"},
		{
			"lines and escapes",
			Answer{Status: 500, Head: []byte(" \r\n<p>\x1b[31mno\x00\r\n\r\nroom \u202e\xff"), Took: took},
			"HTTP 500 in 12 ms: <p> [31mno room \ufffd",
		},
		{"no answer", Answer{Err: errors.New("boom"), Took: took}, "no answer in 12 ms: boom"},
		{
			"cut",
			Answer{Status: 200, Head: []byte("x"), Err: io.ErrUnexpectedEOF, Took: took},
			"HTTP 200 in 12 ms: unexpected EOF",
		},
		{
			"an error with a URL",
			Answer{Err: &url.Error{URL: "https://a/?token=s3cret", Op: "Post", Err: io.EOF}, Took: took},
			"no answer in 12 ms: EOF",
		},
	} {
		if got := detail(row.a); got != row.want {
			t.Errorf("%s: %q, want %q", row.name, got, row.want)
		}
	}
	long := detail(Answer{Status: 500, Head: []byte(strings.Repeat("ä ", 500)), Took: took})
	if len(long) > len("HTTP 500 in 12 ms: ")+maxHead || !utf8.ValidString(long) {
		t.Errorf("%d bytes: %q", len(long), long)
	}
}

func FuzzShown(f *testing.F) {
	f.Add([]byte("a\r\nb"), 3)
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		n = min(max(n, 0), 1000)
		if s := shown(b, n); len(s) > n || !utf8.ValidString(s) || strings.ContainsAny(s, "\r\n\x1b\x00") {
			t.Errorf("%q", s)
		}
	})
}
