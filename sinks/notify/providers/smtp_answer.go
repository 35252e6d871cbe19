package providers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
)

// stage is the step of a mail at which an error occurred.
type stage int

const (
	atConnect   stage = iota // dial, greeting, EHLO
	atTLS                    // STARTTLS, handshake, certificate
	atLogin                  // AUTH
	atSender                 // MAIL FROM
	atRecipient              // RCPT TO
	atData                   // DATA
	atText                   // the mail itself: the server may have accepted it
)

func (s stage) String() string {
	return [...]string{"connect", "TLS", "AUTH", "MAIL", "RCPT", "DATA", "mail"}[s]
}

// Codes of provider smtp. There are also enhanced status codes such as 5.1.1 (RFC 3463), and
// smtp_550 and the like from servers without them.
const (
	smtpMayBeSent      = "may_be_sent"     // the connection broke after the mail was sent; it is retried
	smtpInvalidAddress = "invalid_address" // not a mail address
)

// smtpCodes are the codes that are labels of metrics.
var smtpCodes = []string{
	smtpMayBeSent, smtpInvalidAddress, "4.2.1", "4.2.2", "4.7.1", "5.1.1", "5.2.1", "5.2.2", "5.7.1",
	"5.7.8", "smtp_421", "smtp_450", "smtp_451", "smtp_535", "smtp_550", "smtp_554",
}

// How long nothing is sent after an error that affects every mail.
const (
	pauseAway   = 5 * time.Second  // the server is unavailable or busy
	pauseConfig = 30 * time.Second // the operator must fix something
)

// smtpAnswer interprets an error for a mail:
//
//	no connection, TLS, greeting, 421   postponed, and so are others: no mail can be sent
//	a rate                              the same; at RCPT it may be this mailbox alone
//	log-in or sender refused            postponed, and so are others: the operator must act
//	4xx                                 retry
//	5xx                                 failed, with the enhanced status code
//	broken connection                   retry; after the text it may have been sent
func smtpAnswer(at stage, err error) notify.Answer {
	said, isReply := errors.AsType[*textproto.Error](err)
	if !isReply {
		return smtpBroken(at, err)
	}
	code, enhanced := codesOf(said)
	detail := "the mail server answered " + at.String() + ": " + smtpShown(said.Error())
	switch {
	case at == atLogin: // the server's text may repeat the credentials
		return smtpThrottled(pauseConfig, code, "the mail server refuses the log-in of providers.smtp.username")
	case at <= atLogin:
		return smtpThrottled(pauseConfig, code, detail)
	case said.Code == 421, busy[enhanced]:
		a := smtpThrottled(pauseAway, code, detail)
		a.MayBeAddress = at == atRecipient && said.Code != 421
		return a
	case said.Code/100 == 4:
		return smtpSaid(worker.Retry(0).WithCode(code).WithDetail(detail))
	case at == atSender && !ofMessage(said.Code, enhanced):
		return smtpThrottled(pauseConfig, code, detail)
	case said.Code/100 == 5:
		return smtpSaid(worker.Fail(code, detail))
	}
	// 2xx or 3xx at the wrong step: it is not a mail server, or we are out of sync.
	return smtpSaid(worker.Retry(0).WithCode(code).WithDetail(detail))
}

// smtpBroken is the answer if the server sent no reply.
func smtpBroken(at stage, err error) notify.Answer {
	code := smtpNetworkCode(err)
	detail := "no mail server at " + at.String() + ": " + smtpShown(err.Error())
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded) && at > atLogin && at < atText:
		return smtpSaid(worker.Retry(0).WithCode(code).WithDetail(detail))
	case at == atText:
		return smtpSaid(worker.Retry(0).WithCode(smtpMayBeSent).WithDetail(
			"the connection broke before the mail server had answered; the mail may have been sent: " +
				smtpShown(err.Error())))
	case at == atTLS, at == atLogin:
		return smtpThrottled(pauseConfig, code, detail)
	case at == atConnect:
		return smtpThrottled(pauseAway, code, detail)
	}
	return smtpSaid(worker.Retry(0).WithCode(code).WithDetail(detail))
}

// busy are the enhanced codes by which a server requests fewer mails: system not accepting
// messages, congestion, too many recipients, rate limit.
var busy = map[string]bool{"4.3.2": true, "4.4.5": true, "4.5.3": true, "4.7.28": true}

// ofMessage reports whether a refusal of MAIL concerns this mail, not its sender.
func ofMessage(code int, enhanced string) bool {
	return code == 552 || strings.HasPrefix(enhanced, "5.3.4") || strings.HasPrefix(enhanced, "5.2.3")
}

var enhancedCode = regexp.MustCompile(`^([245]\.\d{1,3}\.\d{1,3})(?:[ \n]|$)`)

// codesOf returns the code of a receipt, and the enhanced code if the server sent one that fits
// its class (RFC 3463, 2).
func codesOf(said *textproto.Error) (code, enhanced string) {
	if m := enhancedCode.FindStringSubmatch(said.Msg); m != nil && int(m[1][0]-'0') == said.Code/100 {
		return m[1], m[1]
	}
	return "smtp_" + strconv.Itoa(said.Code), ""
}

func smtpSaid(r worker.Result) notify.Answer { return notify.Answer{Result: r} }

// smtpThrottled is the answer for errors that affect every message.
func smtpThrottled(pause time.Duration, code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Postpone(pause, code).WithDetail(detail), Throttled: true}
}

// smtpNetworkCode names what broke a connection.
func smtpNetworkCode(err error) string {
	_, dns := errors.AsType[*net.DNSError](err)
	_, verify := errors.AsType[*tls.CertificateVerificationError](err)
	_, record := errors.AsType[tls.RecordHeaderError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	timeout, _ := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return worker.CodeTimeout
	case dns:
		return CodeDNS
	case errors.Is(err, syscall.ECONNREFUSED):
		return CodeRefused
	case verify, record, alert:
		return CodeTLS
	case smtpIsReset(err), smtpIsClosed(err):
		return CodeReset
	case timeout != nil && timeout.Timeout():
		return worker.CodeTimeout
	}
	return CodeConnection
}

func smtpIsReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed)
}

// smtpIsGoodbye reports whether an answer to MAIL was about the connection: servers send 421 or
// 4.4.2 before they close an idle one.
func smtpIsGoodbye(at stage, err error) bool {
	said, isReply := errors.AsType[*textproto.Error](err)
	if !isReply || at != atSender {
		return false
	}
	_, enhanced := codesOf(said)
	return said.Code == 421 || enhanced == "4.4.2"
}

// smtpShown returns foreign text as a receipt may repeat it: one line of at most 256 bytes.
func smtpShown(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) ||
			unicode.IsControl(r)
	}), " ")
	line = strings.ToValidUTF8(line, "")
	if len(line) > 256 {
		line = strings.ToValidUTF8(line[:253], "") + "…"
	}
	return line
}

// smtpHides removes the address from a server's text, because receipts outlive the address.
func smtpHides(a notify.Answer, address string) notify.Answer {
	for _, secret := range []string{address, strings.SplitN(address, "@", 2)[0]} {
		if len(secret) > 2 { // a text like "a" would match anywhere
			hidden := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(secret))
			a.Result.Detail = hidden.ReplaceAllLiteralString(a.Result.Detail, "…")
		}
	}
	return a
}
