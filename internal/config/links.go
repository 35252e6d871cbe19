package config

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/egress"
)

// Ack is how links to acknowledge are made.
type Ack struct {
	Secret string // or two, separated by a comma
	TTL    time.Duration
}

// links is the part of the table with what stands in messages.
var links = section{"Links in messages", "", []Setting{
	{
		Key:  "public_url",
		into: func(c *Config, _ string) any { return &c.Public },
		Doc: "URL at which phones, mail readers and providers reach the API, such as `https://wc.example.com`. " +
			"Twilio's status callbacks and links begin with it. Unset means that there are none. Requests for its " +
			"host are allowed, as for those of `http.hosts`.",
	},
	{
		Key: "ack.secret", Secret: true,
		into: func(c *Config, _ string) any { return &c.Ack.Secret },
		Doc: "Seals the links by which somebody acknowledges or unsubscribes without a log-in: 16 bytes or more, " +
			"`env:NAME` or `file:PATH`. Two, separated by a comma, while one is rotated: the first seals, both are " +
			"read. Set it for workers and APIs alike. Unset means that there are no such links.",
	},
	{
		Key: "ack.ttl", Default: "7d", Min: "1m", Max: "365d",
		into: func(c *Config, _ string) any { return &c.Ack.TTL },
		Doc:  "How long a link to acknowledge (`ack.secret`) is good.",
	},
}}

const (
	ackSecret    = "ack.secret"
	minAckSecret = 16
)

// AckSecrets are those of the setting as they are now; none means that there are no links.
func (c *Config) AckSecrets() ([]string, error) {
	if c.Ack.Secret == "" {
		return nil, nil
	}
	text, err := c.ReadSecret(ackSecret, c.Ack.Secret)
	if err != nil {
		return nil, err
	}
	list := splitList(text)
	if len(list) == 0 || len(list) > 2 {
		return nil, fmt.Errorf("%s: has %d secrets: one, or two while one is rotated", ackSecret, len(list))
	}
	for i, ref := range list {
		if list[i], err = dereference(ref); err != nil {
			return nil, fmt.Errorf("%s: %w", ackSecret, err)
		}
		if len(list[i]) < minAckSecret {
			return nil, fmt.Errorf("%s: is shorter than %d bytes: `openssl rand -hex 32` makes one", ackSecret,
				minAckSecret)
		}
	}
	return list, nil
}

// AckFiles are the files with secrets of links.
func (c *Config) AckFiles() []string {
	if file := c.secretFiles[ackSecret]; file != "" {
		return []string{file}
	}
	return filesIn(c.Ack.Secret)
}

func (l *loader) checkLinks() {
	if text := l.c.Public; text != "" {
		if _, err := egress.ParseBase(text); err != nil {
			l.at("public_url", "%v", err)
		}
	}
	l.unreadable(ackSecret, second(l.c.AckSecrets()))
}
