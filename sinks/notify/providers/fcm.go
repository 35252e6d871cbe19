package providers

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
)

// FCMOptions configure an FCM.
type FCMOptions struct {
	HTTP HTTP
	// Project is the id of the Firebase project. "": the one in the credentials.
	Project string
	// Credentials are a service account's JSON key file from the Google Cloud console. Replace
	// changes them.
	Credentials []byte
}

// FCM sends pushes by Firebase Cloud Messaging, HTTP v1
// (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send).
type FCM struct {
	caller  *caller
	project string // "": the one in the credentials
	tokens  *googleTokens
}

const fcmURL = "https://fcm.googleapis.com"

// NewFCM refuses invalid options. It connects when the first message is sent.
func NewFCM(o FCMOptions) (*FCM, error) {
	c, err := newStreams(o.HTTP, fcmURL)
	if err != nil {
		return nil, err
	}
	f := &FCM{caller: c, project: o.Project, tokens: newGoogleTokens(c)}
	return f, f.Replace(o.Credentials)
}

// Replace sets new credentials for later messages.
func (f *FCM) Replace(credentials []byte) error {
	account, err := readAccount(credentials)
	if err != nil {
		return err
	}
	if f.project == "" && account.ProjectID == "" {
		return errors.New("the credentials name no project_id: set providers.fcm.project")
	}
	f.tokens.replace(account)
	return nil
}

// Name returns fcm.
func (f *FCM) Name() string { return "fcm" }

// Close closes connections.
func (f *FCM) Close() error {
	f.caller.close()
	return nil
}

// Send sends one message. If FCM no longer accepts the token, a new one is fetched once.
func (f *FCM) Send(ctx context.Context, m *notify.Message) notify.Answer {
	body, refused := fcmBody(m, f.caller.now())
	if refused != nil {
		return *refused
	}
	token, project, problem := f.tokens.get(ctx)
	if problem != nil {
		return *problem
	}
	r := f.post(ctx, token, project, body)
	if r.err == nil && r.status == http.StatusUnauthorized && fcmErrorOf(r.body).code() != fcmThirdParty {
		f.tokens.forget(token)
		if token, project, problem = f.tokens.get(ctx); problem != nil {
			return *problem
		}
		r = f.post(ctx, token, project, body)
	}
	return fcmAnswer(r, m.Address, f.caller.now())
}

func (f *FCM) post(ctx context.Context, token, project string, body []byte) reply {
	if f.project != "" {
		project = f.project
	}
	return f.caller.do(ctx, http.MethodPost, f.caller.base+"/v1/projects/"+url.PathEscape(project)+"/messages:send",
		http.Header{"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"}}, body)
}

// The request of FCM. The fields are those of
// https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages.
type (
	fcmRequest struct {
		Message fcmMessage `json:"message"`
	}
	fcmMessage struct {
		Token        string            `json:"token"`
		Notification fcmNotification   `json:"notification"`
		Data         map[string]string `json:"data,omitempty"`
		Android      fcmAndroid        `json:"android"`
		APNS         fcmHeaders        `json:"apns"`
		Webpush      fcmHeaders        `json:"webpush"`
	}
	fcmNotification struct {
		Title string `json:"title,omitempty"`
		Body  string `json:"body,omitempty"`
		Tag   string `json:"tag,omitempty"` // Android only
	}
	fcmAndroid struct {
		CollapseKey  string          `json:"collapse_key"`
		Priority     string          `json:"priority"`
		TTL          string          `json:"ttl,omitempty"`
		Notification fcmNotification `json:"notification"`
	}
	fcmHeaders struct {
		Headers map[string]string `json:"headers"`
	}
)

// fcmMaxTTL is the longest time for which FCM keeps a message, and its default: four weeks.
const fcmMaxTTL = 28 * 24 * time.Hour

// fcmBody returns the request for a message, or the answer to a message that FCM could not
// accept.
func fcmBody(m *notify.Message, now time.Time) ([]byte, *notify.Answer) {
	left, ok := leftUntil(m.Expires, now)
	if !ok {
		return nil, new(expired())
	}
	if m.Address == "" {
		return nil, new(failed(CodeInvalid, "the address is empty"))
	}
	data := withDeepLink(m)
	for key := range data {
		if fcmReserved(key) {
			return nil, new(failed(CodeInvalid, "FCM reserves the data key "+strconv.Quote(clean(key))))
		}
	}
	id := hashOf(m.ID)
	out := fcmMessage{
		Token: m.Address, Notification: fcmNotification{Title: m.Title, Body: m.Body}, Data: data,
		Android: fcmAndroid{CollapseKey: id, Priority: "NORMAL", Notification: fcmNotification{Tag: id}},
		APNS:    fcmHeaders{map[string]string{"apns-priority": "5", "apns-collapse-id": id}},
		Webpush: fcmHeaders{map[string]string{"Urgency": "normal", "Topic": id[:32]}},
	}
	if m.High {
		out.Android.Priority, out.APNS.Headers["apns-priority"], out.Webpush.Headers["Urgency"] = "HIGH", "10", "high"
	}
	if left > 0 {
		left = min(left, fcmMaxTTL)
		out.Android.TTL = strconv.FormatFloat(left.Truncate(time.Millisecond).Seconds(), 'f', -1, 64) + "s"
		out.Webpush.Headers["TTL"] = strconv.FormatInt(int64(left/time.Second), 10)
		out.APNS.Headers["apns-expiration"] = strconv.FormatInt(m.Expires.Unix(), 10)
	}
	body, err := json.Marshal(fcmRequest{out})
	if err != nil {
		return nil, new(failed(CodeInvalid, "the message cannot be encoded as JSON"))
	}
	return body, nil
}

