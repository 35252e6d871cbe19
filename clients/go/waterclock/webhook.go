package waterclock

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// SignatureError is why a webhook failed verification.
type SignatureError string

// The reasons, in the order in which they are checked.
const (
	BadSecret     SignatureError = "bad_secret"     // a configuration error: a secret is not base64, or there is none
	MissingHeader SignatureError = "missing_header" // webhook-id, webhook-timestamp or webhook-signature
	BadTimestamp  SignatureError = "timestamp"      // too old, too far in the future, or not a number
	NoMatch       SignatureError = "no_match"       // no signature matches any secret
)

func (e SignatureError) Error() string { return "waterclock: webhook refused: " + string(e) }

// Verifier checks the signatures of webhooks (Standard Webhooks).
type Verifier struct {
	// Tolerance is how far a timestamp may be from now, in either direction. It bounds replays.
	// NewVerifier sets 5 minutes.
	Tolerance time.Duration

	// MaxBody bounds how many bytes Read reads. NewVerifier sets 2 MiB.
	MaxBody int64

	keys [][]byte
	now  func() time.Time
}

// NewVerifier takes one secret, or two during a rotation: as two texts, or as one with a comma, as
// webhook.secret has them. A secret is whsec_….
func NewVerifier(secrets ...string) (*Verifier, error) {
	v := &Verifier{Tolerance: 5 * time.Minute, MaxBody: 2 << 20, now: time.Now}
	for _, text := range secrets {
		for s := range strings.SplitSeq(text, ",") {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(strings.TrimSpace(s), "whsec_"))
			if err != nil || len(key) == 0 {
				return nil, BadSecret // never include the secret itself
			}
			v.keys = append(v.keys, key)
		}
	}
	if len(v.keys) == 0 {
		return nil, BadSecret
	}
	return v, nil
}

// Verify checks the body exactly as received, before decoding. The error is a SignatureError.
func (v *Verifier) Verify(h http.Header, body []byte) error {
	id, at, signatures := h.Get("webhook-id"), h.Get("webhook-timestamp"), h.Get("webhook-signature")
	if id == "" || at == "" || signatures == "" {
		return MissingHeader
	}
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil || at[0] < '0' || at[0] > '9' {
		return BadTimestamp
	}
	if age := v.now().Unix() - seconds; age > int64(v.Tolerance/time.Second) || -age > int64(v.Tolerance/time.Second) {
		return BadTimestamp
	}
	for _, key := range v.keys {
		mac := hmac.New(sha256.New, key)
		fmt.Fprintf(mac, "%s.%s.", id, at)
		mac.Write(body)
		want := mac.Sum(nil)
		for s := range strings.SplitSeq(signatures, " ") {
			text, ok := strings.CutPrefix(s, "v1,")
			got, err := base64.StdEncoding.DecodeString(text)
			if ok && err == nil && hmac.Equal(got, want) {
				return nil
			}
		}
	}
	return NoMatch
}

// Delivery is a verified webhook.
type Delivery struct {
	TriggerID string
	Payload   json.RawMessage // null if the trigger has none
	Bytes     []byte          // a payload that is not JSON
	Raw       []byte          // the body; with callback.body raw, Payload and Bytes are empty

	ID      string // webhook-id, the same for every attempt: use it to deduplicate
	Attempt int    // from 1; 1 if the request does not say
}

// Read reads and verifies a request. Answer 2xx once the work is durable, and 401 for a
// SignatureError. After any other answer, Waterclock tries the delivery again later.
func (v *Verifier) Read(r *http.Request) (*Delivery, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, v.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("waterclock: read the webhook: %w", err)
	}
	if int64(len(body)) > v.MaxBody {
		return nil, fmt.Errorf("waterclock: the webhook has over %d bytes; see MaxBody", v.MaxBody)
	}
	if err := v.Verify(r.Header, body); err != nil {
		return nil, err
	}
	d := &Delivery{Raw: body, ID: r.Header.Get("webhook-id"), Attempt: 1}
	if n, err := strconv.ParseUint(r.Header.Get("X-Trigger-Attempt"), 10, 31); err == nil {
		d.Attempt = int(n)
	}
	if d.TriggerID, err = url.PathUnescape(r.Header.Get("X-Trigger-Id")); err != nil {
		d.TriggerID = r.Header.Get("X-Trigger-Id")
	}
	d.readEnvelope()
	return d, nil
}

// readEnvelope reads the payload, unless the body is the payload itself (callback.body raw). Such
// a payload may have a member triggerId of its own, so the id has to be that of the header.
func (d *Delivery) readEnvelope() {
	var envelope struct {
		TriggerID string          `json:"triggerId"`
		Payload   json.RawMessage `json:"payload"`
		Bytes     []byte          `json:"payload_base64"`
	}
	switch err := json.Unmarshal(d.Raw, &envelope); {
	case err != nil, envelope.TriggerID == "", envelope.Payload == nil && envelope.Bytes == nil:
	case d.TriggerID == "", d.TriggerID == envelope.TriggerID:
		d.TriggerID, d.Payload, d.Bytes = envelope.TriggerID, envelope.Payload, envelope.Bytes
	}
}
