package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A PATCH is a JSON merge patch (RFC 7396) of the register that would make the
// trigger as it stands. One that names time fields alone becomes a reschedule;
// any other a register whose time is the resolved one, so that the instant
// stays. A patch that gives delay, fire_at or recurrence says the whole of
// when: what was said in another of these ways goes.

// timeFields say when.
var timeFields = []string{"delay", "fire_at", "recurrence", "start", "timezone", "until", "count", "include", "exclude", "dst", "calendars"}

// waysToSayWhen exclude each other; include stands for a recurrence only
// beside nothing else, so it may join one.
var waysToSayWhen = []string{"delay", "fire_at", "recurrence"}

func (s *Server) patchTrigger(w http.ResponseWriter, r *request) error {
	fs, err := s.object(w, r)
	if err != nil {
		return err
	}
	return s.patch(w, r, fs, &asTrigger)
}

func (s *Server) patch(w http.ResponseWriter, r *request, fs fields, say *wording) error {
	if fs.has("id") || fs.has("trigger_id") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "id", "an id never changes")
	}
	if fs.given("idempotency_key") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "idempotency_key", "idempotency_key is for registering; a patch is made once under If-Match or if_revision")
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
	c, v, err := s.patchUnder(r, fs, revision, match)
	if err != nil {
		return err
	}
	return s.sendChanged(w, c, v, say)
}

// patchUnder patches the trigger under a condition. Only one revision alone makes
// a patch that is made once; any other is made anew (conflicts.go).
func (s *Server) patchUnder(r *request, patch fields, revision jsontext.Value, match string) (*command, verdict, error) {
	_, one := parseETag(match)
	return s.retryConflicts(r, func() (*command, verdict, bool, error) {
		c, v, err := s.patchOnce(r, patch, revision, match)
		return c, v, revision == nil && !one, err
	})
}

// patchOnce patches the trigger as it stands, if it is at the revision asked
// for. What is wrong with the patch is said first: it is so at any revision.
func (s *Server) patchOnce(r *request, patch fields, revision jsontext.Value, match string) (*command, verdict, error) {
	st, err := s.read(r)
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
	if fs.set("if_revision", st.Revision); revision != nil {
		fs.set("if_revision", revision)
	}
	c, err := s.command(r, op, r.id(), fs, own...)
	if err != nil {
		return nil, verdict{}, err
	}
	if match != "" {
		if _, err := matched(match, st, nil); err != nil {
			return nil, verdict{}, err
		}
	}
	if len(patch) == 0 {
		if revision != nil && string(revision) != strconv.FormatInt(st.Revision, 10) {
			return nil, verdict{}, problem.New(http.StatusConflict, trigger.CodeConflict, "if_revision", "the trigger is at revision "+strconv.FormatInt(st.Revision, 10))
		}
		return c, verdict{decided: true, state: st}, nil
	}
	v, err := s.do(r, c)
	return c, v, err
}

// patchable refuses a patch of what is over.
func patchable(st *trigger.State) error {
	switch st.Status {
	case trigger.Pending, trigger.Paused:
		return nil
	case trigger.InFlight, trigger.Fired, trigger.Expired:
		p := problem.New(http.StatusConflict, trigger.CodeAlreadyFired, "", "it is too late to change: the trigger is "+st.Status.String())
		p.State = st.Status.String()
		return p.About(st.Key.ID())
	}
	return howItEnded(problem.NotFound(st.Key.ID()), st)
}

// patched is the command that makes st what the patch wants, and the headers
// that go with it: the user's, where the patch leaves them as they are, and the
// mark that tells a register from one that replaces all.
func patched(st *trigger.State, patch fields) (op trigger.Op, fs fields, own []trigger.Header, err error) {
	when, other := splitPatch(st, patch)
	spelled := resolvedWhen(st)
	if len(when) > 0 {
		spelled = commandOfWhen(st)
		spelled.Exclude = withSkipped(spelled.Exclude, st.Series.Skip)
	}
	base, err := asMap(spelled)
	if err != nil {
		return 0, nil, nil, err
	}
	replaceWay(base, when)
	op = trigger.OpReschedule
	if len(other) > 0 {
		op = trigger.OpRegister
		if own, err = addContent(base, st, other); err != nil {
			return 0, nil, nil, err
		}
		own = append(slices.Clone(own), trigger.Header{Key: topics.HeaderPatch})
	}
	if err := applyPatch(base, patch); err != nil {
		return 0, nil, nil, err
	}
	fs = fieldsOf(base)
	if len(other) > 0 && !other.has("payload") && !other.has("payload_base64") {
		fs = append(fs, samePayload(st.Spec.Payload)...)
	}
	return op, fs, own, nil
}

// samePayload is the payload as it is, byte for byte: to merge it would spell it
// anew, and somebody may have signed it. White space around JSON, and a null,
// survive in base64 alone.
func samePayload(payload []byte) fields {
	v := jsontext.Value(payload)
	switch {
	case len(payload) == 0:
		return nil
	case v.IsValid(jsontext.AllowDuplicateNames(true)) && len(bytes.TrimSpace(payload)) == len(payload) && v.Kind() != 'n':
		return fields{{"payload", v}}
	}
	var fs fields
	fs.set("payload_base64", base64.StdEncoding.EncodeToString(payload))
	return fs
}

// registerNames are the fields that a trigger may have.
var registerNames = registerFields()

