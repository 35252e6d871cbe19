package preferences

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/near"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// CodeMalformed is the code for input that is not one JSON object.
const CodeMalformed trigger.Code = "malformed"

// Decode reads what a caller sends. It refuses unknown fields, repeated names, and everything
// beyond the bounds of this package. An error is a *trigger.Error whose Field is the path, such
// as quiet_hours.from.
func Decode(b []byte, zones *calendar.Zones) (*Preferences, error) {
	if len(b) > MaxDocument {
		return nil, refuse(trigger.CodeTooLarge, "", "preferences have over %d bytes", MaxDocument)
	}
	if jsontext.Value(b).Kind() != '{' {
		return nil, refuse(CodeMalformed, "", "the body is not a JSON object")
	}
	var d Document
	if err := json.Unmarshal(b, &d, json.RejectUnknownMembers(true)); err != nil {
		return nil, syntax(err)
	}
	return d.read(zones)
}

// Parse reads what this release or a newer one wrote by Encode. It ignores unknown fields, and
// checks nothing more.
func Parse(b []byte) (*Preferences, error) {
	var d Document
	if err := json.Unmarshal(b, &d); err != nil {
		return nil, fmt.Errorf("read preferences: %w", err)
	}
	p := &Preferences{
		OptedOut: d.OptedOut, Preferred: d.Preferred, Locale: d.Locale, Zone: d.Zone,
		Addresses: d.addresses(),
	}
	for name, t := range d.Types {
		p.setType(name, t.Type)
	}
	var err error
	p.Quiet, err = d.Quiet.read()
	return p, err
}

func refuse(code trigger.Code, field, format string, args ...any) *trigger.Error {
	return &trigger.Error{Code: code, Field: field, Msg: fmt.Sprintf(format, args...)}
}

func invalid(field, format string, args ...any) *trigger.Error {
	return refuse(trigger.CodeInvalid, field, format, args...)
}

// syntax makes an error for input that the JSON package refuses.
func syntax(err error) *trigger.Error {
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			field := fieldOf(s.JSONPointer)
			return invalid(field, "%s is given twice", field)
		}
		return refuse(CodeMalformed, "", "the body is not JSON: error at byte %d", s.ByteOffset)
	}
	s, ok := errors.AsType[*json.SemanticError](err)
	if !ok {
		return refuse(CodeMalformed, "", "the body is not complete JSON")
	}
	field := fieldOf(s.JSONPointer)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		name := s.JSONPointer.LastToken()
		return refuse(trigger.CodeUnknownField, field, "%s is not a field of preferences%s", printable.Quoted(field),
			near.Hint(name, fieldNames))
	case errors.Is(err, errTypeValue):
		return invalid(field, "%s: %v", field, errTypeValue)
	}
	return invalid(field, "%s has a value of the wrong type", field)
}

// fieldNames lists all fields, for hints.
var fieldNames = []string{
	"opted_out_channels", "preferred_channels", "notification_types", "quiet_hours", "addresses", "locale",
	"timezone", "from", "to", "days", "channels", "push", "sms", "email", "provider", "token",
}

// fieldOf returns a path in the form quiet_hours.from. It is cut to a bound, because the caller
// chooses the names of types.
func fieldOf(p jsontext.Pointer) string {
	field := strings.Join(slices.Collect(p.Tokens()), ".")
	if len(field) > 100 {
		field = strings.ToValidUTF8(field[:100], "")
	}
	return strings.Map(visible, field)
}

func visible(r rune) rune {
	if r < ' ' || r == 0x7f {
		return '?'
	}
	return r
}

