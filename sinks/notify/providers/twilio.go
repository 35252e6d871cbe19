package providers

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/twilio"
	"github.com/waterclock/waterclock/sinks/notify"
)

// TwilioOptions configure a Twilio.
type TwilioOptions struct {
	HTTP       HTTP
	AccountSID string
	// AuthToken is the account's token. Replace changes it.
	AuthToken string
	// From is the sender's number or name. MessagingService is the SID of a service that chooses
	// it. One of them is required.
	From             string
	MessagingService string
	// PublicURL is the gateway's URL from outside. "" means that Twilio sends no status reports.
	PublicURL string
}

// Twilio sends SMS by the Messages API
// (https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource).
//
// Twilio documents no idempotency key. If an answer is lost, the message may have been sent, and
// the retry sends it again, unless a status callback arrives first.
type Twilio struct {
	caller *caller
	opts   TwilioOptions

	mu    sync.Mutex
	token string
}

const twilioURL = "https://api.twilio.com"

// NewTwilio refuses invalid options. It connects when the first message is sent.
func NewTwilio(o TwilioOptions) (*Twilio, error) {
	switch {
	case o.AccountSID == "":
		return nil, errors.New("providers.twilio.account_sid is needed")
	case (o.From == "") == (o.MessagingService == ""):
		return nil, errors.New("one of providers.twilio.from and messaging_service_sid is needed, not both")
	}
	if o.HTTP.Conns <= 0 {
		o.HTTP.Conns = 64 // each carries one request at a time if the server speaks only HTTP/1.1
	}
	c, err := newCaller(o.HTTP, twilioURL)
	if err != nil {
		return nil, err
	}
	t := &Twilio{caller: c, opts: o}
	return t, t.Replace(o.AuthToken)
}

// Replace sets a new auth token for later messages.
func (t *Twilio) Replace(authToken string) error {
	if authToken == "" {
		return errors.New("the auth token is empty")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = authToken
	return nil
}

func (t *Twilio) authToken() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.token
}

// Name returns twilio.
func (t *Twilio) Name() string { return "twilio" }

// Close closes connections.
func (t *Twilio) Close() error {
	t.caller.close()
	return nil
}

// Send sends one message.
func (t *Twilio) Send(ctx context.Context, m *notify.Message) notify.Answer {
	token := t.authToken()
	form, refused := t.form(m, token)
	if refused != nil {
		return *refused
	}
	basic := base64.StdEncoding.EncodeToString([]byte(t.opts.AccountSID + ":" + token))
	r := t.caller.do(ctx, http.MethodPost,
		t.caller.base+"/2010-04-01/Accounts/"+url.PathEscape(t.opts.AccountSID)+"/Messages.json",
		http.Header{"Authorization": {"Basic " + basic}, "Content-Type": {"application/x-www-form-urlencoded"}},
		[]byte(form.Encode()))
	return twilioAnswer(r, t.caller.now(), m.Address, m.Address[1:], m.Body, m.Title, token)
}

// Twilio's bounds: how long a message may wait there, and its length.
const (
	twilioMaxValidity = 36_000 // seconds
	twilioMaxBody     = 1600   // characters
)

// form returns the request for a message, or the answer to a message that Twilio could not
// accept.
func (t *Twilio) form(m *notify.Message, token string) (url.Values, *notify.Answer) {
	left, ok := leftUntil(m.Expires, t.caller.now())
	text := smsText(m)
	switch {
	case !ok:
		return nil, new(expired())
	case !isE164(m.Address):
		return nil, new(dead(twilioInvalidTo, "not sent: the address is not an E.164 number"))
	case text == "":
		return nil, new(failed(CodeInvalid, "the message has no text"))
	case utf8.RuneCountInString(text) > twilioMaxBody:
		return nil, new(failed(twilioTooLong, "not sent: the text is longer than 1,600 characters"))
	}
	form := url.Values{"To": {m.Address}, "Body": {text}}
	if t.opts.MessagingService != "" {
		form.Set("MessagingServiceSid", t.opts.MessagingService)
	} else {
		form.Set("From", t.opts.From)
	}
	if left > 0 {
		seconds := min(max(int64(left/time.Second), 1), twilioMaxValidity)
		form.Set("ValidityPeriod", strconv.FormatInt(seconds, 10))
	}
	if t.opts.PublicURL != "" {
		form.Set("StatusCallback", twilio.CallbackURL(t.opts.PublicURL, token, twilio.Ref{
			DueID: m.ID, Attempt: m.Attempt, Postponed: m.Postponed,
		}))
	}
	return form, nil
}