// changing is what of a patch may change st: to remove what is not there is
// none of it, and must not move an instant or count as a revision.
func changing(st *trigger.State, patch fields) (fields, error) {
	have, err := asMap(commandOfWhen(st))
	if err != nil {
		return nil, err
	}
	content, err := asMap(commandOfContent(&st.Spec))
	if err != nil {
		return nil, err
	}
	maps.Copy(have, content)
	ownHeaders(&st.Spec, patch, have)
	var rest fields
	for _, f := range patch {
		v, err := decodeAny(f.value)
		if err != nil {
			return nil, problem.Malformed("the body is not JSON that can be merged")
		}
		target, has := have[f.name]
		if !changesNothing(v, target, has) || !slices.Contains(registerNames, f.name) {
			rest = append(rest, f)
		}
	}
	return rest, nil
}

// changesNothing says that a merge patch leaves its target as it is, whatever
// the target's values are.
func changesNothing(patch, target any, has bool) bool {
	p, isObject := patch.(map[string]any)
	t, onObject := target.(map[string]any)
	switch {
	case patch == nil:
		return !has
	case !isObject || !onObject:
		return false
	}
	for name, v := range p {
		if of, has := t[name]; !changesNothing(v, of, has) {
			return false
		}
	}
	return true
}

// splitPatch tells what is about when from the rest. What is planned for an
// instant no zone and no dst moves: they are of the rest there.
func splitPatch(st *trigger.State, patch fields) (when, other fields) {
	for _, f := range patch {
		if slices.Contains(timeFields, f.name) {
			when = append(when, f)
		} else {
			other = append(other, f)
		}
	}
	byClocks := st.Recurring() || st.Series.Local != ""
	if !byClocks && !slices.ContainsFunc(waysToSayWhen, when.has) && !when.has("include") {
		return nil, patch
	}
	return when, other
}

// addContent adds what a trigger carries to what is to be patched.
func addContent(base map[string]any, st *trigger.State, other fields) ([]trigger.Header, error) {
	content, err := asMap(commandOfContent(&st.Spec))
	if err != nil {
		return nil, err
	}
	maps.Copy(base, content)
	replacePayload(base, other)
	return ownHeaders(&st.Spec, other, base), nil
}

// replaceWay drops the other ways to say when, and what belongs to them.
func replaceWay(base map[string]any, when fields) {
	if !slices.ContainsFunc(waysToSayWhen, when.given) && !when.given("include") {
		return
	}
	kept := base["timezone"]
	recurring := when.given("recurrence") || when.given("include") && !when.given("delay") && !when.given("fire_at")
	_, wasRecurring := base["recurrence"]
	for _, name := range timeFields {
		if recurring && wasRecurring && (name == "start" || name == "dst" || name == "calendars" || name == "exclude") {
			continue // a rule that is edited keeps its phase, and what it leaves out
		}
		if when.given("include") && !when.given("recurrence") && recurring && wasRecurring {
			continue // more dates beside the same rule
		}
		delete(base, name)
	}
	if kept != nil && !when.given("delay") {
		base["timezone"] = kept
	}
}

// replacePayload lets one spelling of a payload replace the other. One that the
// patch leaves alone is not merged: samePayload has it.
func replacePayload(base map[string]any, other fields) {
	if !other.has("payload") {
		delete(base, "payload")
	}
	if !other.has("payload_base64") {
		delete(base, "payload_base64")
	}
}

// ownHeaders are the user's headers as they are. Only where the patch is about
// headers do they become JSON, which not all of them may survive.
func ownHeaders(s *trigger.Spec, other fields, base map[string]any) []trigger.Header {
	own := s.Headers
	if len(own) > 0 && other.has("headers") {
		texts := map[string]any{}
		for _, h := range own {
			texts[h.Key] = string(h.Value)
		}
		base["headers"], own = texts, nil
	}
	if s.ContentType != "" && !other.has("payload") && !other.has("payload_base64") {
		own = append(slices.Clone(own), trigger.Header{Key: "content-type", Value: []byte(s.ContentType)})
	}
	if s.TraceParent != "" {
		own = append(slices.Clone(own), trigger.Header{Key: "traceparent", Value: []byte(s.TraceParent)})
	}
	return own
}

// asMap is a command as a JSON object, numbers as they are written.
func asMap(c *topics.CommandJSON) (map[string]any, error) {
	b, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	v, err := decodeAny(b)
	m, _ := v.(map[string]any)
	delete(m, "op")
	return m, err
}

func decodeAny(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

func applyPatch(base map[string]any, patch fields) error {
	for _, f := range patch {
		v, err := decodeAny(f.value)
		if err != nil {
			return problem.Malformed("the body is not JSON that can be merged")
		}
		if _, had := base[f.name]; v == nil && had {
			delete(base, f.name)
		} else { // a null too: the decoder says whether there is such a field
			base[f.name] = mergePatch(base[f.name], v)
		}
	}
	return nil
}

// mergePatch is MergePatch of RFC 7396, section 2.
func mergePatch(target, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	t, ok := target.(map[string]any)
	if !ok {
		t = map[string]any{}
	}
	for name, v := range p {
		if v == nil {
			delete(t, name)
		} else {
			t[name] = mergePatch(t[name], v)
		}
	}
	return t
}

func fieldsOf(m map[string]any) fields {
	var fs fields
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fs.set(name, m[name])
	}
	return fs
}
