// Package twilio is what the SMS provider and the gateway share about Twilio's status
// callbacks (https://www.twilio.com/docs/messaging/guides/outbound-message-status-in-status-callbacks).
//
// The provider gives Twilio a callback URL with each message. Its query names the due
// event, sealed with a key that is derived from the auth token. Twilio calls it with the
// status of the message, and signs URL and form with the auth token. Both must be right:
// the seal, so that nobody can name another tenant's due event, and the signature, so
// that nobody but Twilio reports a status.
package twilio

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // it is what Twilio signs with: as HMAC it is not broken
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/internal/sealed"
	"github.com/waterclock/waterclock/topics"
)

// Path is where the gateway takes status callbacks.
const Path = "/v1/providers/twilio/status"

// SignatureHeader is the header with Twilio's signature.
const SignatureHeader = "X-Twilio-Signature"

// Sign is Twilio's signature of a request: HMAC-SHA1, keyed by the auth token, of the URL
// and each field of the form with its value, sorted by name
// (https://www.twilio.com/docs/usage/security#validating-requests).
func Sign(authToken, url string, form url.Values) string {
	mac := hmac.New(sha1.New, []byte(authToken))
	mac.Write([]byte(url))
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := slices.Clone(form[name])
		slices.Sort(values) // Twilio's own libraries sort and compact repeated values
		for _, value := range slices.Compact(values) {
			mac.Write([]byte(name + value))
		}
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// Signed says whether a request is signed with one of the auth tokens.
func Signed(authTokens []string, url string, form url.Values, signature string) bool {
	ok := false
	for _, token := range authTokens {
		if token != "" && hmac.Equal([]byte(Sign(token, url, form)), []byte(signature)) {
			ok = true
		}
	}
	return ok
}

// Ref is the emission that a message was sent for.
type Ref struct {
	DueID     string `json:"i"`           // ce_id
	Attempt   int    `json:"a,omitempty"` // 0 if it is not known
	Postponed int    `json:"p,omitempty"`
}

// refParameter is the query parameter of a callback URL that has the sealed Ref.
const refParameter = "ref"

// ErrRef is what is wrong with a reference: no more is said.
var ErrRef = errors.New("the reference was not issued by this server")

// CallbackURL is where Twilio reports on a message. public is the setting public_url.
func CallbackURL(public, authToken string, r Ref) string {
	return strings.TrimRight(public, "/") + Path + "?" + refParameter + "=" + seal(authToken, r)
}

// seal is the reference, sealed with the auth token.
func seal(authToken string, r Ref) string {
	text, _ := json.Marshal(r) // always spelled
	return sealed.Seal(authToken, purpose, text)
}

// purpose tells these seals from all others.
const purpose = "waterclock twilio status"

// maxRef bounds a reference before it is decoded: a ce_id is a key of at most 255 bytes, an
// occurrence and a step.
const maxRef = 4 << 10

// Open is the reference in the query of a callback, if one of the auth tokens sealed it.
func Open(authTokens []string, query string) (r Ref, err error) {
	values, err := url.ParseQuery(query)
	if err != nil || len(values[refParameter]) != 1 || len(values) != 1 {
		return Ref{}, ErrRef
	}
	text, ok := sealed.Open(authTokens, purpose, values.Get(refParameter), maxRef)
	if !ok || json.Unmarshal(text, &r) != nil {
		return Ref{}, ErrRef
	}
	return r, nil
}

// Status is the receipt that a status of a message means: outcome, code and detail. ok is
// false for a status that says nothing new: the message is on its way within Twilio
// (https://www.twilio.com/docs/messaging/api/message-resource#message-status-values).
//
//	queued, accepted, sent     accepted
//	delivered, read            delivered
//	undelivered, failed        failed, twilio_<error code>
//	canceled                   failed, twilio_canceled
//	sending, scheduled, …      none
func Status(status, errorCode string) (o topics.Outcome, code, detail string, ok bool) {
	switch status {
	case "queued", "accepted", "sent":
		return topics.OutcomeAccepted, "", "Twilio: " + status, true
	case "delivered", "read":
		return topics.OutcomeDelivered, "", "Twilio: " + status, true
	case "undelivered", "failed":
		return topics.OutcomeFailed, Code(errorCode, status), "Twilio: " + status, true
	case "canceled":
		return topics.OutcomeFailed, Code("", status), "Twilio: " + status, true
	}
	return "", "", "", false
}

// Code is the code of a receipt for one of Twilio's error codes; def is for where there is
// none, or something else than a number.
func Code(errorCode, def string) string {
	if len(errorCode) == 5 && strings.Trim(errorCode, "0123456789") == "" {
		return "twilio_" + errorCode
	}
	return "twilio_" + def
}
