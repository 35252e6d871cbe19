package gateway

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// act is a request as topic audit will have it. It is recorded when its status is known and
// before the answer leaves (observed.WriteHeader). Handlers add what only they know. All
// methods do nothing on nil.
type act struct {
	by     *acts
	record topics.Audit
	kind   actKind
	begun  bool // its handler was called, so something may have been done

	trespass bool // it named another tenant's trigger
}

type actKind uint8

const (
	actRead     actKind = iota // a read: on record only if it is refused for who asks
	actBatch                   // a batch, whose lines are recorded one by one
	actRegister                // a register
	actOther                   // everything else that changes something
	actRecorded                // it is on record already
)

// acts records what callers do.
type acts struct {
	log       *auditLog
	registers bool // those are recorded, too, if the topic takes them

	// Refused attempts beyond these rates are not recorded.
	refused *rateLimits // by tenant and kind (boundOfRefusal)
}

// begin is a request before it is known what becomes of it.
func (s *acts) begin(r *request, to *route) *act {
	a := &act{by: s, kind: kindOf(to), record: topics.Audit{
		Address: r.RemoteAddr, Agent: recordable(r.UserAgent()), Verb: verbOf(to),
	}}
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		a.record.Address = host
	}
	for name, value := range r.names {
		before, _, _ := strings.Cut(to.pattern, "/{"+name)
		a.record.Target = recordable(before[strings.LastIndexByte(before, '/')+1:] + "/" + value)
	}
	return a
}

// caller says who acts, and to which trigger.
func (a *act) caller(r *request) {
	a.record.Actor, a.record.Role, a.record.Tenant = recordable(r.who.Name), r.who.Role.String(), r.who.Tenant
	id, named := r.names["id"]
	if !named {
		return
	}
	if key, err := r.key(id); err == nil {
		a.to(key)
	}
}

// to names the trigger.
func (a *act) to(key trigger.Key) {
	if a != nil {
		a.record.Trigger, a.record.Target = key, ""
	}
}

// because keeps the caller's note, if it is one that commands may have.
func (a *act) because(note string) {
	if a != nil && topics.CheckNote(note) == nil {
		a.record.Note = note
	}
}

// commands keeps what a command says. Lines of a batch are recorded on their own.
func (a *act) commands(c *command) {
	if a == nil || a.kind == actBatch {
		return
	}
	a.record.Trigger, a.record.Target, a.record.Verb = c.key, "", c.verb()
	a.because(c.note)
}

// noteOf is the note in the fields of a command.
func noteOf(fs fields) string {
	v := fs.value("note")
	if v.Kind() != '"' {
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, v)
	return string(text)
}

// verb is the op as audit names it.
func (c *command) verb() string {
	if c.op == trigger.OpRegister && !c.registers() {
		return "patch"
	}
	return c.op.String()
}

// registers reports whether it creates or replaces a trigger. That is no act in the sense of the
// audit: services do it, and topic events has it.
func (c *command) registers() bool { return c.op == trigger.OpRegister && !c.patch }

// refusal says why the act is not taken; nil if it is. Lines of a batch are taken or not on
// their own.
func (a *act) refusal() error {
	if a == nil || a.kind != actOther {
		return nil
	}
	err := a.by.log.refusal(a.record.Tenant)
	if err != nil {
		a.kind = actRecorded // it was not done, and there is nowhere to record it
	}
	return err
}

// refusalOfLine says why a line of a batch is not taken; nil if it is.
func (s *acts) refusalOfLine(r *request, c *command) error {
	if r.act == nil || c.registers() {
		return nil
	}
	return s.log.refusal(r.who.Tenant)
}

// begins notes that the handler is called.
func (a *act) begins() {
	if a != nil {
		a.begun = true
	}
}

// tried notes that a caller asked for a trigger that is not its own.
func (a *act) tried() {
	if a == nil {
		return
	}
	if a.trespass = true; a.kind == actRead {
		a.kind = actOther
	}
}

