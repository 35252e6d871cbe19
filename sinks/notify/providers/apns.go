package providers

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
)

// APNsOptions configure an APNs.
type APNsOptions struct {
	HTTP HTTP
	// Key is the signing key as Apple provides it: a .p8 file, which is PEM. Replace changes it.
	Key    []byte
	KeyID  string // its ten characters
	TeamID string // id of the developer team
	Topic  string // the app's bundle id
}

// APNs sends pushes by the Apple Push Notification service
// (https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns).
type APNs struct {
	caller *caller
	topic  string
	tokens *appleTokens
}

// apnsURL is the production server. The development server is api.sandbox.push.apple.com.
const apnsURL = "https://api.push.apple.com"

// NewAPNs refuses invalid options. It connects when the first message is sent.
func NewAPNs(o APNsOptions) (*APNs, error) {
	if o.KeyID == "" || o.TeamID == "" || o.Topic == "" {
		return nil, errors.New("providers.apns.key_id, team_id and topic are all needed")
	}
	c, err := newStreams(o.HTTP, apnsURL)
	if err != nil {
		return nil, err
	}
	a := &APNs{caller: c, topic: o.Topic, tokens: &appleTokens{keyID: o.KeyID, team: o.TeamID}}
	return a, a.Replace(o.Key)
}

// Replace sets a new key for later messages.
func (a *APNs) Replace(key []byte) error { return a.tokens.replace(key) }

// Name returns apns.
func (a *APNs) Name() string { return "apns" }

// Close closes connections.
func (a *APNs) Close() error {
	a.caller.close()
	return nil
}

// Send sends one message. An expired provider token is renewed once.
func (a *APNs) Send(ctx context.Context, m *notify.Message) notify.Answer {
	header, body, refused := a.request(m)
	if refused != nil {
		return *refused
	}
	token, err := a.tokens.get(a.caller.now())
	if err != nil {
		return misconfigured(CodeConfig, err.Error())
	}
	r := a.post(ctx, token, m.Address, header, body)
	if apnsReason(r) == apnsExpiredProviderToken {
		token, ok := a.tokens.renew(token, r.header, a.caller.now())
		if !ok {
			return misconfigured(apnsExpiredProviderToken, "APNs also refuses a new token: correct this machine's "+
				"clock")
		}
		r = a.post(ctx, token, m.Address, header, body)
	}
	return apnsAnswer(r, m.Address, a.caller.now())
}

func (a *APNs) post(ctx context.Context, token, device string, header http.Header, body []byte) reply {
	header = header.Clone()
	header.Set("Authorization", "bearer "+token)
	return a.caller.do(ctx, http.MethodPost, a.caller.base+"/3/device/"+device, header, body)
}

// Bounds: Apple's on a payload
// (https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification),
// and ours on a device token, whose length Apple does not define.
const (
	apnsMaxPayload = 4 << 10
	apnsMaxToken   = 512
)

// request returns the header and body for a message, or the answer to a message that APNs could
// not accept.
func (a *APNs) request(m *notify.Message) (http.Header, []byte, *notify.Answer) {
	_, ok := leftUntil(m.Expires, a.caller.now())
	switch {
	case !ok:
		return nil, nil, new(expired())
	case !isDeviceToken(m.Address):
		return nil, nil, new(dead(apnsBadDeviceToken, "not sent: the address is not a hexadecimal device token"))
	}
	body, refused := apnsBody(m)
	if refused != nil {
		return nil, nil, refused
	}
	h := http.Header{}
	h.Set("Apns-Push-Type", "alert")
	h.Set("Apns-Topic", a.topic)
	h.Set("Apns-Id", uuidOf(m.ID))
	h.Set("Apns-Collapse-Id", hashOf(m.ID))
	h.Set("Apns-Priority", "5")
	if m.High {
		h.Set("Apns-Priority", "10")
	}
	if !m.Expires.IsZero() {
		h.Set("Apns-Expiration", strconv.FormatInt(m.Expires.Unix(), 10))
	}
	return h, body, nil
}

// apnsBody returns the payload
// (https://developer.apple.com/documentation/usernotifications/generating-a-remote-notification).
func apnsBody(m *notify.Message) ([]byte, *notify.Answer) {
	data := withDeepLink(m)
	payload := make(map[string]any, len(data)+1)
	for key, value := range data {
		payload[key] = value
	}
	if _, taken := payload["aps"]; taken {
		return nil, new(failed(CodeInvalid, `APNs reserves the data key "aps"`))
	}
	alert := map[string]string{}
	if m.Title != "" {
		alert["title"] = m.Title
	}
	if m.Body != "" {
		alert["body"] = m.Body
	}
	payload["aps"] = map[string]any{"alert": alert, "sound": "default"}
	body, err := json.Marshal(payload)
	if err != nil {
		return nil, new(failed(CodeInvalid, "the message cannot be encoded as JSON"))
	}
	if len(body) > apnsMaxPayload {
		return nil, new(failed(apnsTooLarge, "not sent: the payload has "+strconv.Itoa(len(body))+
			" bytes, APNs accepts 4096"))
	}
	return body, nil
}

