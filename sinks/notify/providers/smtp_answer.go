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

// stage is where a mail was when something went wrong.
type stage int

const (
	atConnect   stage = iota // dial, greeting, EHLO
	atTLS                    // STARTTLS, handshake, certificate
	atLogin                  // AUTH
	atSender                 // MAIL FROM
	atRecipient              // RCPT TO
	atData                   // DATA
	atText                   // the mail itself: it may have been taken over
)

func (s stage) String() string {
	return [...]string{"connect", "TLS", "AUTH", "MAIL", "RCPT", "DATA", "mail"}[s]
}

// Codes of provider smtp, beside enhanced status codes such as 5.1.1 (RFC 3463) and,
// of servers without them, smtp_550.
const (
	smtpMayBeSent      = "may_be_sent"     // the connection broke after the mail was sent: it is sent again
	smtpInvalidAddress = "invalid_address" // no mail address
)

// smtpCodes are those that are labels of metrics.
var smtpCodes = []string{
	smtpMayBeSent, smtpInvalidAddress, "4.2.1", "4.2.2", "4.7.1", "5.1.1", "5.2.1", "5.2.2", "5.7.1",
	"5.7.8", "smtp_421", "smtp_450", "smtp_451", "smtp_535", "smtp_550", "smtp_554",
}

// How long nothing is sent after an error that concerns every mail.
const (
	pauseAway   = 5 * time.Second  // the server is not there, or busy
	pauseConfig = 30 * time.Second // the operator has something to mend
)

// smtpAnswer says what an error means for a mail. It is a table:
//
//	no connection, TLS, greeting, 421   postponed, and so are others: no mail can be sent
//	a rate                              the same; at RCPT it may be this mailbox alone
//	log-in or sender refused            postponed, and so are others: the operator must act
//	4xx                                 retry
//	5xx                                 failed, with the enhanced status code
//	broken connection                   retry; behind the text it may have been sent
func smtpAnswer(at stage, err error) notify.Answer {
	said, isReply := errors.AsType[*textproto.Error](err)
	if !isReply {
		return smtpBroken(at, err)
	}
	code, enhanced := codesOf(said)
	detail := "the mail server said at " + at.String() + ": " + smtpShown(said.Error())
	switch {
	case at == atLogin: // what a server says there may repeat what it was given
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
	// 2xx or 3xx at the wrong moment: it is no mail server, or we are out of step.
	return smtpSaid(worker.Retry(0).WithCode(code).WithDetail(detail))
}

// smtpBroken is the answer where the server said nothing.
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

// busy are the enhanced codes by which a server wants fewer mails: system not
// accepting messages, congestion, too many recipients, rate limit.
var busy = map[string]bool{"4.3.2": true, "4.4.5": true, "4.5.3": true, "4.7.28": true}

// ofMessage says that a refusal of MAIL is about this mail, not about its sender.
func ofMessage(code int, enhanced string) bool {
	return code == 552 || strings.HasPrefix(enhanced, "5.3.4") || strings.HasPrefix(enhanced, "5.2.3")
}

var enhancedCode = regexp.MustCompile(`^([245]\.\d{1,3}\.\d{1,3})(?:[ \n]|$)`)

// codesOf are the code of a receipt, and the enhanced one if the server has said it
// and it fits its class (RFC 3463, 2).
func codesOf(said *textproto.Error) (code, enhanced string) {
	if m := enhancedCode.FindStringSubmatch(said.Msg); m != nil && int(m[1][0]-'0') == said.Code/100 {
		return m[1], m[1]
	}
	return "smtp_" + strconv.Itoa(said.Code), ""
}

func smtpSaid(r worker.Result) notify.Answer { return notify.Answer{Result: r} }

// throttled is for what holds for every message, not only for this one.
func smtpThrottled(pause time.Duration, code, detail string) notify.Answer {
	return notify.Answer{Result: worker.Postpone(pause, code).WithDetail(detail), Throttled: true}
}

// networkCode names what broke a connection.
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

// shown is what others say, as a receipt may repeat it: one line of at most 256
// bytes.
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

// smtpHides takes the address out of what a server has said: receipts outlive it.
func smtpHides(a notify.Answer, address string) notify.Answer {
	for _, secret := range []string{address, strings.SplitN(address, "@", 2)[0]} {
		if len(secret) > 2 { // of "a" nobody could tell
			hidden := regexp.MustCompile(`(?i)` + regexp.QuoteMeta(secret))
			a.Result.Detail = hidden.ReplaceAllLiteralString(a.Result.Detail, "…")
		}
	}
	return a
}
