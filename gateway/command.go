package gateway

import (
	"crypto/sha256"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// command is a command that is ready to be written.
type command struct {
	op       trigger.Op
	id       string
	key      trigger.Key
	value    []byte
	headers  []trigger.Header
	hash     trigger.Hash // of a register's content
	once     string       // idempotency key of a register
	patch    bool         // a register that changes only some fields
	when     trigger.When // requested time, as of sent
	sent     trigger.Instant
	channels []string
	opens    []string      // new ones among its channels
	nobody   []func() bool // for each channel: whether nobody reads it; nil: no need to know
	content  string        // note of a payload that our workers cannot send; "" of any other
	trace    tracing.Parent

	note string // why, for the audit

	conditional bool // given by a header: a conflict is a 412
	absent      bool // only if the trigger does not exist; even a repeat is a conflict
}

// notHere lists fields of a command that HTTP callers must not give, and other names of the
// id, which is taken earlier.
var notHere = map[string]string{
	"op":    "omit it: the method and the path name the operation",
	"actor": "omit it: it is the caller of the request",
	"id":    idIs, "trigger_id": idIs, "triggerId": idIs, "reminder_id": idIs,
}

const idIs = "the trigger's id is id in the body of a POST or the line of a batch, else the last part of the path"

// encoder makes commands of what callers send, and checks them as the engine does.
type encoder struct {
	lookup *lookup
	prefs  *preferenceCalls

	admit         func(tenant string, c *trigger.Command) *trigger.Error
	awaits        func(name string) (topic string, receipts bool)
	channels      *channels // which are new
	fixedChannels bool
	limits        topics.Limits
	now           func() time.Time
	readers       *readers // of due topics
}

// command encodes a command and checks it like the engine. own are the user's headers,
// which travel beside the JSON.
func (s *encoder) command(r *request, op trigger.Op, id string, fs fields, own ...trigger.Header) (*command, error) {
	key, err := r.key(id)
	if err != nil {
		return nil, err
	}
	for i := range fs {
		if instead, ok := notHere[fs[i].name]; ok {
			return nil, problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, fs[i].name,
				printable.Quoted(fs[i].name)+" is not a field here: "+instead)
		}
	}
	all := append(make(fields, 0, len(fs)+2), field{"op", []byte(strconv.Quote(op.String()))})
	all = append(all, fs...)
	if actor := recordable(r.who.Name); actor != "" {
		all.set("actor", actor)
	}
	if op == trigger.OpRegister && len(own) == 0 { // with headers it is a patch, which keeps the channel
		if own, err = s.preferred(r, fs); err != nil {
			return nil, err
		}
	}
	c := &command{
		op: op, id: id, key: key, value: all.encode(), headers: withTrace(own, r), trace: r.span.Parent(),
		conditional: r.conditional, note: noteOf(fs),
	}
	err = s.check(r.who.Tenant, c)
	if r.act.commands(c); err != nil {
		return c, err
	}
	for _, name := range c.channels {
		if !s.channels.opens(r.Context(), name) {
			continue
		}
		if s.fixedChannels && op == trigger.OpRegister {
			return c, problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownChannel, "channel",
				"channel "+printable.Quoted(name)+" does not exist, and channels.auto_create is off: ask an operator "+
					"to configure it")
		}
		if s.channels.first(name) {
			c.opens = append(c.opens, name)
		}
	}
	if op == trigger.OpRegister {
		c.askForReaders(s)
	}
	return c, nil
}

// askForReaders starts to ask who reads the channels that wait for receipts. The answer is
// for a note after the decision.
func (c *command) askForReaders(s *encoder) {
	c.nobody = make([]func() bool, len(c.channels))
	for i, name := range c.channels {
		if topic, receipts := s.awaits(name); receipts {
			s.readers.ask(topic)
			c.nobody[i] = func() bool { return s.readers.nobody(topic) }
		}
	}
}