// isDeviceToken keeps other text out of the path.
func isDeviceToken(text string) bool {
	return text != "" && len(text) <= apnsMaxToken && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

// uuidOf returns an id as a UUID (RFC 9562, version 8), the same for every attempt.
func uuidOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	b := sum[:16]
	b[6], b[8] = b[6]&0x0f|0x80, b[8]&0x3f|0x80
	text := hex.EncodeToString(b)
	return text[:8] + "-" + text[8:12] + "-" + text[12:16] + "-" + text[16:20] + "-" + text[20:]
}

// The reasons of APNs on which decisions depend
// (https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns).
const (
	apnsBadDeviceToken       = "BadDeviceToken"
	apnsUnregistered         = "Unregistered"
	apnsExpiredToken         = "ExpiredToken"
	apnsTooLarge             = "PayloadTooLarge"
	apnsTooMany              = "TooManyRequests"
	apnsTooManyTokens        = "TooManyProviderTokenUpdates"
	apnsExpiredProviderToken = "ExpiredProviderToken"
	apnsInternal             = "InternalServerError"
	apnsUnavailable          = "ServiceUnavailable"
	apnsShutdown             = "Shutdown"
)

// apnsOurs are reasons for which an operator must act: the key, the topic, the environment.
var apnsOurs = []string{
	"BadTopic", "MissingTopic", "TopicDisallowed", "BadCertificate", "BadCertificateEnvironment", "Forbidden",
	"InvalidProviderToken", "MissingProviderToken", "UnrelatedKeyIdInToken", "BadEnvironmentKeyIdInToken",
	apnsExpiredProviderToken,
}

// apnsCodes are the reasons on Apple's page.
var apnsCodes = append([]string{
	apnsBadDeviceToken, apnsUnregistered, apnsExpiredToken, apnsTooLarge, apnsTooMany, apnsTooManyTokens, apnsInternal,
	apnsUnavailable, apnsShutdown, "BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority",
	"DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType", "MissingDeviceToken",
	"PayloadEmpty", "BadPath", "MethodNotAllowed",
}, apnsOurs...)

// apnsReason returns the reason in an answer, or "" if it has none.
func apnsReason(r reply) string {
	if r.err != nil || r.status == http.StatusOK {
		return ""
	}
	var e struct {
		Reason string `json:"reason"`
	}
	if json.Unmarshal(r.body, &e) != nil {
		return ""
	}
	return clip(e.Reason)
}

// apnsAnswer interprets an answer of APNs.
//
//	200                                     accepted
//	410                                     failed, dead address
//	403, 400 of the topic                   postponed: an operator must act
//	429 TooManyRequests                     postponed; it is about this device alone
//	429 TooManyProviderTokenUpdates, 503    postponed, and all others too
//	other 4xx                               failed
//	500, other 5xx, no answer               retry
//
// DeviceTokenNotForTopic and BadDeviceToken do not make an address dead, because the setting may be
// wrong: the sandbox answers so to each token of production, and the reverse.
func apnsAnswer(r reply, address string, now time.Time) notify.Answer {
	if r.err != nil {
		return unanswered(r)
	}
	if r.status == http.StatusOK {
		return notify.Answer{Result: worker.Accepted(), Ref: clean(r.header.Get("Apns-Id"))}
	}
	code, detail := apnsReason(r), clean(httpDetail(r), address)
	if code == "" {
		code = CodeStatus
	}
	switch {
	case r.status == http.StatusGone, code == apnsUnregistered, code == apnsExpiredToken:
		return dead(code, detail)
	case code == apnsTooMany:
		return notify.Answer{Result: worker.Postpone(retryAfter(r.header, now, throttleWait), code).WithDetail(detail)}
	case r.status == http.StatusTooManyRequests:
		return throttled(retryAfter(r.header, now, throttleWait), code, detail)
	case r.status == http.StatusServiceUnavailable:
		return throttled(retryAfter(r.header, now, awayWait), code, detail)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden, isOurs(code):
		return misconfigured(code, detail)
	case r.status/100 == 4:
		return failed(code, detail)
	}
	return retry(code, detail)
}

func isOurs(code string) bool {
	for _, ours := range apnsOurs {
		if code == ours {
			return true
		}
	}
	return false
}