// read checks a document field by field.
func (d *Document) read(zones *calendar.Zones) (_ *Preferences, err error) {
	p := &Preferences{Locale: d.Locale, Zone: d.Zone}
	if p.OptedOut, err = channelList("opted_out_channels", d.OptedOut); err != nil {
		return nil, err
	}
	if p.Preferred, err = channelList("preferred_channels", d.Preferred); err != nil {
		return nil, err
	}
	if err := p.readTypes(d.Types); err != nil {
		return nil, err
	}
	if err := checkLocale(d.Locale); err != nil {
		return nil, err
	}
	if err := checkZone(d.Zone, zones); err != nil {
		return nil, err
	}
	if p.Quiet, err = d.Quiet.check(); err != nil {
		return nil, err
	}
	if p.Quiet != nil && p.Zone == "" {
		return nil, invalid("timezone", "quiet_hours are local times: they need a timezone")
	}
	p.Addresses = d.addresses()
	return p, p.Addresses.check()
}

// channelList returns a list of channels in lower case, without repeats.
func channelList(field string, names []string) ([]string, error) {
	if len(names) > MaxChannels {
		return nil, invalid(field, "%s has over %d channels", field, MaxChannels)
	}
	var out []string
	for _, name := range names {
		lower := channelName(name)
		if !topics.ValidChannel(lower) {
			return nil, invalid(field, "%s: %s is not a channel", field, printable.Quoted(name))
		}
		if !slices.Contains(out, lower) {
			out = append(out, lower)
		}
	}
	return out, nil
}

func (p *Preferences) setType(name string, t Type) {
	if p.Types == nil {
		p.Types = map[string]Type{}
	}
	p.Types[name] = t
}

func (p *Preferences) readTypes(types map[string]TypeValue) error {
	const field = "notification_types"
	if len(types) > MaxTypes {
		return invalid(field, "%s has over %d types", field, MaxTypes)
	}
	for name, v := range types {
		if name == "" || len(name) > MaxTypeName || strings.Map(visible, name) != name {
			return invalid(field, "a notification type is 1 to %d bytes without control characters", MaxTypeName)
		}
		t := Type{Wanted: v.Wanted}
		if v.Channels != nil {
			if err := t.readChannels(field+"."+name, v.Channels); err != nil {
				return err
			}
		}
		p.setType(name, t)
	}
	return nil
}

// readChannels refuses two spellings of one channel, because it would be unclear which one
// counts.
func (t *Type) readChannels(field string, by map[string]bool) error {
	field = fieldOf(jsontext.Pointer("").AppendToken(field))
	if len(by) > MaxChannels {
		return invalid(field, "%s has over %d channels", field, MaxChannels)
	}
	t.Channels = make(map[string]bool, len(by))
	for name, wanted := range by {
		lower := channelName(name)
		if !topics.ValidChannel(lower) {
			return invalid(field, "%s: %s is not a channel", field, printable.Quoted(name))
		}
		if _, twice := t.Channels[lower]; twice {
			return invalid(field, "%s: channel %s is given twice; case does not count", field, lower)
		}
		t.Channels[lower] = wanted
	}
	return nil
}

// languageTag matches the form of BCP 47: subtags of 1 to 8 letters and digits.
var languageTag = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)

func checkLocale(locale string) error {
	if locale != "" && (len(locale) > MaxLocale || !languageTag.MatchString(locale)) {
		return invalid("locale", "%s is not a language tag; write de or pt-BR", printable.Quoted(locale))
	}
	return nil
}

func checkZone(name string, zones *calendar.Zones) error {
	if name == "" {
		return nil
	}
	if len(name) > MaxZone {
		return refuse(trigger.CodeUnknownZone, "timezone", "%s is not a time zone", printable.Quoted(name))
	}
	_, err := zones.Lookup(name)
	if e, ok := errors.AsType[*calendar.Error](err); ok {
		return refuse(trigger.Code(e.Code), "timezone", "%s", e.Msg)
	}
	return err
}