// fcmReserved reports whether FCM itself uses a data key
// (https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages, field data).
func fcmReserved(key string) bool {
	return key == "from" || key == "message_type" || key == "gcm" ||
		strings.HasPrefix(key, "google.") || strings.HasPrefix(key, "gcm.")
}

// withDeepLink returns the data of a push, with its deep link. It may return the message's own
// map, so nobody may change it.
func withDeepLink(m *notify.Message) map[string]string {
	if m.DeepLink == "" || m.Data["deep_link"] != "" {
		return m.Data
	}
	data := make(map[string]string, len(m.Data)+1)
	for key, value := range m.Data {
		data[key] = value
	}
	data["deep_link"] = m.DeepLink
	return data
}

// hashOf returns a key of 43 characters for an id, for collapsing copies.
func hashOf(id string) string {
	sum := sha256.Sum256([]byte(id))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// The codes of FCM on which decisions depend
// (https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).
const (
	fcmInvalid      = "INVALID_ARGUMENT"
	fcmUnregistered = "UNREGISTERED"
	fcmSender       = "SENDER_ID_MISMATCH"
	fcmQuota        = "QUOTA_EXCEEDED"
	fcmUnavailable  = "UNAVAILABLE"
	fcmInternal     = "INTERNAL"
	fcmThirdParty   = "THIRD_PARTY_AUTH_ERROR"
	fcmDenied       = "PERMISSION_DENIED"
	fcmNobody       = "UNAUTHENTICATED"
	fcmExhausted    = "RESOURCE_EXHAUSTED"
	fcmNotFound     = "NOT_FOUND"
)

var fcmCodes = []string{
	fcmInvalid, fcmUnregistered, fcmSender, fcmQuota, fcmUnavailable, fcmInternal, fcmThirdParty, fcmDenied,
	fcmNobody, fcmExhausted, fcmNotFound,
}

// fcmError is an error answer: a google.rpc.Status, whose details may have an FcmError and
// a BadRequest.
type fcmError struct {
	Error struct {
		Status  string `json:"status"`
		Message string `json:"message"`
		Details []struct {
			Type            string `json:"@type"`
			ErrorCode       string `json:"errorCode"`
			FieldViolations []struct {
				Field string `json:"field"`
			} `json:"fieldViolations"`
		} `json:"details"`
	} `json:"error"`
}

// fcmErrorOf decodes an error answer. One of another form has no code.
func fcmErrorOf(body []byte) *fcmError {
	e := new(fcmError)
	if json.Unmarshal(body, e) != nil {
		return new(fcmError)
	}
	return e
}

// code returns FCM's own code, or else the status.
func (e *fcmError) code() string {
	for _, d := range e.Error.Details {
		if d.ErrorCode != "" && strings.HasSuffix(d.Type, "/google.firebase.fcm.v1.FcmError") {
			return d.ErrorCode
		}
	}
	return e.Error.Status
}

// detail names the invalid fields, because FCM's text would quote their values.
func (e *fcmError) detail(address string) string {
	var fields []string
	for _, d := range e.Error.Details {
		for _, v := range d.FieldViolations {
			fields = append(fields, v.Field)
		}
	}
	if len(fields) > 0 {
		slices.Sort(fields)
		return clean("wrong: "+strings.Join(slices.Compact(fields), ", "), address)
	}
	return clean(e.Error.Message, address)
}

// fcmAnswer interprets an answer of FCM.
//
//	200                               accepted
//	404 UNREGISTERED                  failed, dead address
//	403 SENDER_ID_MISMATCH            failed; the address stays, because the setting may be wrong
//	400 INVALID_ARGUMENT, other 4xx   failed
//	401, other 403, 404               postponed: an operator must act
//	429 QUOTA_EXCEEDED                postponed for Retry-After; it may be about this phone alone
//	other 429, 503                    postponed for Retry-After, and all others too
//	500, other 5xx, no answer         retry
func fcmAnswer(r reply, address string, now time.Time) notify.Answer {
	if r.err != nil {
		return unanswered(r)
	}
	if r.status == http.StatusOK {
		var sent struct{ Name string }
		_ = json.Unmarshal(r.body, &sent) // it is sent, even if the name is missing
		return notify.Answer{Result: worker.Accepted(), Ref: clean(sent.Name)}
	}
	e := fcmErrorOf(r.body)
	code, detail := clip(e.code()), e.detail(address)
	if code == "" {
		code, detail = CodeStatus, httpDetail(r)
	}
	switch {
	case code == fcmUnregistered:
		return dead(code, detail)
	case code == fcmSender: // with the credentials of another project, this is the answer to every token
		return failed(code, detail)
	case code == fcmQuota: // for the project, or for this phone: the page mentions both
		a := throttled(retryAfter(r.header, now, throttleWait), code, detail)
		a.MayBeAddress = true
		return a
	case r.status == http.StatusTooManyRequests:
		return throttled(retryAfter(r.header, now, throttleWait), code, detail)
	case r.status == http.StatusServiceUnavailable || code == fcmUnavailable:
		return throttled(retryAfter(r.header, now, awayWait), code, detail)
	case r.status == http.StatusUnauthorized, r.status == http.StatusForbidden, r.status == http.StatusNotFound:
		return misconfigured(code, detail)
	case r.status/100 == 4:
		return failed(code, detail)
	}
	return retry(code, detail)
}

// clip returns a provider's code if it has the form of one.
func clip(code string) string {
	if len(code) > 64 {
		return ""
	}
	for i := range len(code) {
		c := code[i]
		if c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return ""
		}
	}
	return code
}