// smsText returns title and body, and the acknowledgement link if they do not contain it. A text
// that is only too long with the link goes without it: that is better than no SMS.
func smsText(m *notify.Message) string {
	var lines []string
	for _, line := range []string{m.Title, m.Body} {
		if line != "" {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n")
	if m.AckURL != "" && !strings.Contains(m.Body, m.AckURL) {
		with := strings.Join(append(lines, m.AckURL), "\n")
		if utf8.RuneCountInString(with) <= twilioMaxBody {
			return with
		}
	}
	return text
}

// isE164 reports whether a text is an ITU-T E.164 number: +, and up to 15 digits.
func isE164(text string) bool {
	digits, ok := strings.CutPrefix(text, "+")
	return ok && len(digits) >= 2 && len(digits) <= 15 && digits[0] != '0' && strings.Trim(digits, "0123456789") == ""
}

// CodeOptedOut is the code for a receiver who has sent STOP. An opt-out in the preferences has
// the same code.
const CodeOptedOut = "opted_out"

// The codes of Twilio on which decisions depend (https://www.twilio.com/docs/api/errors), in the
// form of receipts.
const (
	twilioAuth        = "twilio_20003" // wrong credentials
	twilioTooManyAPI  = "twilio_20429" // too many requests
	twilioInvalidTo   = "twilio_21211" // not a valid number
	twilioNotMobile   = "twilio_21614" // a number that cannot receive SMS
	twilioUnsubscribe = "twilio_21610" // the receiver has sent STOP
	twilioTooLong     = "twilio_21617" // over 1,600 characters
	twilioQueueFull   = "twilio_21611" // the sender's queue is full
	twilioRegion      = "twilio_21408" // the account may not send to this receiver's country
	twilioTrial       = "twilio_21608" // a trial account may not send to this receiver
)

// twilioOurs are codes for which an operator must act: the credentials, the sender, the
// permissions of the account.
var twilioOurs = []string{
	twilioAuth, "twilio_20403", "twilio_20404", "twilio_21212", "twilio_21603", "twilio_21606", "twilio_21609",
	"twilio_21659", "twilio_21660", "twilio_21701", "twilio_21703", "twilio_30002",
}

var twilioCodes = append([]string{
	twilioTooManyAPI, twilioInvalidTo, twilioNotMobile, twilioTooLong, twilioQueueFull, twilioRegion, twilioTrial,
	CodeOptedOut,
	"twilio_21612", "twilio_21635", "twilio_30003", "twilio_30004", "twilio_30005", "twilio_30006", "twilio_30007",
	"twilio_30008",
}, twilioOurs...)

// twilioReply is an answer of the Messages API: a message, or an error.
type twilioReply struct {
	SID     string `json:"sid"`
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// twilioAnswer interprets an answer of Twilio. The detail must not contain the texts in hide.
//
//	201                             accepted
//	400 21610                       suppressed, opted_out
//	400 21211, 21614                failed, dead address
//	401, 403, 400 of the sender     postponed: an operator must act
//	429, 20429, 21611               postponed for Retry-After, and all others too
//	other 4xx                       failed
//	5xx, no answer                  retry; it may have been sent
func twilioAnswer(r reply, now time.Time, hide ...string) notify.Answer {
	if r.err != nil {
		return unanswered(r)
	}
	var t twilioReply
	if json.Unmarshal(r.body, &t) != nil {
		t = twilioReply{}
	}
	if r.status/100 == 2 {
		return notify.Answer{Result: worker.Accepted(), Ref: clean(t.SID)}
	}
	code, detail := CodeStatus, httpDetail(r)
	if t.Code != 0 {
		code = twilio.Code(strconv.Itoa(t.Code), "error")
		detail = clean(t.Message, hide...)
	}
	switch {
	case code == twilioUnsubscribe:
		return notify.Answer{
			Result: worker.Suppress(CodeOptedOut).WithDetail("Twilio 21610: the receiver has sent STOP"),
		}
	case code == twilioInvalidTo, code == twilioNotMobile:
		return dead(code, detail)
	case code == twilioRegion, code == twilioTrial:
		return failed(code, detail) // an operator could act, but messages to others need not wait for that
	case r.status == http.StatusTooManyRequests, code == twilioTooManyAPI, code == twilioQueueFull:
		return throttled(retryAfter(r.header, now, throttleWait), code, detail)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden, isTwilioOurs(code):
		return misconfigured(code, detail)
	case r.status/100 == 4:
		return failed(code, detail)
	}
	return retry(code, clean("it may have been sent: "+detail))
}

func isTwilioOurs(code string) bool {
	for _, ours := range twilioOurs {
		if code == ours {
			return true
		}
	}
	return false
}
