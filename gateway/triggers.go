package gateway

import (
	"net/http"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// triggerWrites registers, changes and cancels triggers.
type triggerWrites struct {
	auditor *auditor
	bodies  *bodies
	encoder *encoder
	lookup  *lookup
	writer  *commandWriter
}

// createTrigger registers a trigger under the id in the body, an id made from the
// idempotency key, or a new one.
func (s *triggerWrites) createTrigger(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	if isShortForm(fs) {
		return s.createShort(w, r, fs)
	}
	return s.register(w, r, fs, &asTrigger)
}

// register is the common part of POST and its aliases.
func (s *triggerWrites) register(w http.ResponseWriter, r *request, fs fields, say *wording) error {
	id, err := registerID(r, &fs)
	if err != nil {
		return err
	}
	c, v, err := s.writer.apply(r, trigger.OpRegister, id, fs)
	if err != nil {
		return err
	}
	return sendRegistered(w, c, v, say)
}

// registerID decides the id of a register, and removes it from the fields.
func registerID(r *request, fs *fields) (string, error) {
	id, err := fs.takeText("id")
	if err != nil {
		return "", err
	}
	key, err := idempotency(r.Request, fs)
	switch {
	case err != nil:
		return "", err
	case id == "" && key != "":
		id = idFor(r.who.Tenant, key)
	case id == "":
		id = newID()
	case r.who.Tenant == trigger.DefaultTenant && strings.Contains(id, "/"):
		return "", problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalidKey, "id",
			"an id of the default tenant must not contain '/': the text before it would be a tenant")
	}
	return id, nameable(id)
}

// apply has a command decided under the conditions of the request.
func (s *commandWriter) apply(r *request, op trigger.Op, id string, fs fields) (*command, verdict, error) {
	return s.retryConflicts(r, func() (*command, verdict, bool, error) {
		given := slices.Clone(fs)
		retry, err := s.encoder.conditions(r, op, id, &given)
		if err != nil {
			return nil, verdict{}, false, err
		}
		c, err := s.encoder.command(r, op, id, given)
		if err != nil {
			return nil, verdict{}, false, err
		}
		v, err := s.do(r, c)
		return c, v, retry, err
	})
}

// nameable refuses ids that many clients cannot send: they resolve "." and "..", even
// encoded, before they send a path (WHATWG URL, 4.4).
func nameable(id string) error {
	if id != "." && id != ".." {
		return nil
	}
	return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalidKey, "id",
		printable.Quoted(id)+" is reserved as a part of a path: choose another id")
}

// putTrigger creates or replaces the whole trigger.
func (s *triggerWrites) putTrigger(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	id, err := fs.takeText("id")
	if err != nil {
		return err
	}
	if id != "" && id != r.id() {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "id",
			"the id in the body is not the one in the path")
	}
	if err := nameable(r.id()); err != nil {
		return err
	}
	if _, err := idempotency(r.Request, &fs); err != nil {
		return err
	}
	c, v, err := s.writer.apply(r, trigger.OpRegister, r.id(), fs)
	if err != nil {
		return err
	}
	return sendRegistered(w, c, v, &asTrigger)
}

// getTrigger answers what a trigger is, or with as_of= what it was.
func (s *triggerViews) getTrigger(w http.ResponseWriter, r *request) error {
	if r.query.Has(asOfParameter) {
		return s.getAsOf(w, r)
	}
	st, err := s.lookup.read(r)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(st.Revision))
	if asRevised(st) && unchanged(strings.Join(r.Header.Values(ifNoneMatch), ","), etag(st.Revision)) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	return sendJSON(w, http.StatusOK, triggerJSON(st, r.payloads()))
}

// asRevised reports whether a trigger is as its last change left it. The ETag is the
// revision, and a firing does not change it. A caller that asks with the ETag must still
// see that the trigger has fired. A new tz database may move what is planned by wall time.
func asRevised(st *trigger.State) bool {
	switch st.Status {
	case trigger.Pending, trigger.Paused, trigger.Cancelled:
		return len(st.Done) == 0 && len(st.Live) == 0 && st.Spec.When.Kind != trigger.WhenRecurrence &&
			st.Series.Local == ""
	}
	return false
}

// deleteTrigger cancels.
func (s *triggerWrites) deleteTrigger(w http.ResponseWriter, r *request) error {
	return s.cancel(w, r, &asTrigger)
}

func (s *triggerWrites) cancel(w http.ResponseWriter, r *request, say *wording) error {
	fs, err := s.bodies.optionalObject(w, r)
	if err != nil {
		return err
	}
	if r.query.Has("note") {
		if fs.has("note") {
			return problem.BadParameter("note", "note is given twice: in the query and in the body")
		}
		fs.set("note", r.query.Get("note"))
	}
	c, v, err := s.writer.apply(r, trigger.OpCancel, r.id(), fs)
	if err != nil {
		return err
	}
	if p := problemOfChange(c, v); p != nil {
		return p
	}
	return sendChanged(w, c, v, say)
}

// verb makes the handler of an op whose fields are in the body.
func (s *triggerWrites) verb(op trigger.Op) handler {
	return func(w http.ResponseWriter, r *request) error {
		fs, err := s.bodies.optionalObject(w, r)
		if err != nil {
			return err
		}
		return s.change(w, r, op, fs, &asTrigger)
	}
}

// change is the common part of verbs and their aliases.
func (s *triggerWrites) change(w http.ResponseWriter, r *request, op trigger.Op, fs fields, say *wording) error {
	c, v, err := s.writer.apply(r, op, r.id(), fs)
	if err != nil {
		return err
	}
	if p := problemOfChange(c, v); p != nil {
		return p
	}
	return sendChanged(w, c, v, say)
}