// read converts the hours without checks. It returns nil for {}.
func (d *QuietDocument) read() (*Quiet, error) {
	if d.From == "" && d.To == "" && d.Days == nil && d.Channels == nil {
		return nil, nil
	}
	q := &Quiet{Channels: d.Channels}
	var err error
	if q.From, err = minutes("quiet_hours.from", d.From, minutesPerDay-1); err != nil {
		return nil, err
	}
	if q.To, err = minutes("quiet_hours.to", d.To, minutesPerDay); err != nil {
		return nil, err
	}
	for _, name := range d.Days {
		i := slices.Index(dayNames[:], strings.ToUpper(name))
		if i < 0 {
			return nil, invalid("quiet_hours.days", "%s is not a day; write MO, TU, WE, TH, FR, SA or SU",
				printable.Quoted(name))
		}
		q.Days |= 1 << i
	}
	return q, nil
}

// check is like read, but validates what a caller sends.
func (d *QuietDocument) check() (*Quiet, error) {
	if len(d.Days) > 7 {
		return nil, invalid("quiet_hours.days", "a week has 7 days")
	}
	q, err := d.read()
	if q == nil || err != nil {
		return nil, err
	}
	channels, err := channelList("quiet_hours.channels", d.Channels)
	switch {
	case err != nil:
		return nil, err
	case d.Days != nil && q.Days == 0:
		return nil, invalid("quiet_hours.days", "days is empty: omit it for every day")
	case d.Channels != nil && channels == nil:
		return nil, invalid("quiet_hours.channels", "channels is empty: omit it for every channel but webhook")
	case q.From == q.To:
		return nil, invalid("quiet_hours.to", "from and to are the same; a whole day is 00:00 to 24:00")
	case q.From == 0 && q.To == minutesPerDay && (q.Days == 0 || q.Days == allDays):
		return nil, invalid("quiet_hours", "these hours never end: opt out of the channels instead")
	}
	q.Channels = channels
	return q, nil
}

// minutes parses a local time such as 22:00 into at most so many minutes after midnight.
func minutes(field, text string, most int) (int, error) {
	if text == "" {
		return 0, invalid(field, "%s is missing: quiet_hours have from and to", field)
	}
	if len(text) == 5 && text[2] == ':' && digit(text[0]) && digit(text[1]) && digit(text[3]) && digit(text[4]) {
		hour, minute := int(text[0]-'0')*10+int(text[1]-'0'), int(text[3]-'0')*10+int(text[4]-'0')
		if at := hour*60 + minute; minute < 60 && at <= most {
			return at, nil
		}
	}
	return 0, invalid(field, "%s is not a local time; write hours and minutes with two digits each, such as 07:00",
		printable.Quoted(text))
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func (d *Document) addresses() Addresses {
	a := Addresses{SMS: d.Addresses.SMS, Email: d.Addresses.Email}
	for _, one := range d.Addresses.Push {
		a.Push = append(a.Push, PushAddress(one))
	}
	return a
}

// e164 matches a telephone number (ITU-T E.164: at most 15 digits).
var e164 = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`)

func (a *Addresses) check() error {
	if len(a.Push) > MaxPushTokens {
		return invalid("addresses.push", "addresses.push has over %d items", MaxPushTokens)
	}
	for _, one := range a.Push {
		if one.Provider != "fcm" && one.Provider != "apns" {
			return invalid("addresses.push.provider", "%s is not a provider; write fcm or apns",
				printable.Quoted(one.Provider))
		}
		if !isToken(one.Token) {
			return invalid("addresses.push.token", "a token is 1 to %d printable ASCII characters", MaxToken)
		}
	}
	if a.SMS != "" && !e164.MatchString(a.SMS) {
		return invalid("addresses.sms", "%s is not a telephone number; write +4915112345678", printable.Quoted(a.SMS))
	}
	if a.Email != "" && !isEmail(a.Email) {
		return invalid("addresses.email", "%s is not a mail address; write ada@example.com", printable.Quoted(a.Email))
	}
	return nil
}

func isToken(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != "" && len(s) <= MaxToken
}
