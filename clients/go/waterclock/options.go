package waterclock

import (
	"strconv"
	"strings"
)

// Option changes one call or one command.
type Option func(*options)

type options struct {
	ifRevision     int64
	ifAbsent       bool
	idempotencyKey string
	correlationID  string
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

// IfRevision changes the trigger only if it has this revision; else Conflict.
// It also makes most writes safe to repeat.
func IfRevision(n int64) Option { return func(o *options) { o.ifRevision = n } }

// IfAbsent registers only what does not exist; else Conflict.
func IfAbsent() Option { return func(o *options) { o.ifAbsent = true } }

// IdempotencyKey makes a repeated Schedule the same one. A Schedule without an
// id has a key of its own where none is given.
func IdempotencyKey(key string) Option { return func(o *options) { o.idempotencyKey = key } }

// CorrelationID is noted in the trigger's events.
func CorrelationID(id string) Option { return func(o *options) { o.correlationID = id } }

// Async does not wait for the engine's decision: the result has Decided false.
// It is for HTTP; commands by Kafka are never waited for.
func Async() Option { return func(o *options) { o.async = true } }

// Header is one header of a Kafka record.
type Header struct{ Key, Value string }

// RecordHeader is for Kafka: a header of the command's record, such as
// traceparent. All but tracing ones travel to the due event.
func RecordHeader(key, value string) Option {
	return func(o *options) { o.headers = append(o.headers, Header{key, value}) }
}

// conditions puts what HTTP has headers for into them.
func (o *options) conditions(r *request) {
	if o.ifRevision != 0 {
		r.set("If-Match", `"`+strconv.FormatInt(o.ifRevision, 10)+`"`)
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

// into puts them into the fields of a command.
func (o *options) into(f *fields) {
	f.text("idempotency_key", o.idempotencyKey)
	f.text("correlation_id", o.correlationID)
	if o.ifAbsent {
		f.add("if_absent", true)
	}
	if o.ifRevision != 0 {
		f.add("if_revision", o.ifRevision)
	}
}

// checkID refuses what no path could say.
func checkID(id string) error {
	switch {
	case id == "":
		return refuse("invalid_key", "id", "the id is empty")
	case id == ".", id == "..":
		return refuse("invalid_key", "id", strconv.Quote(id)+" is a part of a path with a meaning of its own")
	}
	return nil
}

// headerText refuses what a header of HTTP cannot say.
func headerText(field, v string) error {
	if strings.ContainsFunc(v, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return refuse("invalid", field, "it has a control character")
	}
	return nil
}
