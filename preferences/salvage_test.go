package preferences

import (
	"reflect"
	"slices"
	"testing"
)

// The readable parts of a damaged document are kept. If opt-outs cannot be read, less is sent,
// never more.
func TestSalvage(t *testing.T) {
	out := func(channels ...string) *Preferences { return &Preferences{OptedOut: channels} }
	all := func() *Preferences { return out("push", "sms", "email") }
	for _, c := range []struct {
		name, text string
		want       *Preferences
	}{
		{"no JSON", "\x00\x01", all()},
		{"nothing", "", all()},
		{"no object", "[]", all()},
		{"a torn object", `{"opted_out_channels":["sms"]`, all()},
		{"a list that is none", `{"opted_out_channels":"sms"}`, all()},
		{"an item that is none", `{"opted_out_channels":["SMS",7]}`, out("sms", "push", "email")},
		{"types that are none", `{"opted_out_channels":["fax"],"notification_types":3}`, out("fax", "push", "sms", "email")},
		{
			"a type that is none", `{"notification_types":{"a":true,"b":"no","c":{"sms":false}}}`,
			&Preferences{Types: map[string]Type{
				"a": {Wanted: true}, "b": {}, "c": {Channels: map[string]bool{"sms": false}},
			}},
		},
		{
			"hours that are none", `{"locale":"de","timezone":"Asia/Tokyo","opted_out_channels":["sms"],
			"quiet_hours":{"from":"99:00","to":"07:00"},"addresses":{"sms":1,"email":"a@example.com","push":[{"provider":
			"fcm","token":"t"}]}}`,
			&Preferences{
				Locale: "de", Zone: "Asia/Tokyo", OptedOut: []string{"sms"},
				Addresses: Addresses{Email: "a@example.com", Push: []PushAddress{{"fcm", "t"}}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Salvage([]byte(c.text))
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if _, err := Parse(got.Encode()); err != nil {
				t.Errorf("what is salvaged does not parse: %v", err)
			}
		})
	}
}

// FuzzSalvage checks that the result parses, whatever is in the document, and that no opt-out
// that Parse can read is lost.
func FuzzSalvage(f *testing.F) {
	f.Add([]byte(`{"opted_out_channels":["sms"],"notification_types":{"a":{"sms":false}}}`))
	f.Add([]byte(`{"opted_out_channels":[1]`))
	f.Fuzz(func(t *testing.T, document []byte) {
		p, err := Parse(Salvage(document).Encode())
		if err != nil {
			t.Fatal(err)
		}
		was, err := Parse(document)
		if err != nil {
			return
		}
		for _, channel := range was.OptedOut {
			if channel != "" && !slices.Contains(p.OptedOut, channelName(channel)) {
				t.Errorf("the opt-out of %q is lost", channel)
			}
		}
	})
}
