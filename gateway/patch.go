package gateway

import (
	"bytes"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A PATCH is a JSON merge patch (RFC 7396) of the register that would make the present
// trigger. A patch with time fields only becomes a reschedule. Any other becomes a register
// with the resolved time, so that the instant stays. delay, fire_at and recurrence each say
// the whole of when: a patch with one of them removes the others.

// waysToSayWhen exclude each other. include counts as a recurrence only alone, so it may
// join another one.
var waysToSayWhen = []string{"delay", "fire_at", "recurrence"}

func (s *triggerWrites) patchTrigger(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.object(w, r)
	if err != nil {
		return err
	}
	return s.patch(w, r, fs, &asTrigger)
}

func (s *triggerWrites) patch(w http.ResponseWriter, r *request, fs fields, say *wording) error {
	if fs.has("id") || fs.has("trigger_id") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "id", "an id never changes")
	}
	if fs.given("idempotency_key") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "idempotency_key",
			"idempotency_key is for registering; a patch is made once under If-Match or if_revision")
	}
	match, err := r.match()
	if err != nil {
		return err
	}
	if match != "" && fs.given("if_revision") {
		return errIfMatchTwice
	}
	r.conditional = match != ""
	revision := fs.take("if_revision")
	if revision.Kind() == 'n' {
		revision = nil
	}
	note := fs.take("note")
	if slices.ContainsFunc(fs, field.isContent) { // before it is compared with what the trigger has
		if err := s.mayPatchContent(r); err != nil {
			return err
		}
	}
	c, v, err := s.patchUnder(r, fs, patchOf{revision: revision, note: note, match: match})
	if err != nil {
		return err
	}
	return sendChanged(w, c, v, say)
}

// mayPatchContent refuses who may only change when a trigger fires.
func (s *triggerWrites) mayPatchContent(r *request) error {
	if r.who.May(auth.Write) {
		return nil
	}
	return s.auditor.forbid(r, auth.Write, "fields other than time fields are patched by")
}

// isContent reports whether a field does not say when.
func (f field) isContent() bool {
	of, known := topics.RegisterField(f.name)
	return !known || !of.When
}

// patchOf is what a patch says beside the fields of the trigger.
type patchOf struct {
	revision jsontext.Value // if_revision; nil: none
	note     jsontext.Value
	match    string // If-Match
}

// patchUnder patches the trigger under a condition. A patch for one given revision is tried
// once; any other is retried (conflicts.go).
func (s *triggerWrites) patchUnder(r *request, patch fields, of patchOf) (*command, verdict, error) {
	_, one := parseETag(of.match)
	return s.writer.retryConflicts(r, func() (*command, verdict, bool, error) {
		c, v, err := s.patchOnce(r, patch, of)
		return c, v, of.revision == nil && !one, err
	})
}

// patchOnce patches the present trigger if it is at the requested revision. It checks the
// patch first, because a wrong patch is wrong at any revision.
func (s *triggerWrites) patchOnce(r *request, patch fields, of patchOf) (*command, verdict, error) {
	st, err := s.lookup.read(r)
	if err != nil {
		return nil, verdict{}, err
	}
	if err := patchable(st); err != nil {
		return nil, verdict{}, err
	}
	if patch, err = changing(st, patch); err != nil {
		return nil, verdict{}, err
	}
	op, fs, own, err := patched(st, patch)
	if err != nil {
		return nil, verdict{}, err
	}
	if op != trigger.OpReschedule { // of time fields, too, where these move nothing (splitPatch)
		if err := s.mayPatchContent(r); err != nil {
			return nil, verdict{}, err
		}
	}
	if fs.set("if_revision", st.Revision); of.revision != nil {
		fs.set("if_revision", of.revision)
	}
	if of.note != nil {
		fs.set("note", of.note)
	}
	c, err := s.encoder.command(r, op, r.id(), fs, own...)
	if err != nil {
		return nil, verdict{}, err
	}
	if of.match != "" {
		if _, err := matched(of.match, st, nil); err != nil {
			return nil, verdict{}, err
		}
	}
	if len(patch) == 0 {
		if of.revision != nil && string(of.revision) != strconv.FormatInt(st.Revision, 10) {
			return nil, verdict{}, problem.New(http.StatusConflict, trigger.CodeConflict, "if_revision",
				"the trigger is at revision "+strconv.FormatInt(st.Revision, 10))
		}
		return c, verdict{decided: true, state: st}, nil
	}
	v, err := s.writer.do(r, c)
	return c, v, firedMeanwhile(c.id, err)
}

// firedMeanwhile is the answer to a reschedule of what has fired since it was read. The engine finds nothing pending;
// for a patch it is too late, as it would be a moment later.
func firedMeanwhile(id string, err error) error {
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok || p.Code != trigger.CodeNotFound {
		return err
	}
	for _, status := range tooLateToPatch {
		if p.State == status.String() {
			return patchedTooLate(id, status)
		}
	}
	return err
}

// patchable refuses a patch of a finished trigger.
func patchable(st *trigger.State) error {
	switch {
	case st.Status == trigger.Pending || st.Status == trigger.Paused:
		return nil
	case slices.Contains(tooLateToPatch, st.Status):
		return patchedTooLate(st.Key.ID(), st.Status)
	}
	return howItEnded(problem.NotFound(st.Key.ID()), st)
}

// tooLateToPatch is what a trigger is that has nothing left to change.
var tooLateToPatch = []trigger.Status{trigger.InFlight, trigger.Fired, trigger.Expired}

