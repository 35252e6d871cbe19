package waterclock

import (
	"strconv"
	"strings"
)

// Option configures one call or one command.
type Option func(*options)

type options struct {
	ifRevision     *int64
	ifAbsent       bool
	idempotencyKey string
	correlationID  string
	note           string
	async          bool
	headers        []Header
}

func optionsOf(opts []Option) *options {
	o := &options{}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// IfRevision applies the change only if the trigger has this revision. Otherwise the error is
// Conflict. It also makes most writes safe to repeat. A revision below 1 is refused: that of a
// write that was not decided is 0, and is no condition.
func IfRevision(n int64) Option { return func(o *options) { o.ifRevision = &n } }

// IfAbsent registers only if the trigger does not exist. Otherwise the error is Conflict.
func IfAbsent() Option { return func(o *options) { o.ifAbsent = true } }

// IdempotencyKey makes a repeated Schedule count as the same one. A Schedule without an id and
// without a key gets a generated key.
func IdempotencyKey(key string) Option { return func(o *options) { o.idempotencyKey = key } }

// CorrelationID is recorded in the trigger's events.
func CorrelationID(id string) Option { return func(o *options) { o.correlationID = id } }

// Note says why, in at most 512 bytes. It is the detail of the event about the write; that of a Run
// is its firing.
func Note(text string) Option { return func(o *options) { o.note = text } }

// Async returns without waiting for the engine's decision: the result has Decided false. It is
// for HTTP only; commands over Kafka never wait. A batch waits unless all of its commands have it.
func Async() Option { return func(o *options) { o.async = true } }

// Header is one header of a Kafka record.
type Header struct{ Key, Value string }

// RecordHeader adds a header to the command's Kafka record, such as traceparent. All headers
// except those for tracing are copied to the due event. It is for Kafka only: HTTP refuses it.
func RecordHeader(key, value string) Option {
	return func(o *options) { o.headers = append(o.headers, Header{key, value}) }
}

// conditions sets the options that travel as HTTP headers.
func (o *options) conditions(r *request) {
	if o.ifRevision != nil {
		r.set("If-Match", `"`+strconv.FormatInt(*o.ifRevision, 10)+`"`)
	}
	if o.ifAbsent {
		r.set("If-None-Match", "*")
	}
	if o.idempotencyKey != "" {
		r.set("Idempotency-Key", o.idempotencyKey)
	}
	if o.async {
		r.set("Prefer", "respond-async")
	}
}

// into adds the options to the fields of a command.
func (o *options) into(f *fields) {
	f.text("idempotency_key", o.idempotencyKey)
	f.text("correlation_id", o.correlationID)
	f.text("note", o.note)
	f.flag("if_absent", o.ifAbsent)
	if o.ifRevision != nil {
		f.add("if_revision", *o.ifRevision)
	}
	if err := o.check(); err != nil && f.err == nil {
		f.err = err
	}
}

// check refuses a condition that would not be one.
func (o *options) check() error {
	if o.ifRevision != nil && *o.ifRevision < 1 {
		return refuse("invalid", "if_revision",
			"it must be 1 or more: a write that was not decided has no revision yet")
	}
	return nil
}

// checkHTTP refuses also what only a Kafka record carries.
func (o *options) checkHTTP() error {
	if len(o.headers) > 0 {
		return errRecordHeaders()
	}
	return o.check()
}

func errRecordHeaders() error {
	return refuse("invalid", "record_headers", "HTTP has no record headers; set Headers of the Register")
}

// checkID refuses an id that a URL path cannot carry.
func checkID(id string) error {
	switch {
	case id == "":
		return refuse("invalid_key", "id", "the id is empty")
	case id == ".", id == "..":
		return refuse("invalid_key", "id", strconv.Quote(id)+" is reserved as a part of a path")
	}
	return nil
}

// headerText refuses a value that an HTTP header cannot carry.
func headerText(field, v string) error {
	if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return refuse("invalid", field, "it has a control character")
	}
	return nil
}
