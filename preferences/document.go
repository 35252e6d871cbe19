package preferences

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Document is the JSON of preferences: PUT takes it, GET shows it, and stores keep it.
type Document struct {
	OptedOut  []string             `json:"opted_out_channels"`
	Preferred []string             `json:"preferred_channels"`
	Types     map[string]TypeValue `json:"notification_types"`
	Quiet     QuietDocument        `json:"quiet_hours"`
	Addresses AddressDocument      `json:"addresses"`
	Locale    string               `json:"locale,omitempty"`
	Zone      string               `json:"timezone,omitempty"`
}

// QuietDocument is the JSON of quiet hours. {} means none.
type QuietDocument struct {
	From     string   `json:"from,omitempty"`
	To       string   `json:"to,omitempty"`
	Days     []string `json:"days,omitempty"`
	Channels []string `json:"channels,omitempty"`
}

// AddressDocument is the JSON of addresses.
type AddressDocument struct {
	Push  []PushDocument `json:"push,omitempty"`
	SMS   string         `json:"sms,omitempty"`
	Email string         `json:"email,omitempty"`
}

// PushDocument is the JSON of one installation of an app.
type PushDocument struct {
	Provider string `json:"provider"`
	Token    string `json:"token"`
}

// TypeValue is a bool, or an object of bools by channel.
type TypeValue struct{ Type }

// MarshalJSONTo writes a bool or an object.
func (v TypeValue) MarshalJSONTo(e *jsontext.Encoder) error {
	if v.Channels == nil {
		return json.MarshalEncode(e, v.Wanted)
	}
	return json.MarshalEncode(e, v.Channels)
}

var errTypeValue = errors.New("it is true, false, or an object of them by channel")

// UnmarshalJSONFrom reads a bool or an object.
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

// Document returns the JSON of p. Decode reads it back.
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

// Encode encodes p. Equal preferences have equal bytes.
func (p *Preferences) Encode() []byte {
	b, err := json.Marshal(p.Document(), json.Deterministic(true))
	if err != nil {
		panic(fmt.Sprintf("preferences cannot be encoded: %v", err)) // only strings and bools are encoded
	}
	return b
}
