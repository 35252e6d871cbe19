package preferences

import (
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// Bounds of one user's preferences.
const (
	MaxDocument    = 64 << 10 // bytes of JSON
	MaxChannels    = 100      // names in one list
	MaxTypes       = 256      // notification types
	MaxTypeName    = 256      // bytes, the same as for the value of a tag
	MaxPushTokens  = 20       // addresses for push
	MaxToken       = 4096     // bytes of one token
	MaxLocale      = 35       // bytes (RFC 5646, 4.4.1)
	MaxEmail       = 254      // bytes (RFC 5321, erratum 1690)
	MaxUser        = 255      // bytes of a user_id, the same as in a command
	MaxZone        = 64       // bytes
	minutesPerDay  = 24 * 60
	allDays        = 1<<7 - 1
	webhookChannel = "webhook"
)

// Preferences are one user's preferences. The zero value means that the user never set any: every
// channel is allowed at every hour. Channel names are in lower case.
type Preferences struct {
	OptedOut  []string        // channels on which nothing is sent
	Preferred []string        // channels in the order of preference
	Types     map[string]Type // by notification type; a missing type is wanted
	Quiet     *Quiet          // nil: none. Needs Zone
	Addresses Addresses
	Locale    string // BCP 47; "": unknown
	Zone      string // IANA name; "": unknown

	ErasedAt time.Time // when the user's earlier preferences were erased; zero: never. Not part of the document
}

// Type says on which channels notifications of one type are wanted.
type Type struct {
	Wanted   bool            // on every channel; only if Channels is nil
	Channels map[string]bool // a missing channel is wanted
}

// wants reports whether a type is wanted on a channel.
func (t Type) wants(channel string) bool {
	if t.Channels == nil {
		return t.Wanted
	}
	wanted, said := t.Channels[channel]
	return wanted || !said
}

// Quiet holds the hours at which nothing is sent. From is minutes after midnight, 0 to 1439; To
// is 1 to 1440. They differ. If To is not later than From, the hours end on the next day.
type Quiet struct {
	From, To int
	Days     Days     // days on which the hours begin; 0: every day
	Channels []string // nil: every channel but webhook
}

// Days is a set of weekdays: bit 0 is Sunday, as in package calendar.
type Days uint8

var dayNames = [7]string{"SU", "MO", "TU", "WE", "TH", "FR", "SA"}

// has reports whether a local date is one of the days.
func (d Days) has(date calendar.Date) bool {
	weekday := ((int(date)+4)%7 + 7) % 7 // 1970-01-01 was a Thursday
	return d == 0 || d&(1<<weekday) != 0
}

// binds reports whether the hours apply to a channel.
func (q *Quiet) binds(channel string) bool {
	if q.Channels == nil {
		return channel != webhookChannel
	}
	return slices.Contains(q.Channels, channel)
}

// Addresses are the addresses of a user.
type Addresses struct {
	Push  []PushAddress
	SMS   string // E.164, such as +4915112345678
	Email string
}

// PushAddress is one installation of an app.
type PushAddress struct {
	Provider string // fcm or apns
	Token    string
}

// channelName returns a channel in the form in which it is compared.
func channelName(name string) string { return strings.ToLower(name) }
