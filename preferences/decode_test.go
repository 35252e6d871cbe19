package preferences

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

func TestRefused(t *testing.T) {
	many := func(n int, item string) string {
		return "[" + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + "]"
	}
	quiet := func(inner string) string { return `{"timezone":"UTC","quiet_hours":{` + inner + `}}` }
	var types strings.Builder
	for i := range MaxTypes + 1 {
		fmt.Fprintf(&types, `"t%d":true,`, i)
	}
	for _, c := range []struct{ name, body, code, field string }{
		{"nothing", ``, "malformed", ""},
		{"a list", `[]`, "malformed", ""},
		{"null", `null`, "malformed", ""},
		{"cut off", `{"locale":`, "malformed", ""},
		{"something behind", `{} {}`, "malformed", ""},
		{"no UTF-8", "{\"locale\":\"\xff\"}", "malformed", ""},
		{"too large", `{"locale":"` + strings.Repeat("x", MaxDocument) + `"}`, "too_large", ""},
		{"unknown", `{"time_zone":"UTC"}`, "unknown_field", "time_zone"},
		{"other case", `{"Timezone":"UTC"}`, "unknown_field", "Timezone"},
		{"unknown inside", quiet(`"form":"22:00"`), "unknown_field", "quiet_hours.form"},
		{"unknown in a list", `{"addresses":{"push":[{"tokn":"x"}]}}`, "unknown_field", "addresses.push.0.tokn"},
		{"twice", `{"locale":"de","locale":"de"}`, "invalid", "locale"},
		{"a text for a list", `{"opted_out_channels":"sms"}`, "invalid", "opted_out_channels"},
		{"a number for a text", `{"timezone":1}`, "invalid", "timezone"},
		{"a number in a list", `{"preferred_channels":["push",1]}`, "invalid", "preferred_channels.1"},
		{"no channel", `{"opted_out_channels":["s m s"]}`, "invalid", "opted_out_channels"},
		{"null for a channel", `{"opted_out_channels":[null]}`, "invalid", "opted_out_channels"},
		{"a lane", `{"preferred_channels":["push.high"]}`, "invalid", "preferred_channels"},
		{"many channels", `{"opted_out_channels":` + many(MaxChannels+1, `"sms"`) + `}`, "invalid", "opted_out_channels"},
		{"type is a text", `{"notification_types":{"m":"no"}}`, "invalid", "notification_types.m"},
		{"type is null", `{"notification_types":{"m":null}}`, "invalid", "notification_types.m"},
		{"type without a name", `{"notification_types":{"":false}}`, "invalid", "notification_types"},
		{"type of a control character", `{"notification_types":{"a\u0000":false}}`, "invalid", "notification_types"},
		{"channel twice", `{"notification_types":{"m":{"sms":true,"SMS":false}}}`, "invalid", "notification_types.m"},
		{"channel of a type", `{"notification_types":{"m":{"-":true}}}`, "invalid", "notification_types.m"},
		{"value of a channel", `{"notification_types":{"m":{"sms":0}}}`, "invalid", "notification_types.m.sms"},
		{
			"many types", `{"notification_types":{` + strings.TrimSuffix(types.String(), ",") + `}}`, "invalid",
			"notification_types",
		},
		{"locale", `{"locale":"de_DE"}`, "invalid", "locale"},
		{"zone", `{"timezone":"Europe/Berln"}`, "unknown_zone", "timezone"},
		{"an offset", `{"timezone":"+01:00"}`, "unknown_zone", "timezone"},
		{"a long zone", `{"timezone":"` + strings.Repeat("x", 65) + `"}`, "unknown_zone", "timezone"},
		{"quiet without zone", `{"quiet_hours":{"from":"22:00","to":"07:00"}}`, "invalid", "timezone"},
		{"without from", quiet(`"to":"07:00"`), "invalid", "quiet_hours.from"},
		{"without to", quiet(`"from":"07:00"`), "invalid", "quiet_hours.to"},
		{"only days", quiet(`"days":["MO"]`), "invalid", "quiet_hours.from"},
		{"hour", quiet(`"from":"24:00","to":"07:00"`), "invalid", "quiet_hours.from"},
		{"minute", quiet(`"from":"22:60","to":"07:00"`), "invalid", "quiet_hours.from"},
		{"short", quiet(`"from":"22:00","to":"7:00"`), "invalid", "quiet_hours.to"},
		{"behind midnight", quiet(`"from":"22:00","to":"24:01"`), "invalid", "quiet_hours.to"},
		{"sign", quiet(`"from":"22:00","to":"+7:00"`), "invalid", "quiet_hours.to"},
		{"no time at all", quiet(`"from":"07:00","to":"07:00"`), "invalid", "quiet_hours.to"},
		{"for ever", quiet(`"from":"00:00","to":"24:00"`), "invalid", "quiet_hours"},
		{
			"for ever by days", quiet(`"from":"00:00","to":"24:00","days":["MO","TU","WE","TH","FR","SA","SU"]`),
			"invalid", "quiet_hours",
		},
		{"day", quiet(`"from":"22:00","to":"07:00","days":["Monday"]`), "invalid", "quiet_hours.days"},
		{"no days", quiet(`"from":"22:00","to":"07:00","days":[]`), "invalid", "quiet_hours.days"},
		{"many days", quiet(`"from":"22:00","to":"07:00","days":` + many(8, `"MO"`)), "invalid", "quiet_hours.days"},
		{"no channels", quiet(`"from":"22:00","to":"07:00","channels":[]`), "invalid", "quiet_hours.channels"},
		{"a channel", quiet(`"from":"22:00","to":"07:00","channels":["!"]`), "invalid", "quiet_hours.channels"},
		{"provider", `{"addresses":{"push":[{"provider":"gcm","token":"x"}]}}`, "invalid", "addresses.push.provider"},
		{"token", `{"addresses":{"push":[{"provider":"fcm","token":"a b"}]}}`, "invalid", "addresses.push.token"},
		{"no token", `{"addresses":{"push":[{"provider":"fcm"}]}}`, "invalid", "addresses.push.token"},
		{
			"many tokens", `{"addresses":{"push":` + many(MaxPushTokens+1, `{"provider":"fcm","token":"x"}`) + `}}`,
			"invalid", "addresses.push",
		},
		{"number", `{"addresses":{"sms":"0151 123"}}`, "invalid", "addresses.sms"},
		{"mail with a name", `{"addresses":{"email":"Ada <a@b.de>"}}`, "invalid", "addresses.email"},
		{"mail with a line", `{"addresses":{"email":"a@b.de\r\nBcc: c@d.de"}}`, "invalid", "addresses.email"},
		{"no mail", `{"addresses":{"email":"ada"}}`, "invalid", "addresses.email"},
		{"mail without ASCII", `{"addresses":{"email":"jürgen@b.de"}}`, "invalid", "addresses.email"},
		{"mail, a line of Unicode", `{"addresses":{"email":"a@b\u2028.de"}}`, "invalid", "addresses.email"},
		{"mail, a control of Unicode", `{"addresses":{"email":"a@b\u0085.de"}}`, "invalid", "addresses.email"},
		{"mail, reversed", `{"addresses":{"email":"a@b\u202ec.de"}}`, "invalid", "addresses.email"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(c.body), calendar.Embedded())
			var e *trigger.Error
			if !errors.As(err, &e) || string(e.Code) != c.code || e.Field != c.field || e.Msg == "" {
				t.Errorf("got %+v, want %s in %q", err, c.code, c.field)
			}
		})
	}
}