// check refuses what the engine would refuse without reading the trigger.
func (s *encoder) check(tenant string, c *command) error {
	rec := topics.Record{Key: []byte(c.key), Value: c.value, Headers: c.headers, Timestamp: trigger.At(s.now())}
	decoded, err := topics.DecodeCommand(&rec, s.limits, nil)
	if err != nil {
		return err
	}
	c.hash, c.once, c.patch = decoded.Hash, decoded.IdempotencyKey, decoded.Patch
	if spec := decoded.Spec; spec != nil {
		c.when, c.sent, c.channels = spec.When, decoded.From.Append, spec.Channels()
		if decoded.Op == trigger.OpRegister && !c.patch {
			c.content = topics.NoteContent(spec)
		}
	}
	c.absent = c.conditional && decoded.IfAbsent && decoded.IdempotencyKey == ""
	if e := s.admit(tenant, decoded); e != nil {
		return e
	}
	return nil
}

func (c *command) record(topic string, partitions int32) *kgo.Record {
	rec := commandRecord(topic, partitions, &topics.Record{Key: []byte(c.key), Value: c.value, Headers: c.headers})
	rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: topics.HeaderAsk})
	return rec
}

// commandRecord converts a record of topic commands for kgo, on the partition of its key.
func commandRecord(topic string, partitions int32, r *topics.Record) *kgo.Record {
	rec := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value, Partition: topics.Partition(r.Key, partitions)}
	rec.Headers = kafkarec.AppendHeaders(make([]kgo.RecordHeader, 0, len(r.Headers)+1), r.Headers) // room for one more
	return rec
}

// idPrefix begins the ids that we make.
const idPrefix = "trg_"

// newID makes an id that is sortable by time and cannot be guessed.
func newID() string { return idPrefix + ulid.Make().String() }

// idFor is the id of a trigger that is registered under an idempotency key without an id:
// the first 128 bits of SHA-256(tenant, 0, key), written like a ULID. It needs no cache: a
// repeat, at any instance and time, means the same trigger.
func idFor(tenant, idempotencyKey string) string {
	sum := sha256.Sum256([]byte(tenant + "\x00" + idempotencyKey))
	return idPrefix + ulid.ULID(sum[:16]).String()
}

// idempotency takes the key from the header Idempotency-Key or the field of
// that name, and sets the field.
func idempotency(r *http.Request, fs *fields) (string, error) {
	keys := r.Header.Values(idempotencyKey)
	key := strings.Join(keys, "")
	if unquoted, err := strconv.Unquote(key); err == nil && strings.HasPrefix(key, `"`) {
		key = unquoted // the header is a structured string (draft-ietf-httpapi-idempotency-key-header)
	}
	switch {
	case len(keys) > 1:
		return "", problem.BadParameter(idempotencyKey, "Idempotency-Key is given twice")
	case len(keys) == 1 && key == "":
		return "", problem.BadParameter(idempotencyKey, "Idempotency-Key is empty: omit it, or give it a value")
	case !utf8.ValidString(key): // JSON could not tell two such keys apart
		return "", problem.BadParameter(idempotencyKey, "Idempotency-Key is not UTF-8")
	}
	field, err := fs.takeText("idempotency_key")
	switch {
	case err != nil:
		return "", err
	case key == "":
		key = field
	case field != "" && field != key:
		return "", problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "idempotency_key",
			"the field and the header Idempotency-Key differ")
	}
	if key != "" {
		fs.set("idempotency_key", key)
	}
	return key, nil
}

var (
	errIfMatchTwice = problem.BadParameter(ifMatch, "give If-Match or if_revision, not both")
	errIfNoneMatch  = problem.BadParameter(ifNoneMatch,
		"a write accepts only If-None-Match: *, to register what does not exist")
)

// match is the header If-Match; "" if there is none. It refuses everything but an ETag of
// ours or *, because the caller would believe in a condition that has no effect.
func (r *request) match() (string, error) {
	values := r.Header.Values(ifMatch)
	if values == nil {
		return "", nil
	}
	match := strings.TrimSpace(strings.Join(values, ","))
	for tag := range strings.SplitSeq(match, ",") {
		if _, ok := parseETag(tag); !ok && !almostETag(tag) && match != "*" {
			return "", problem.BadParameter(ifMatch, "If-Match "+ifMatchTakes)
		}
	}
	return match, nil
}