// answered records the act when its status is known, and waits for the record. It adds to the
// header of the answer if there is none.
func (a *act) answered(h http.Header, status int) {
	if a == nil || a.kind == actRecorded {
		return
	}
	kind := a.kind
	a.kind = actRecorded
	accepted := status < http.StatusBadRequest
	switch {
	case accepted && (kind == actRead || kind == actBatch || kind == actRegister && !a.by.registers):
		return
	case kind == actRead && status != http.StatusUnauthorized && status != http.StatusForbidden:
		return
	case status >= http.StatusInternalServerError && !a.begun:
		return // nothing was done
	}
	record := a.record
	record.Status = status
	if e := a.by.write(record, a.trespass, kind == actRegister); e != nil && e.weight == auditMust {
		noteUnrecorded(h, a.by.log.await(e))
	}
}

// noteUnrecorded says in the answer that an act is not on record.
func noteUnrecorded(h http.Header, err error) {
	switch {
	case errors.Is(err, errNoAudit):
		h.Set(auditAnswer, auditMissing)
	case err != nil:
		h.Set(auditAnswer, auditLate)
	}
}

// write begins to write a record; nil if it is one of too many refused attempts.
func (s *acts) write(a topics.Audit, trespass, register bool) *auditEntry {
	a.At = trigger.At(s.log.now())
	switch {
	case register && a.Status < http.StatusBadRequest:
		return s.log.write(a, auditLight)
	case a.Status < http.StatusBadRequest:
		return s.log.write(a, auditMust)
	case a.Status >= http.StatusInternalServerError: // it may have been done
		return s.log.write(a, auditSpare)
	}
	if s.refused.take(boundOfRefusal(&a, trespass)) != nil {
		s.log.listener.AuditRecord("dropped")
		return nil
	}
	return s.log.write(a, auditOnce)
}

// boundOfRefusal names the bound of a refused attempt: one for each of what may not be done, and one
// for all else, so that a flood of one kind hides no other. No tenant's name has a '/'.
func boundOfRefusal(a *topics.Audit, trespass bool) string {
	switch {
	case trespass:
		return a.Tenant + "/trespass"
	case a.Status == http.StatusUnauthorized:
		return a.Tenant + "/unauthenticated"
	case a.Status == http.StatusForbidden:
		return a.Tenant + "/forbidden"
	}
	return a.Tenant
}

// line begins to record a line of a batch; nil if it is not recorded. Lines are recorded by many goroutines, also
// when the status of the batch is written, so they leave its act as it is.
func (s *acts) line(r *request, c *command, status int, trespass bool) *auditEntry {
	if r.act == nil || c.registers() && status < http.StatusBadRequest && !s.registers {
		return nil
	}
	a := r.act.record
	a.Trigger, a.Verb, a.Note, a.Status = c.key, c.verb(), c.note, status
	return s.write(a, trespass, c.registers())
}

// triedLine records a line that asks for a trigger which is not the caller's, and has no command.
func (s *acts) triedLine(r *request, id string) {
	if r.act == nil {
		return
	}
	a := r.act.record
	a.Target, a.Status = "triggers/"+recordable(id), http.StatusNotFound
	s.write(a, true, false)
}

// kindOf says what a route does.
func kindOf(to *route) actKind {
	switch {
	case !to.writes():
		return actRead
	case to.doc.id == "batch":
		return actBatch
	case verbOf(to) == trigger.OpRegister.String():
		return actRegister
	}
	return actOther
}

// verbOf is the op that a route writes, or its operation in the OpenAPI document: put_calendar.
func verbOf(to *route) string {
	name := to.doc.id
	if name == "redriveDeadLetters" {
		return trigger.OpRedrive.String()
	}
	for _, noun := range []string{"Trigger", "Reminder"} {
		verb, of := strings.CutSuffix(name, noun)
		switch {
		case !of || to.right == auth.Read:
		case verb == "create", verb == "put":
			return trigger.OpRegister.String()
		case verb == "delete":
			return trigger.OpCancel.String()
		case verb == "run":
			return trigger.OpRunNow.String()
		default:
			return verb
		}
	}
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
