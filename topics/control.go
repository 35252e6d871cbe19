package topics

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Keys of topic control, which is compacted. Each is one setting. Every partition reads it
// and applies it at a definite offset.
const (
	ControlTZData    = "tzdata"    // the tz database: value is the zip itself, label and sum in headers
	ControlCalendars = "calendar/" // + name: JSON {"dates":["2026-12-25",…]}
)

const (
	headerTZLabel   = "wc-label"   // release, for people: 2026a
	headerTZSum     = "wc-sha256"  // hex, of the value: the identity of the release
	headerTZCarried = "wc-carried" // zones carried over, between spaces
)

// Bounds on settings.
const (
	maxCalendarDates = 10_000
	maxTZDataBytes   = 3 << 20
	maxTZLabel       = 64
)

// Setting is one record of topic control. Exactly one of TZData and Calendar
// is set, or none where Deleted.
type Setting struct {
	Key      string
	Deleted  bool
	TZData   *TZData
	Calendar *Calendar
}

// TZData is a release of the tz database.
type TZData struct {
	Label   string   // as IANA names it
	Sum     [32]byte // SHA-256 of Zip
	Zip     []byte   // zoneinfo.zip as Go reads it
	Carried []string // zones in Zip that the release lacks, with the rules of the release before
}

// Calendar is a named set of local dates.
type Calendar struct {
	Name  string   `json:"-"`
	Dates []string `json:"dates"` // 2026-12-25, ascending, each once
}

// EncodeTZData makes the record that activates a release.
func EncodeTZData(t TZData) (key, value []byte, headers []trigger.Header, err error) {
	if err := t.check(); err != nil {
		return nil, nil, nil, err
	}
	sum := sha256.Sum256(t.Zip)
	headers = []trigger.Header{header(headerTZLabel, t.Label), header(headerTZSum, hex.EncodeToString(sum[:]))}
	if len(t.Carried) > 0 {
		headers = append(headers, header(headerTZCarried, strings.Join(t.Carried, " ")))
	}
	return []byte(ControlTZData), t.Zip, headers, nil
}

func (t *TZData) check() error {
	switch {
	case t.Label == "" || len(t.Label) > maxTZLabel || !printable(t.Label):
		return fail(trigger.CodeInvalid, ControlTZData, "a tz release needs a label of 1 to 64 bytes, such as 2026a")
	case len(t.Zip) == 0 || len(t.Zip) > maxTZDataBytes:
		return fail(trigger.CodeInvalid, ControlTZData, "a tz database has 1 byte to 3 MiB")
	}
	return nil
}

// EncodeCalendar makes the record that puts a calendar. Dates are sorted and
// each kept once.
func EncodeCalendar(c Calendar) (key, value []byte, err error) {
	c.Dates = slices.Compact(slices.Sorted(slices.Values(c.Dates)))
	if err := c.check(); err != nil {
		return nil, nil, err
	}
	value, err = json.Marshal(c)
	return []byte(ControlCalendars + c.Name), value, err
}

func (c *Calendar) check() error {
	field := ControlCalendars + c.Name
	if name, ok := calendarName(c.Name); !ok || !ValidName(name) {
		return fail(trigger.CodeInvalid, field,
			"a calendar's name is 1 to 64 of a-z 0-9 . _ -, the first a letter or digit; a tenant's own has the "+
				"tenant and '/' before it")
	}
	if len(c.Dates) > maxCalendarDates {
		return fail(trigger.CodeTooLarge, field, "a calendar has at most 10,000 dates")
	}
	for i, d := range c.Dates {
		if _, err := calendar.ParseDate(d); err != nil {
			return fail(trigger.CodeInvalid, field, fmt.Sprintf("%q is no date: write 2026-12-25", clip(d, 32)))
		}
		if i > 0 && c.Dates[i-1] >= d {
			return fail(trigger.CodeInvalid, field, "the dates are not ascending, each once")
		}
	}
	return nil
}

// calendarName is a calendar's name without its tenant.
func calendarName(full string) (name string, ok bool) {
	tenant, name, own := strings.Cut(full, "/")
	if !own {
		return full, true
	}
	if tenant == trigger.DefaultTenant {
		return name, true
	}
	key, err := trigger.ParseKey([]byte(full))
	return name, err == nil && key.Tenant() == tenant
}

// ValidName says whether s may name a calendar, without a tenant.
func ValidName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		if !nameByte(s[i], i) {
			return false
		}
	}
	return true
}

// nameByte reports whether c may be in the name of a channel or calendar.
func nameByte(c byte, at int) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		return true
	}
	return at > 0 && (c == '.' || c == '_' || c == '-')
}

// DecodeSetting reads a record of topic control. For a setting of a later version the error
// has the code unsupported, and the caller goes on without it.
func DecodeSetting(rec *Record) (*Setting, error) {
	s := &Setting{Key: string(rec.Key), Deleted: rec.Value == nil}
	name, isCalendar := strings.CutPrefix(s.Key, ControlCalendars)
	switch {
	case s.Key != ControlTZData && !isCalendar:
		return nil, fail(trigger.CodeUnsupported, clip(s.Key, 64), "this version does not know the setting")
	case s.Deleted:
		return s, nil
	case isCalendar:
		s.Calendar = &Calendar{Name: name}
		return s, s.Calendar.decode(rec.Value)
	}
	s.TZData = &TZData{Zip: rec.Value}
	return s, s.TZData.decode(rec.Headers)
}

func (c *Calendar) decode(value []byte) error {
	if err := json.Unmarshal(value, c); err != nil {
		return &trigger.Error{
			Code: trigger.CodeInvalid, Field: ControlCalendars + c.Name,
			Msg: "a calendar is a JSON object with dates", Err: err,
		}
	}
	return c.check()
}

func (t *TZData) decode(headers []trigger.Header) error {
	sum := ""
	for _, h := range headers {
		switch h.Key {
		case headerTZLabel:
			t.Label = string(h.Value)
		case headerTZSum:
			sum = string(h.Value)
		case headerTZCarried:
			t.Carried = strings.Fields(string(h.Value))
		}
	}
	t.Sum = sha256.Sum256(t.Zip)
	if sum != hex.EncodeToString(t.Sum[:]) {
		return fail(trigger.CodeInvalid, ControlTZData,
			"wc-sha256 is not the sum of the value: the tz database came damaged")
	}
	return t.check()
}
