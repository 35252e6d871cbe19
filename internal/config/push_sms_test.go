package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	fcmYAML    = "providers: {fcm: {credentials: 'env:PUSH_SECRET'}}"
	apnsYAML   = "providers: {apns: {key: 'env:PUSH_SECRET', key_id: ABC123DEFG, team_id: DEF123GHIJ, topic: a.b}}"
	twilioYAML = "providers: {twilio: {account_sid: AC0123456789abcdef0123456789abcdef, " +
		"auth_token: 'env:PUSH_SECRET', from: '+15017122661'}}"
)

func TestPushAndSMSSettings(t *testing.T) {
	t.Setenv("PUSH_SECRET", "marked-one")
	fcm, apns, token := write(t, "fcm.json", "{}\n"), write(t, "a.p8", "key\n"), write(t, "token", "marked-two\n")
	c, err := Load(Options{File: write(t, "w.yaml", `
public_url: https://wc.example.com/base
providers:
  fcm: {credentials: "file:`+fcm+`", project: p1, url: "http://127.0.0.1:9000"}
  apns: {key_file: "`+apns+`", key_id: ABC123DEFG, team_id: DEF123GHIJ, topic: com.example.app}
  twilio: {account_sid: AC0123456789abcdef0123456789abcdef, auth_token: "env:PUSH_SECRET,file:`+token+`", from: Acme}
`)})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.FCMCredentials(); text != "{}" || err != nil {
		t.Error(text, err)
	}
	if text, err := c.APNsKey(); text != "key" || err != nil {
		t.Error(text, err)
	}
	if list, err := c.TwilioTokens(); !slices.Equal(list, []string{"marked-one", "marked-two"}) || err != nil {
		t.Error(list, err)
	}
	files := c.ProviderFiles()
	slices.Sort(files)
	if want := slices.Sorted(slices.Values([]string{fcm, apns, token})); !slices.Equal(files, want) {
		t.Error(files, want)
	}
	if shown := fmt.Sprint(c.Values()); strings.Contains(shown, "marked") {
		t.Error(shown)
	}
	if c, err = Load(Options{}); err != nil {
		t.Fatal(err)
	}
	if list, err := c.TwilioTokens(); list != nil || err != nil || c.ProviderFiles() != nil {
		t.Error("something is configured by default:", list, err, c.ProviderFiles())
	}
}

func TestAckSettings(t *testing.T) {
	t.Setenv("ACK_ONE", "marked-0123456789")
	file := write(t, "ack", "marked-9876543210\n")
	c, err := Load(Options{File: write(t, "w.yaml", `ack: {secret: "env:ACK_ONE,file:`+file+`"}`)})
	if err != nil {
		t.Fatal(err)
	}
	list, err := c.AckSecrets()
	if !slices.Equal(list, []string{"marked-0123456789", "marked-9876543210"}) || err != nil ||
		c.Ack.TTL != 7*24*time.Hour {
		t.Error(list, err, c.Ack.TTL)
	}
	if files := c.AckFiles(); !slices.Equal(files, []string{file}) {
		t.Error(files)
	}
	if shown := fmt.Sprint(c.Values()); strings.Contains(shown, "marked") {
		t.Error(shown)
	}
}

func TestPushAndSMSProblems(t *testing.T) {
	t.Setenv("PUSH_SECRET", "marked-secret")
	for _, c := range []struct{ name, yaml, want string }{
		{"FCM without credentials", "providers: {fcm: {project: p1}}", "providers.fcm.credentials"},
		{"FCM's file", "providers: {fcm: {credentials: 'file:/nowhere/fcm.json'}}", "/nowhere/fcm.json"},
		{"plain http", strings.Replace(fcmYAML, "}}", ", url: 'http://a.example'}}", 1), "must begin with https://"},
		{"public URL", "public_url: wc.example.com", "public_url"},
		{"a short ack secret", "ack: {secret: marked}", "ack.secret"},
		{"an ack secret that is not there", "ack: {secret: 'env:NO_SUCH_NAME'}", "NO_SUCH_NAME is unset"},
		{"three ack secrets", "ack: {secret: 'marked,marked,marked'}", "has 3 secrets"},
		{"APNs without a key", "providers: {apns: {topic: a.b}}", "providers.apns.key"},
		{"APNs' key id", strings.Replace(apnsYAML, "ABC123DEFG", "abc", 1), "providers.apns.key_id"},
		{"APNs' team", strings.Replace(apnsYAML, "team_id: DEF123GHIJ, ", "", 1), "providers.apns.team_id"},
		{"APNs' topic", strings.Replace(apnsYAML, ", topic: a.b", "", 1), "providers.apns.topic"},
		{"Twilio without a token", "providers: {twilio: {from: Acme}}", "providers.twilio.auth_token"},
		{"Twilio's token", strings.Replace(twilioYAML, "PUSH_SECRET", "NO_SUCH_NAME", 1), "NO_SUCH_NAME is unset"},
		{
			"three tokens", strings.Replace(twilioYAML, "env:PUSH_SECRET", "marked,marked,marked", 1),
			"has 3 tokens",
		},
		{"Twilio's account", strings.Replace(twilioYAML, "AC0123", "AC", 1), "providers.twilio.account_sid"},
		{"no sender", strings.Replace(twilioYAML, ", from: '+15017122661'", "", 1), "messaging_service_sid"},
		{"two senders", strings.Replace(twilioYAML, "from:", "messaging_service_sid: MG1, from:", 1), "set only one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Options{File: write(t, "bad.yaml", c.yaml)})
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "marked") {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
	for _, yaml := range []string{fcmYAML, apnsYAML, twilioYAML} {
		if _, err := Load(Options{File: write(t, "good.yaml", yaml)}); err != nil {
			t.Errorf("%s: %v", yaml, err)
		}
	}
}