func patchedTooLate(id string, status trigger.Status) *problem.Problem {
	p := problem.New(http.StatusConflict, trigger.CodeAlreadyFired, "",
		"it is too late to change: the trigger is "+status.String())
	p.State = status.String()
	return p.About(id)
}

// patched is the command that makes st what the patch asks for, and its headers: the user's
// headers that the patch leaves alone, and the mark of a register that does not replace
// everything.
func patched(st *trigger.State, patch fields) (op trigger.Op, fs fields, own []trigger.Header, err error) {
	when, other := splitPatch(st, patch)
	spec := resolvedSpec(st)
	if len(when) > 0 {
		spec = requestedSpec(st, when)
	}
	fs = whenFields(spec)
	fs.replaceWay(when)
	op = trigger.OpReschedule
	if len(other) > 0 {
		op = trigger.OpRegister
		own = append(fs.addContent(&st.Spec, other), trigger.Header{Key: topics.HeaderPatch})
	}
	if err := fs.merge(patch); err != nil {
		return 0, nil, nil, err
	}
	if len(other) > 0 && !other.has("payload") && !other.has("payload_base64") {
		fs = append(fs, samePayload(st.Spec.Payload)...)
	}
	return op, fs, own, nil
}

// samePayload keeps the payload byte for byte. A merge would encode it anew, and somebody
// may have signed it. Only base64 keeps white space around JSON, and a null.
func samePayload(payload []byte) fields {
	v := jsontext.Value(payload)
	switch {
	case len(payload) == 0:
		return nil
	case v.IsValid(jsontext.AllowDuplicateNames(true)) && len(bytes.TrimSpace(payload)) == len(payload) &&
		v.Kind() != 'n':
		return fields{{"payload", v}}
	}
	var fs fields
	fs.set("payload_base64", base64.StdEncoding.EncodeToString(payload))
	return fs
}

// changing is the part of a patch that may change st. Removing an absent field changes
// nothing. It must not move an instant or count as a revision.
func changing(st *trigger.State, patch fields) (rest fields, err error) {
	have := append(whenFields(&st.Spec), contentFields(&st.Spec)...)
	have.takeOwnHeaders(&st.Spec, patch)
	for _, f := range patch {
		nothing, err := changesNothing(f.value, have.value(f.name))
		if err != nil {
			return nil, err
		}
		if _, known := topics.RegisterField(f.name); !nothing || !known {
			rest = append(rest, f)
		}
	}
	return rest, nil
}

// splitPatch separates the time fields from the others. For a trigger at a fixed instant,
// timezone and dst move nothing; they count as others.
func splitPatch(st *trigger.State, patch fields) (when, other fields) {
	for _, f := range patch {
		if f.isContent() {
			other = append(other, f)
		} else {
			when = append(when, f)
		}
	}
	byClocks := st.Recurring() || st.Series.Local != ""
	if !byClocks && !slices.ContainsFunc(waysToSayWhen, when.has) && !when.has("include") {
		return nil, patch
	}
	return when, other
}

// addContent adds a trigger's content to the fields to patch. It returns the headers that
// go beside the JSON.
func (fs *fields) addContent(s *trigger.Spec, other fields) []trigger.Header {
	*fs = append(*fs, contentFields(s)...)
	fs.replacePayload(other)
	return fs.takeOwnHeaders(s, other)
}

// replaceWay drops the other ways to say when, and their fields.
func (fs *fields) replaceWay(when fields) {
	if !slices.ContainsFunc(waysToSayWhen, when.given) && !when.given("include") {
		return
	}
	recurring := when.given("recurrence") || when.given("include") && !when.given("delay") && !when.given("fire_at")
	wasRecurring := fs.has("recurrence")
	dates := when.given("include") && !when.given("recurrence") // more dates for the same rule
	*fs = slices.DeleteFunc(*fs, func(f field) bool {
		switch {
		case recurring && wasRecurring && (dates || slices.Contains(ofARule, f.name)):
			return false
		case f.name == "timezone":
			return when.given("delay")
		}
		return true
	})
}

// ofARule are the fields that a rule keeps when it is edited: its phase, and what it
// excludes.
var ofARule = []string{"start", "dst", "calendars", "exclude"}

// replacePayload lets one spelling of a payload replace the other. A payload that the patch
// does not name is not merged (samePayload).
func (fs *fields) replacePayload(other fields) {
	for _, name := range []string{"payload", "payload_base64"} {
		if !other.has(name) {
			fs.take(name)
		}
	}
}

// takeOwnHeaders keeps the user's headers as they are. Only a patch of headers makes them a
// field, which not every header survives.
func (fs *fields) takeOwnHeaders(s *trigger.Spec, other fields) []trigger.Header {
	own := slices.Clone(s.Headers)
	if len(own) > 0 && other.has("headers") {
		headers, _ := topics.RegisterField("headers")
		fs.set("headers", jsontext.Value(headers.Append(nil, s)))
		own = nil
	}
	if s.ContentType != "" && !other.has("payload") && !other.has("payload_base64") {
		own = append(own, trigger.Header{Key: "content-type", Value: []byte(s.ContentType)})
	}
	if s.TraceParent != "" {
		own = append(own, trigger.Header{Key: "traceparent", Value: []byte(s.TraceParent)})
	}
	return own
}

// merge applies a merge patch.
func (fs *fields) merge(patch fields) error {
	for _, f := range patch {
		target := fs.value(f.name)
		if f.value.Kind() == 'n' && target != nil {
			fs.take(f.name)
			continue
		}
		merged, err := mergePatch(target, f.value)
		if err != nil {
			return err
		}
		fs.set(f.name, merged) // a null, too: the decoder checks whether the field exists
	}
	return nil
}
