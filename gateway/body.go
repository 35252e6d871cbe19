package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// bodyRoom is what a body may need beside the payload: 16 KiB of headers as escaped JSON,
// 512 dates, tags, and white space.
const bodyRoom = 256 << 10

// bodies reads the bodies of requests, within their bounds.
type bodies struct {
	bodyRate int64
	limits   topics.Limits
	held     *pages // bytes of bodies whose requests are not answered
}

// maxBody bounds one object: a payload in base64 or with escapes, and the other fields.
func (s *bodies) maxBody() int64 { return bodyRoom + 2*int64(s.limits.Payload) }

// encoded refuses a body with a Content-Encoding. Its decoded size is unknown, and
// undecoded it is garbage.
func encoded(w http.ResponseWriter, r *request) error {
	for _, coding := range r.Header.Values("Content-Encoding") {
		if !strings.EqualFold(strings.TrimSpace(coding), "identity") {
			w.Header().Set("Accept-Encoding", "identity") // RFC 9110 15.5.16
			return problem.New(http.StatusUnsupportedMediaType, problem.CodeMalformed, "",
				"send the body as it is, without Content-Encoding")
		}
	}
	return nil
}

// bodyGrace is how long a body may take at any speed.
const bodyGrace = 5 * time.Second

// steady is a body that ends if it comes too slowly. That also ends a blocked read.
type steady struct {
	io.Reader
	control *http.ResponseController
	rate    int64
	begun   time.Time
	last    time.Time // deadline of the whole body
	read    int64
}

// errTrickled ends a body that comes too slowly.
var errTrickled = errors.New("the body is sent too slowly")

// steadily returns the body of a request. The body must end before last.
func (s *bodies) steadily(w http.ResponseWriter, body io.Reader, within time.Duration) *steady {
	now := time.Now()
	return &steady{
		Reader: body, control: http.NewResponseController(w), rate: s.bodyRate, begun: now, last: now.Add(within),
	}
}

func (b *steady) Read(p []byte) (int, error) {
	by := b.begun.Add(bodyGrace + time.Duration(b.read/b.rate)*time.Second)
	if by.After(b.last) {
		by = b.last
	}
	_ = b.control.SetReadDeadline(by)
	n, err := b.Reader.Read(p)
	if b.read += int64(n); err != nil && err != io.EOF && !time.Now().Before(by) {
		err = errTrickled
	}
	if err == io.EOF { // the caller now waits for the answer, so silence is fine
		_ = b.control.SetReadDeadline(b.last)
	}
	return n, err
}

// bodyEnded is the problem of a body that was not read to its end.
func (s *bodies) bodyEnded(err error, detail string) *problem.Problem {
	if errors.Is(err, errTrickled) {
		return problem.New(http.StatusRequestTimeout, problem.CodeMalformed, "", fmt.Sprintf(
			"the body arrived at less than %d bytes a second (limits.body_rate): send it once it is complete; %s",
			s.bodyRate, detail))
	}
	return problem.Malformed(detail)
}

// body reads a request's body whole, within its bound.
func (s *bodies) body(w http.ResponseWriter, r *request) ([]byte, error) {
	if err := encoded(w, r); err != nil {
		return nil, err
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil &&
		strings.HasPrefix(kind, "multipart/") {
		return nil, problem.New(http.StatusUnsupportedMediaType, problem.CodeMalformed, "",
			"send one JSON object, as application/json")
	}
	from := s.steadily(w, http.MaxBytesReader(w, &held{r.Body, s.held, r}, s.maxBody()), requestWithin)
	b, err := readAll(from, r.ContentLength, s.maxBody())
	if errors.Is(err, errNoBodyRoom) {
		return nil, problem.New(http.StatusTooManyRequests, trigger.CodeOverloaded, "",
			"the bodies of requests under way use all the memory that they may; retry later, or on another "+
				"instance").Retry(time.Second)
	}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, problem.New(http.StatusRequestEntityTooLarge, trigger.CodeTooLarge, "",
			fmt.Sprintf("the body has over %d bytes", s.maxBody()))
	}
	if err != nil {
		return nil, s.bodyEnded(err, "the body ended before it was complete")
	}
	return b, nil
}

// held is a body whose bytes count until its request is answered. It ends where nothing is left.
type held struct {
	io.ReadCloser
	all *pages
	of  *request
}

var errNoBodyRoom = errors.New("the bodies under way use all that they may")

func (h *held) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	if h.all.free(h.of.who.Tenant) < int64(n) {
		return 0, errNoBodyRoom
	}
	h.all.add(h.of.who.Tenant, int64(n))
	h.of.body += int64(n)
	return n, err
}

// answered counts a request's body no longer.
func (s *bodies) answered(r *request) { s.held.add(r.who.Tenant, -r.body) }

// readAhead is how much memory is reserved for a body before it comes.
const readAhead = 64 << 10

// readAll is io.ReadAll for a body whose length may be known.
func readAll(from io.Reader, length, most int64) ([]byte, error) {
	if length < 0 || length > most {
		return io.ReadAll(from)
	}
	var b bytes.Buffer
	b.Grow(int(min(length, readAhead)) + bytes.MinRead) // ReadFrom needs this room to see the end
	_, err := b.ReadFrom(from)
	return b.Bytes(), err
}