// conditions turns If-Match and If-None-Match into the command's own conditions. An entity
// tag is the revision: "3". retry means that the header also allows other revisions than
// the one that was read, so a conflict may be retried.
func (s *encoder) conditions(r *request, op trigger.Op, id string, fs *fields) (retry bool, err error) {
	match, err := r.match()
	if err != nil {
		return false, err
	}
	none := r.Header.Values(ifNoneMatch)
	r.conditional = match != "" || none != nil
	switch {
	case none != nil && !slices.Equal(none, []string{"*"}):
		return false, errIfNoneMatch
	case none != nil:
		fs.set("if_absent", true)
	}
	if match == "" {
		return false, nil
	}
	if fs.given("if_revision") {
		return false, errIfMatchTwice
	}
	revision, one := parseETag(match)
	if !one {
		// A wrong body is wrong at any revision (RFC 9110 13.2.1).
		if _, err := s.command(r, op, id, *fs); err != nil {
			return false, err
		}
		st, err := s.lookup.read(&request{Request: r.Request, who: r.who, names: map[string]string{"id": id}})
		if revision, err = matched(match, st, err); err != nil {
			// The engine knows a repeat at any revision, and refuses all else.
			if revision, one = firstETag(match); st == nil || !one {
				return false, err
			}
		}
	}
	fs.set("if_revision", revision)
	return !one, nil
}

// firstETag is the first revision of a list, if it has one.
func firstETag(header string) (revision int64, ok bool) {
	for tag := range strings.SplitSeq(header, ",") {
		if revision, ok = parseETag(tag); ok {
			break
		}
	}
	return revision, ok
}

// matched is the revision of a trigger that was read, if If-Match allows it.
func matched(header string, st *trigger.State, err error) (int64, error) {
	if p, ok := errors.AsType[*problem.Problem](err); ok && p.Status == http.StatusNotFound {
		return 0, preconditionFailed("the trigger does not exist")
	}
	if err != nil {
		return 0, err
	}
	fits := func(tag string) bool {
		revision, ok := parseETag(tag)
		return ok && revision == st.Revision
	}
	if header == "*" || slices.ContainsFunc(strings.Split(header, ","), fits) {
		return st.Revision, nil
	}
	detail := "the trigger is at revision " + strconv.FormatInt(st.Revision, 10)
	if slices.ContainsFunc(strings.Split(header, ","), almostETag) {
		detail += "; If-Match " + ifMatchTakes
	}
	return 0, preconditionFailed(detail)
}

func preconditionFailed(detail string) *problem.Problem {
	return problem.New(http.StatusPreconditionFailed, trigger.CodeConflict, "if_revision", detail)
}

// unchanged reports whether If-None-Match names the tag; weak tags count (RFC 9110 13.1.2).
func unchanged(header, tag string) bool {
	return slices.ContainsFunc(strings.Split(header, ","), func(one string) bool {
		one = strings.TrimSpace(one)
		return one == "*" || strings.TrimPrefix(one, "W/") == tag
	})
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

const ifMatchTakes = `takes the strong ETag of an answer, which is the revision in quotes, such as "3"; or *`

// almostETag reports whether the text means a revision but matches nothing, because it is
// weak or has no quotes.
func almostETag(s string) bool {
	text := strings.TrimPrefix(strings.TrimSpace(s), "W/")
	_, quoted := parseETag(text)
	_, err := strconv.ParseInt(text, 10, 64)
	return err == nil || quoted && text != strings.TrimSpace(s)
}

// parseETag parses a strong tag. A weak one never matches (RFC 9110 13.1.1).
func parseETag(s string) (int64, bool) {
	text, opens := strings.CutPrefix(strings.TrimSpace(s), `"`)
	text, closes := strings.CutSuffix(text, `"`)
	if !opens || !closes {
		return 0, false
	}
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, err == nil && revision > 0
}

// maxActor is the longest actor that the decoder accepts.
const maxActor = 255

// recordable makes a text of the caller's fit for a command and for the record of an act: an issuer's subject, for one,
// can be any text.
func recordable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	if len(s) > maxActor {
		s = strings.ToValidUTF8(s[:maxActor], "")
	}
	return s
}
