package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
)

// The codes of receipts for faults of the network.
const (
	CodeTimeout = "timeout"
	CodeDNS     = "dns"                // the name has no address
	CodeTLS     = "tls"                // handshake or certificate
	CodeRefused = "connection_refused" // nobody listens
	CodeReset   = "connection_reset"   // it ended before the answer was whole
)

// Fault names what went wrong with a request: one of these codes, or that of an Error; "" for
// anything else.
func Fault(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	_, dns := errors.AsType[*net.DNSError](err)
	switch {
	case isTimeout(err):
		return CodeTimeout
	case dns:
		return CodeDNS
	case isTLS(err):
		return CodeTLS
	case errors.Is(err, syscall.ECONNREFUSED):
		return CodeRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF),
		errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, net.ErrClosed), errors.Is(err, ErrConnections):
		return CodeReset
	}
	return ""
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}

func isTLS(err error) bool {
	var (
		record    tls.RecordHeaderError
		verify    *tls.CertificateVerificationError
		alert     tls.AlertError
		unknown   x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		echRefuse *tls.ECHRejectionError
	)
	return errors.As(err, &record) || errors.As(err, &verify) || errors.As(err, &alert) ||
		errors.As(err, &unknown) || errors.As(err, &hostname) || errors.As(err, &invalid) ||
		errors.As(err, &echRefuse) || strings.Contains(err.Error(), "tls: ")
}