// object reads a body that is one JSON object.
func (s *bodies) object(w http.ResponseWriter, r *request) (fields, error) {
	b, err := s.body(w, r)
	if err != nil {
		return nil, err
	}
	return parseFields(b)
}

// optionalObject is object for verbs that need no body.
func (s *bodies) optionalObject(w http.ResponseWriter, r *request) (fields, error) {
	b, err := s.body(w, r)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return parseFields(b)
}

// field is one member of a JSON object. Its value is as written.
type field struct {
	name  string
	value jsontext.Value
}

// fields are the members of a JSON object in their order. Only topics.DecodeCommand
// interprets them, so nothing is decoded twice.
type fields []field

// decoders are reused with their grown stacks.
var decoders = sync.Pool{New: func() any { return new(jsontext.Decoder) }}

// parseFields reads one JSON object. The values alias b.
func parseFields(b []byte) (fields, error) {
	dec := decoders.Get().(*jsontext.Decoder)
	defer decoders.Put(dec)
	dec.Reset(bytes.NewBuffer(b), jsontext.AllowDuplicateNames(true))
	open, err := dec.ReadToken()
	if errors.Is(err, io.EOF) {
		return nil, problem.Malformed("the body is empty: send one JSON object")
	}
	if err == nil && open.Kind() != '{' {
		return nil, problem.Malformed("the body is not a JSON object")
	}
	fs := make(fields, 0, 8)
	for err == nil && dec.PeekKind() != '}' {
		var raw, value jsontext.Value
		if raw, err = dec.ReadValue(); err != nil {
			break
		}
		text, _ := jsontext.AppendUnquote(nil, raw) // valid, because the decoder accepted it
		name := string(text)
		if value, err = dec.ReadValue(); err == nil {
			if fs.has(name) {
				return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name,
					printable.Quoted(name)+" is given twice")
			}
			end := int(dec.InputOffset())
			fs = append(fs, field{name, b[end-len(value) : end : end]})
		}
		if len(fs) > maxFields {
			return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "",
				fmt.Sprintf("the object has over %d fields", maxFields))
		}
	}
	if err == nil {
		_, err = dec.ReadToken()
	}
	if err == nil {
		if _, end := dec.ReadToken(); !errors.Is(end, io.EOF) {
			return nil, problem.Malformed("there is data after the JSON object")
		}
	}
	return fs, syntaxProblem(err)
}

// maxFields is far above the number of known fields. The search for repeated names is
// quadratic in it.
const maxFields = 256

// syntaxProblem says where the JSON is wrong, without repeating any of it.
func syntaxProblem(err error) error {
	if err == nil {
		return nil
	}
	if fault, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return problem.Malformed(fmt.Sprintf("the body is not JSON: error at byte %d", fault.ByteOffset))
	}
	return problem.Malformed("the body is not complete JSON")
}

func (fs fields) index(name string) int {
	for i := range fs {
		if fs[i].name == name {
			return i
		}
	}
	return -1
}

// value is the value of a member, nil if there is none.
func (fs fields) value(name string) jsontext.Value {
	if i := fs.index(name); i >= 0 {
		return fs[i].value
	}
	return nil
}

func (fs fields) has(name string) bool { return fs.index(name) >= 0 }

// given reports whether a member has a value; null counts as absent.
func (fs fields) given(name string) bool {
	i := fs.index(name)
	return i >= 0 && fs[i].value.Kind() != 'n'
}

// take removes a member and returns its value, nil if there is none.
func (fs *fields) take(name string) jsontext.Value {
	i := fs.index(name)
	if i < 0 {
		return nil
	}
	v := (*fs)[i].value
	*fs = append((*fs)[:i:i], (*fs)[i+1:]...)
	return v
}

// takeText is take for a string; "" if it is absent or null.
func (fs *fields) takeText(name string) (string, error) {
	v := fs.take(name)
	switch {
	case v == nil || v.Kind() == 'n':
		return "", nil
	case v.Kind() != '"':
		return "", problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name, name+" must be a string")
	}
	text, err := jsontext.AppendUnquote(nil, v)
	if err == nil && len(text) == 0 {
		return "", problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name,
			name+" is empty: omit it")
	}
	return string(text), err
}

// set replaces the member of this name, or appends one.
func (fs *fields) set(name string, v any) {
	raw := spelled(name, v)
	if i := fs.index(name); i >= 0 {
		(*fs)[i].value = raw
		return
	}
	*fs = append(*fs, field{name, raw})
}

// spelled encodes a value. JSON stays as it is, byte for byte. In strings < > & stay, too,
// because an escape takes six bytes, and limits count bytes.
func spelled(name string, v any) jsontext.Value {
	if raw, ok := v.(jsontext.Value); ok {
		return raw
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(fmt.Sprintf("field %s cannot be encoded: %v", name, err)) // a value of our own always encodes
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// encode spells the object.
func (fs fields) encode() []byte {
	size := len("{}")
	for i := range fs {
		size += len(`"":,`) + len(fs[i].name) + len(fs[i].value)
	}
	b := append(make([]byte, 0, size), '{')
	for i := range fs {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = jsontext.AppendQuote(b, fs[i].name)
		b = append(append(b, ':'), fs[i].value...)
	}
	return append(b, '}')
}
