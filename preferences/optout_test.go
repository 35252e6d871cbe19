package preferences

import (
	"reflect"
	"testing"
)

// TestOptOutLeavesTheOthers checks that an opt-out makes new preferences. Others may be reading
// the original, so it must not change.
func TestOptOutLeavesTheOthers(t *testing.T) {
	const text = `{"opted_out_channels":["push"],"notification_types":{"news":{"sms":true}}}`
	for _, c := range []struct{ name, channel, kind, want string }{
		{"a channel", "email", "", `{"opted_out_channels":["push","email"],"notification_types":{"news":{"sms":true}}}`},
		{"a new type", "sms", "bills", `{"opted_out_channels":["push"],
			"notification_types":{"news":{"sms":true},"bills":{"sms":false}}}`},
		{"a known type", "sms", "news", `{"opted_out_channels":["push"],"notification_types":{"news":{"sms":false}}}`},
		{"a known type, another channel", "email", "news", `{"opted_out_channels":["push"],
			"notification_types":{"news":{"sms":true,"email":false}}}`},
		{"out already", "push", "news", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := decoded(t, text)
			got, changed := p.OptedOutOf(c.channel, c.kind)
			if changed != (c.want != "") {
				t.Fatalf("changed: %v", changed)
			}
			if c.want != "" && !reflect.DeepEqual(got, decoded(t, c.want)) {
				t.Errorf("%+v", got)
			}
			if !reflect.DeepEqual(p, decoded(t, text)) {
				t.Errorf("the preferences it was made from became %+v", p)
			}
		})
	}
}
