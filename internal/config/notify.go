package config

import (
	"net/mail"
	"os"
	"strings"

	"github.com/waterclock/waterclock/topics"
)

// SMTP is the mail server of channel email.
type SMTP struct {
	Host, TLS      string
	Port           int
	From, Username string
	Password       string // or env:, file:
	Connections    int
}

// Outbox is the folder that messages are written to in place of being sent.
type Outbox struct{ Dir string }

// Templates are the texts of notifications.
type Templates struct{ Dir string }

// notifySection has what push, SMS and mail share, and providers outbox and smtp.
var notifySection = section{
	"Notifications",
	"Channels push, sms and email need a provider each, and their role (`serve --roles push,sms,email`; `dev` runs " +
		"those that have a provider).",
	[]Setting{
		{
			Key:  "templates.dir",
			into: func(c *Config, _ string) any { return &c.Templates.Dir },
			Doc: "Directory with the templates that payloads name in `template_id`: files `ID.tmpl` and " +
				"`ID.LOCALE.tmpl`. They are read again when they change.",
		},
		{
			Key: "worker.concurrency", Default: "64", Min: "1", Max: "10000",
			into: func(c *Config, _ string) any { return &c.Worker.Concurrency },
			Doc:  "Most messages of one channel that a process sends at a time: push, sms, email.",
		},
		{
			Key:  "providers.outbox.dir",
			into: func(c *Config, _ string) any { return &c.Outbox.Dir },
			Doc: "Folder that push, SMS and mail are written to, in place of being sent: a file for each message and " +
				"`index.html`. The newest 1,000 are kept, and of these at most 32 MiB. `dev --outbox DIR` sets it.",
		},
		{
			Key:  "providers.smtp.host",
			into: func(c *Config, _ string) any { return &c.SMTP.Host },
			Doc:  "Mail server that channel email sends by. Unset: none.",
		},
		{
			Key: "providers.smtp.port", Default: "587", Min: "1", Max: "65535",
			into: func(c *Config, _ string) any { return &c.SMTP.Port },
			Doc:  "Its port. 465 is usual with `providers.smtp.tls: implicit`.",
		},
		{
			Key: "providers.smtp.tls", Default: "starttls", OneOf: []string{"starttls", "implicit", "none"},
			into: func(c *Config, _ string) any { return &c.SMTP.TLS },
			Doc: "How connections to it are encrypted. `starttls` sends nothing to a server without STARTTLS. With " +
				"`none`, a user name is allowed on loopback only.",
		},
		{
			Key:  "providers.smtp.from",
			into: func(c *Config, _ string) any { return &c.SMTP.From },
			Doc:  "Sender of mails: `remind@example.com`, or `Reminders <remind@example.com>`.",
		},
		{
			Key:  "providers.smtp.username",
			into: func(c *Config, _ string) any { return &c.SMTP.Username },
			Doc:  "User name at the mail server. Unset: no log-in.",
		},
		{
			Key: "providers.smtp.password", Secret: true,
			into: func(c *Config, _ string) any { return &c.SMTP.Password },
			Doc:  "Its password, `env:NAME` or `file:PATH`. It is read for each connection.",
		},
		{
			Key: "providers.smtp.connections", Default: "8", Min: "1", Max: "1000",
			into: func(c *Config, _ string) any { return &c.SMTP.Connections },
			Doc: "Most connections to the mail server of one process. Each carries up to 100 mails. " +
				"Where callers log in, one tenant may have half of them.",
		},
	},
}

// SMTPPassword is the password as it is now.
func (c *Config) SMTPPassword() (string, error) {
	text, err := c.ReadSecret("providers.smtp.password", c.SMTP.Password)
	if err != nil {
		return "", err
	}
	return dereference(text)
}

// ProviderSettings are the settings of which a channel needs one; none for other
// channels.
func ProviderSettings(channel string) []string {
	switch channel {
	case "email":
		return []string{"providers.smtp.host", "providers.outbox.dir"}
	case "push":
		return []string{"providers.fcm.credentials", "providers.apns.key", "providers.outbox.dir"}
	case "sms":
		return []string{"providers.twilio.auth_token", "providers.outbox.dir"}
	}
	return nil
}

// HasProvider says whether somebody sends the messages of a channel.
func (c *Config) HasProvider(channel string) bool {
	switch {
	case c.Outbox.Dir != "":
		return true
	case channel == "push":
		return c.FCM.Credentials != "" || c.APNs.Key != ""
	case channel == "sms":
		return c.Twilio.AuthToken != ""
	}
	return channel == "email" && c.SMTP.Host != ""
}

// checkProviders finds a role that nobody would send for.
func (l *loader) checkProviders() {
	for _, role := range topics.NotificationChannels {
		if l.c.HasRole(role) && !l.c.HasProvider(role) {
			l.at("roles", "has %s, but it has no provider: set %s", role, strings.Join(ProviderSettings(role), " or "))
		}
	}
}

// checkNotify finds what does not fit together in one provider's settings.
func (l *loader) checkNotify() {
	s := l.c.SMTP
	if s.Host == "" {
		return
	}
	if _, err := mail.ParseAddress(s.From); err != nil {
		l.at("providers.smtp.from", "%q is not a mail address: write remind@example.com, or Reminders "+
			"<remind@example.com>", s.From)
	}
	if s.Username == "" {
		return
	}
	if s.TLS == "none" && !loopbackHost(s.Host) {
		l.at("providers.smtp.tls", "is none, but a password is not sent without TLS: write starttls or implicit, or "+
			"unset providers.smtp.username")
	}
	if s.Password == "" {
		l.at("providers.smtp.password", "is unset, but providers.smtp.username is not")
		return
	}
	if _, err := l.c.SMTPPassword(); err != nil {
		l.at("providers.smtp.password", "%v", err)
	}
}

// checkTemplates finds a directory that is none.
func (l *loader) checkTemplates() {
	dir := l.c.Templates.Dir
	if dir == "" {
		return
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		l.at("templates.dir", "%s is not a directory", dir)
	}
}
