package webhook

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/traceparent"
)

// Settings are the inputs of a request besides its due event.
type Settings struct {
	Keys      Keys
	Headers   http.Header // of the origin, from the settings; canonical names
	UserAgent string
	Now       time.Time // for webhook-timestamp

	TraceParent string // of the span of this attempt; "" if none is recorded
}

// Request is an outgoing POST.
type Request struct {
	URL     *url.URL
	Header  http.Header
	Body    []byte
	Timeout time.Duration
}

// build makes the request for a due event. It is pure: the same event and settings give the same
// bytes.
func build(e *worker.DueEvent, c callback, s Settings) (*Request, error) {
	r := &Request{URL: c.url, Header: make(http.Header, 24), Timeout: c.timeout}
	for name, values := range s.Headers {
		r.Header[name] = values
	}
	if c.raw {
		r.Body = e.Payload
		if len(e.Payload) > 0 {
			r.Header["Content-Type"] = []string{contentType(e)}
		}
	} else {
		r.Body = envelope(e)
		r.Header["Content-Type"] = []string{"application/json"}
	}
	r.set("User-Agent", s.UserAgent)
	// Only the first bytes of an answer are used, so compression would gain nothing.
	r.set("Accept-Encoding", "identity")
	r.set("X-Trigger-Id", url.PathEscape(e.TriggerID()))
	r.set("X-Trigger-Attempt", strconv.Itoa(e.Attempt))
	r.cloudEvent(e)
	parent := cmp.Or(s.TraceParent, e.TraceParent)
	if _, ok := traceparent.Parse(parent); ok {
		r.set("Traceparent", parent)
	}
	id := messageID(e.ID)
	r.set("Webhook-Id", id)
	r.set("Webhook-Timestamp", strconv.FormatInt(s.Now.Unix(), 10))
	signature, err := s.Keys.signatures(id, s.Now, r.Body)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	r.set("Webhook-Signature", signature)
	return r, nil
}

// set sets a header, by its canonical name, to a value that is known to be printable ASCII. ""
// omits it.
func (r *Request) set(name, value string) {
	if value != "" {
		r.Header[name] = []string{value}
	}
}

// attribute sets an attribute of the due event, which may have any characters.
func (r *Request) attribute(name, value string) { r.set(name, escaped(value)) }

// cloudEvent sets the attributes of the due event (CloudEvents HTTP binding,
// binary mode).
func (r *Request) cloudEvent(e *worker.DueEvent) {
	r.attribute("Ce-Specversion", "1.0")
	r.attribute("Ce-Id", e.ID)
	r.attribute("Ce-Source", e.Source)
	r.attribute("Ce-Type", worker.DueType)
	r.attribute("Ce-Subject", e.Key)
	r.attribute("Ce-Time", instant(e.Scheduled))
	r.attribute("Ce-Wcfired", instant(e.Fired))
	r.attribute("Ce-Wcrevision", strconv.FormatInt(e.Revision, 10))
	r.attribute("Ce-Wcattempt", strconv.Itoa(e.Attempt))
	r.attribute("Ce-Wcstep", strconv.Itoa(e.Step))
	r.attribute("Ce-Wclocaltime", e.LocalTime)
	r.attribute("Ce-Wcuser", e.User)
	r.attribute("Ce-Expirytime", instant(e.Expires))
}

func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// escaped encodes a value by the CloudEvents HTTP binding (3.1.3.2): characters that are not
// printable ASCII, and space, quote and percent, become %XX. So no line end passes.
func escaped(v string) string {
	plain := true
	for i := range len(v) {
		plain = plain && !mustEscape(v[i])
	}
	if plain {
		return v
	}
	var b strings.Builder
	b.Grow(len(v) + 16)
	for i := range len(v) {
		if c := v[i]; mustEscape(c) {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func mustEscape(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }

// contentType returns the payload's content type. If it is invalid in a header, it is omitted.
func contentType(e *worker.DueEvent) string {
	text := e.ContentType
	if text == "" && isJSON(e.Payload) {
		return "application/json"
	}
	if text == "" || len(text) > maxContentType {
		return "application/octet-stream"
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] >= 0x7f {
			return "application/octet-stream"
		}
	}
	return text
}

const maxContentType = 256

// envelope returns {"triggerId","payload"}. The payload is as it was registered if it is JSON, or
// else it is payload_base64.
func envelope(e *worker.DueEvent) []byte {
	id, _ := json.Marshal(e.TriggerID()) // a string can always be encoded
	b := make([]byte, 0, len(e.Payload)*4/3+len(id)+40)
	b = append(append(b, `{"triggerId":`...), id...)
	switch {
	case len(e.Payload) == 0:
		return append(b, `,"payload":null}`...)
	case isJSON(e.Payload):
		b = append(append(b, `,"payload":`...), e.Payload...)
		return append(b, '}')
	}
	b = append(b, `,"payload_base64":"`...)
	return append(base64.StdEncoding.AppendEncode(b, e.Payload), `"}`...)
}

// isJSON decides as GET /v1/triggers/{id} does.
func isJSON(payload []byte) bool {
	return jsontext.Value(payload).IsValid(jsontext.AllowDuplicateNames(true))
}