// The hint describes the field's own form, not that of another time.
func TestHintForATime(t *testing.T) {
	_, err := Decode([]byte(`{"timezone":"UTC","quiet_hours":{"from":"22:00","to":"7:00"}}`), calendar.Embedded())
	const hint = `"7:00" is not a local time; write hours and minutes with two digits`
	if err == nil || !strings.Contains(err.Error(), hint) {
		t.Error(err)
	}
}

// An address is kept as the user writes it, and sent to the name that DNS knows.
func TestASCIIMail(t *testing.T) {
	for address, want := range map[string]string{
		"ada@example.com": "ada@example.com", "ada@under_score.example": "ada@under_score.example",
		"ada@[192.0.2.1]": "ada@[192.0.2.1]", "ada@exämple.com": "ada@xn--exmple-cua.com",
		"ada@EXÄMPLE.com": "ada@xn--exmple-cua.com", "a@例え.テスト": "a@xn--r8jz45g.xn--zckzah",
		"jürgen@example.com": "", "ada@": "", "@example.com": "", "": "", "ada": "", "ada@b\u202ec.de": "",
		"a@" + strings.Repeat("ä.", 200) + "de": "",
	} {
		if got, ok := ASCIIMail(address); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q, %v, want %q", address, got, ok, want)
		}
	}
	p := decoded(t, `{"addresses":{"email":"ada@exämple.com"}}`)
	if p.Addresses.Email != "ada@exämple.com" {
		t.Errorf("kept as %q", p.Addresses.Email)
	}
}

