package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What does not fit together in the settings of notifications is named.
func TestNotifySettings(t *testing.T) {
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const host, from = "providers.smtp.host", "providers.smtp.from"
	for _, c := range []struct {
		name string
		set  map[string]string
		want string // "" is right
	}{
		{"nothing", nil, ""},
		{"a server", map[string]string{host: "mx.example.com", from: "Reminders <remind@example.com>"}, ""},
		{"no sender", map[string]string{host: "mx.example.com"}, "providers.smtp.from"},
		{"a sender that is none", map[string]string{host: "mx.example.com", from: "remind"}, "is not a mail address"},
		{
			"a user without a password",
			map[string]string{
				host: "mx", from: "a@b.example",
				"providers.smtp.username": "u",
			},
			"providers.smtp.password: is unset",
		},
		{"a password in a file", map[string]string{
			host: "mx", from: "a@b.example", "providers.smtp.username": "u", "providers.smtp.password": "file:" +
				password,
		}, ""},
		{"a password file that is not there", map[string]string{
			host: "mx", from: "a@b.example", "providers.smtp.username": "u", "providers.smtp.password": "file:/none",
		}, "no such file"},
		{"a password without TLS", map[string]string{
			host: "mx", from: "a@b.example", "providers.smtp.username": "u", "providers.smtp.password": "hunter2",
			"providers.smtp.tls": "none",
		}, "not sent without TLS"},
		{"a password without TLS on loopback", map[string]string{
			host: "127.0.0.1", from: "a@b.example", "providers.smtp.username": "u",
			"providers.smtp.password": "hunter2",
			"providers.smtp.tls":      "none",
		}, ""},
		{"TLS that is none", map[string]string{"providers.smtp.tls": "ssl"}, "is not one of starttls, implicit, none"},
		{"a directory that is none", map[string]string{"templates.dir": password}, "is not a directory"},
		{"a role without a provider", map[string]string{"roles": "engine,push"}, "providers.fcm.credentials or"},
		{
			"mails without a server",
			map[string]string{"roles": "email"},
			"set providers.smtp.host or providers.outbox.dir",
		},
		{"a role with an outbox", map[string]string{"roles": "push,sms,email", "providers.outbox.dir": "x"}, ""},
	} {
		cfg, err := Load(Options{Flags: c.set})
		if err == nil {
			err = cfg.CheckServe()
		}
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s shows the password: %v", c.name, err)
		}
	}
}

// A new password in the file counts for the next connection.
func TestSMTPPassword(t *testing.T) {
	file := filepath.Join(t.TempDir(), "password")
	for _, key := range []string{"providers.smtp.password", "providers.smtp.password_file"} {
		value := file
		if key == "providers.smtp.password" {
			value = "file:" + file
		}
		for _, want := range []string{"one", "two"} {
			if err := os.WriteFile(file, []byte(want+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			c, err := Load(Options{Flags: map[string]string{key: value}})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(want+" changed\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := c.SMTPPassword(); err != nil || got != want+" changed" {
				t.Errorf("%s: %q, %v", key, got, err)
			}
		}
	}
}
