package worker

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// DueType is the ce_type of every due event.
const DueType = "waterclock.due.v1"

// maxID bounds ce_id: a key of 255 bytes, an occurrence and a step.
const maxID = 1024

// garbledError says why a record is not a due event.
type garbledError struct{ header, reason string }

func (e *garbledError) Error() string { return "header " + e.header + " " + e.reason }

// Decode decodes a record of a due topic. The error names the header that is missing or wrong.
// Run counts such a record and skips it. Payload and headers alias r.
func Decode(r *kgo.Record) (*DueEvent, error) {
	e := &DueEvent{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, RecordKey: r.Key,
		Payload: r.Value, Appended: r.Timestamp, Tenant: "default",
	}
	d := decoder{e: e}
	for i := range r.Headers {
		h := &r.Headers[i]
		if !d.header(h.Key, h.Value) {
			if e.Headers == nil {
				e.Headers = make([]Header, 0, len(r.Headers)-i)
			}
			e.Headers = append(e.Headers, Header(*h))
		}
	}
	if err := d.finish(); err != nil {
		return nil, err
	}
	return e, nil
}

// The headers that Decode knows. The first of each name counts.
const (
	hasType = 1 << iota
	hasVersion
	hasID
	hasSubject
	hasSource
	hasTime
	hasFired
	hasRevision
	hasAttempt
	hasStep
	hasPostponed
	hasLocal
	hasUser
	hasExpiry
	hasReceiptBy
	hasBasis
	hasContentType
	hasTraceParent
	hasTraceState
)

// required are the headers without which an event cannot be handled or answered.
var required = []struct {
	bit  int
	name string
}{
	{hasType, "ce_type"},
	{hasID, "ce_id"},
	{hasSubject, "ce_subject"},
	{hasTime, "ce_time"},
	{hasAttempt, "ce_wcattempt"},
}

type decoder struct {
	e    *DueEvent
	seen int
	err  error // the first error
}

// header decodes one header. It returns false for a header that Decode does not know.
func (d *decoder) header(name string, v []byte) bool {
	e := d.e
	switch name {
	case "ce_type":
		return d.exact(hasType, name, v, DueType)
	case "ce_specversion":
		return d.exact(hasVersion, name, v, "1.0")
	case "ce_id":
		return d.text(hasID, name, v, &e.ID)
	case "ce_subject":
		return d.text(hasSubject, name, v, &e.Key)
	case "ce_source":
		return d.text(hasSource, name, v, &e.Source)
	case "ce_time":
		return d.time(hasTime, name, v, &e.Scheduled)
	case "ce_wcfired":
		return d.time(hasFired, name, v, &e.Fired)
	case "ce_wcrevision":
		return d.number(hasRevision, name, v, 0, &e.Revision)
	case "ce_wcattempt":
		return d.small(hasAttempt, name, v, 1, &e.Attempt)
	case "ce_wcstep":
		return d.small(hasStep, name, v, 0, &e.Step)
	case "ce_wcpostponed":
		return d.small(hasPostponed, name, v, 0, &e.Postponed)
	case "ce_wclocaltime":
		return d.text(hasLocal, name, v, &e.LocalTime)
	case "ce_wcuser":
		return d.text(hasUser, name, v, &e.User)
	case "ce_expirytime":
		return d.time(hasExpiry, name, v, &e.Expires)
	case "ce_wcreceiptby":
		return d.time(hasReceiptBy, name, v, &e.ReceiptBy)
	case "ce_wcbasis":
		return d.text(hasBasis, name, v, &e.Basis)
	case "content-type":
		return d.text(hasContentType, name, v, &e.ContentType)
	case "traceparent":
		return d.text(hasTraceParent, name, v, &e.TraceParent)
	case "tracestate":
		return d.text(hasTraceState, name, v, &e.TraceState)
	}
	return false
}

// first reports whether this is the first header of its name. A second one belongs to the user.
func (d *decoder) first(bit int) bool {
	if d.seen&bit != 0 {
		return false
	}
	d.seen |= bit
	return true
}

func (d *decoder) exact(bit int, name string, v []byte, want string) bool {
	if !d.first(bit) {
		return false
	}
	if string(v) != want {
		d.fail(name, v, "is %s, want "+want)
	}
	return true
}

func (d *decoder) text(bit int, name string, v []byte, to *string) bool {
	if !d.first(bit) {
		return false
	}
	if len(v) == 0 && bit&(hasID|hasSubject) != 0 {
		d.fail(name, v, "is %s, want some text")
	}
	*to = string(v)
	return true
}

func (d *decoder) time(bit int, name string, v []byte, to *time.Time) bool {
	if !d.first(bit) {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, string(v))
	if err != nil {
		d.fail(name, v, "is %s, want an RFC 3339 instant")
	}
	*to = t
	return true
}

func (d *decoder) small(bit int, name string, v []byte, least int64, to *int) bool {
	var n int64
	if !d.number(bit, name, v, least, &n) {
		return false
	}
	if n > maxCount {
		d.fail(name, v, "is %s, want a number up to "+strconv.Itoa(maxCount))
	}
	*to = int(n)
	return true
}

func (d *decoder) number(bit int, name string, v []byte, least int64, to *int64) bool {
	if !d.first(bit) {
		return false
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || n < least {
		d.fail(name, v, "is %s, want a number from "+strconv.FormatInt(least, 10))
	}
	*to = n
	return true
}

// fail stores the first error. It quotes and shortens the value, because a stranger may have
// written it.
func (d *decoder) fail(name string, v []byte, format string) {
	if d.err == nil {
		d.err = &garbledError{name, fmt.Sprintf(format, strconv.QuoteToASCII(clip(string(v), 64)))}
	}
}

func (d *decoder) finish() error {
	for _, r := range required {
		if d.seen&r.bit == 0 {
			return &garbledError{r.name, "is missing"}
		}
	}
	if d.err != nil {
		return d.err
	}
	return d.identity()
}

// identity splits ce_id into <trigger key>@<occurrence>#<step>. The key must match ce_subject, or
// else the engine would reject the receipt as garbled.
func (d *decoder) identity() error {
	e := d.e
	rest, ok := strings.CutPrefix(e.ID, e.Key)
	if !ok || !strings.HasPrefix(rest, "@") || len(e.ID) > maxID {
		return &garbledError{"ce_id", "is not <ce_subject>@<occurrence>#<step> of at most 1024 bytes"}
	}
	e.Occurrence = rest[1:]
	if i := strings.LastIndexByte(e.Occurrence, '#'); i >= 0 {
		e.Occurrence = e.Occurrence[:i]
	}
	if tenant, _, ok := strings.Cut(e.Key, "/"); ok {
		e.Tenant = tenant
	}
	return nil
}

// garbledHeader returns the name of the wrong header, for the log.
func garbledHeader(err error) string {
	if g, ok := errors.AsType[*garbledError](err); ok {
		return g.header
	}
	return ""
}