func TestHint(t *testing.T) {
	_, err := Decode([]byte(`{"quiet_hour":{}}`), calendar.Embedded())
	if err == nil || !strings.Contains(err.Error(), "did you mean quiet_hours?") {
		t.Error(err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"nothing", `{}`, ``},
		{
			"nulls", `{"opted_out_channels":null,"timezone":null,"quiet_hours":null,"addresses":null,
				"notification_types":null,"locale":null}`, ``,
		},
		{
			"lower case, and once", `{"opted_out_channels":["SMS","sms","Push"]}`,
			`{"opted_out_channels":["sms","push"],"preferred_channels":[],"notification_types":{},"quiet_hours":{},` +
				`"addresses":{}}`,
		},
		{
			"everything", `{"timezone":"Asia/Tokyo","locale":"pt-BR","preferred_channels":["email"],
				"notification_types":{"b":{"Sms":false},"a":false,"c":{}},
				"quiet_hours":{"from":"22:00","to":"24:00","days":["sa","MO","SU"],"channels":["PUSH"]},
				"addresses":{"push":[{"provider":"apns","token":"t"}],"sms":"+4915112345678","email":"ada@example.com"}}`,
			`{"opted_out_channels":[],"preferred_channels":["email"],"notification_types":{"a":false,` +
				`"b":{"sms":false},"c":{}},"quiet_hours":{"from":"22:00","to":"24:00","days":["SU","MO","SA"],` +
				`"channels":["push"]},"addresses":{"push":[{"provider":"apns","token":"t"}],"sms":"+4915112345678",` +
				`"email":"ada@example.com"},"locale":"pt-BR","timezone":"Asia/Tokyo"}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := decoded(t, c.body)
			if c.want == "" {
				c.want = `{"opted_out_channels":[],"preferred_channels":[],"notification_types":{},` +
					`"quiet_hours":{},"addresses":{}}`
			}
			got := p.Encode()
			if string(got) != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if back := decoded(t, string(got)).Encode(); !bytes.Equal(back, got) {
				t.Errorf("read back it is %s", back)
			}
		})
	}
}

// A newer release may store fields that this one does not know.
func TestParseNewer(t *testing.T) {
	p, err := Parse([]byte(`{"opted_out_channels":["sms"],"caps":{"sms":3},"quiet_hours":{"from":"22:00","to":"07:00","x":1}}`))
	if err != nil || len(p.OptedOut) != 1 || p.Quiet == nil || p.Quiet.From != 22*60 {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestUser(t *testing.T) {
	for id, ok := range map[string]bool{
		"u_81": true, "ada@example.com": true, "a/b ü": true, "": false, "a\x00": false, "\xff": false,
		strings.Repeat("x", MaxUser): true, strings.Repeat("x", MaxUser+1): false,
	} {
		if err := (User{Tenant: "default", ID: id}).Check(); (err == nil) != ok {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// FuzzDecode checks that both readers read accepted input back as it was written, and that Decide
// accepts it. Refused input must have a typed error.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"opted_out_channels":["SMS"],"notification_types":{"m":{"sms":false},"n":true}}`,
		`{"timezone":"Europe/Berlin","quiet_hours":{"from":"22:00","to":"07:00","days":["MO"],"channels":["push"]}}`,
		`{"addresses":{"push":[{"provider":"fcm","token":"t"}],"sms":"+4915112345678","email":"a@b.de"},"locale":"de"}`,
		`{"locale":"de","locale":"de"}`, `{"notification_types":{"\u0000":1}}`, `[`, `{"a/b~":1}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Decode(b, calendar.Embedded())
		if err != nil {
			var e *trigger.Error
			if !errors.As(err, &e) || e.Code == "" || e.Msg == "" {
				t.Fatalf("%q: untyped %v", b, err)
			}
			return
		}
		text := p.Encode()
		reread, err := Decode(text, calendar.Embedded())
		if err != nil || !bytes.Equal(reread.Encode(), text) {
			t.Fatalf("%q: read back %v", text, err)
		}
		parsed, err := Parse(text)
		if err != nil || !bytes.Equal(parsed.Encode(), text) {
			t.Fatalf("%q: parsed %v", text, err)
		}
		p.Decide(Due{Channel: "push", Type: "m"}, instant(t, "2026-03-29T01:30:00Z"), calendar.Embedded())
	})
}
