package preferences

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is the JSON of preferences: what PUT takes, GET shows and stores keep.
type Document struct {
	OptedOut  []string             `json:"opted_out_channels" nullable:"true" doc:"Channels on which nothing is sent, whatever its priority"`
	Preferred []string             `json:"preferred_channels" nullable:"true" doc:"Channels in the order of preference: a register with user_id, but neither channel nor escalation, takes the first"`
	Types     map[string]TypeValue `json:"notification_types" nullable:"true" doc:"By notification type (tags.type): false, or false by channel. What is not named is wanted"`
	Quiet     QuietDocument        `json:"quiet_hours" doc:"Hours at which nothing is sent but priority high; needs timezone"`
	Addresses AddressDocument      `json:"addresses"`
	Locale    string               `json:"locale,omitempty" nullable:"true" doc:"A language tag such as pt-BR"`
	Zone      string               `json:"timezone,omitempty" nullable:"true" doc:"IANA name. A new one moves the user's follow_user triggers" example:"America/New_York"`
}

// QuietDocument is the JSON of quiet hours; {} is none.
type QuietDocument struct {
	From     string   `json:"from,omitempty" nullable:"true" doc:"Local time at which they begin" example:"22:00"`
	To       string   `json:"to,omitempty" nullable:"true" doc:"Local time at which they end, up to 24:00; not later than from means on the next day" example:"07:00"`
	Days     []string `json:"days,omitempty" nullable:"true" doc:"Days on which they begin: MO, TU, WE, TH, FR, SA, SU; every day without it"`
	Channels []string `json:"channels,omitempty" nullable:"true" doc:"Channels that they bind; every channel but webhook without it"`
}

// AddressDocument is the JSON of addresses.
type AddressDocument struct {
	Push  []PushDocument `json:"push,omitempty" nullable:"true"`
	SMS   string         `json:"sms,omitempty" nullable:"true" doc:"E.164" example:"+4915112345678"`
	Email string         `json:"email,omitempty" nullable:"true" example:"ada@example.com"`
}

// PushDocument is the JSON of one installation of an app.
type PushDocument struct {
	Provider string `json:"provider" enum:"fcm,apns"`
	Token    string `json:"token"`
}

// TypeValue is a bool, or an object of bools by channel.
type TypeValue struct{ Type }

// MarshalJSONTo writes either.
func (v TypeValue) MarshalJSONTo(e *jsontext.Encoder) error {
	if v.Channels == nil {
		return json.MarshalEncode(e, v.Wanted)
	}
	return json.MarshalEncode(e, v.Channels)
}

var errTypeValue = errors.New("it is true, false, or an object of them by channel")

// UnmarshalJSONFrom reads either.
func (v *TypeValue) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	switch d.PeekKind() {
	case '{':
		v.Channels = map[string]bool{}
		return json.UnmarshalDecode(d, &v.Channels)
	case 't', 'f':
		return json.UnmarshalDecode(d, &v.Wanted)
	}
	return errTypeValue
}

// Document is the JSON of p. Decode reads it back.
func (p *Preferences) Document() Document {
	d := Document{
		OptedOut: list(p.OptedOut), Preferred: list(p.Preferred), Types: map[string]TypeValue{},
		Locale: p.Locale, Zone: p.Zone, Addresses: AddressDocument{SMS: p.Addresses.SMS, Email: p.Addresses.Email},
	}
	for name, t := range p.Types {
		d.Types[name] = TypeValue{t}
	}
	if q := p.Quiet; q != nil {
		d.Quiet = QuietDocument{From: clock(q.From), To: clock(q.To), Channels: q.Channels}
		for i, name := range dayNames {
			if q.Days&(1<<i) != 0 {
				d.Quiet.Days = append(d.Quiet.Days, name)
			}
		}
	}
	for _, a := range p.Addresses.Push {
		d.Addresses.Push = append(d.Addresses.Push, PushDocument(a))
	}
	return d
}

func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}

func clock(minutes int) string { return fmt.Sprintf("%02d:%02d", minutes/60, minutes%60) }

// Encode spells p: the same preferences are the same bytes.
func (p *Preferences) Encode() []byte {
	b, err := json.Marshal(p.Document(), json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("preferences cannot be spelled: %v", err)) // of texts and bools alone
	}
	return b
}
