package config

import (
	"strings"
	"sync"
)

// section is a heading of the documentation with its settings.
type section struct {
	Title, Intro string
	Settings     []Setting
}

// sections is the table: every setting there is, once. Each section has a file of its own
// (table_*.go). They are in the order of the documentation.
var sections = []section{
	basicSection,
	listenerSection,
	kafkaSection,
	topicSection,
	engineSection,
	channelSection,
	tenantSection,
	webhookSection,
	notifySection,
	endpointSection,
	links,
	pushAndSMS,
	historySection,
	exportSection,
	loggingSection,
}

// delivered is a default for the built-in channels, whose workers answer with
// receipts and read a high lane (docs/SEMANTICS.md).
func delivered(text string) map[string]string {
	return map[string]string{"webhook": text, "push": text, "sms": text, "email": text}
}

// Settings lists the table in the order of the documentation.
func Settings() []*Setting { return rows }

var rows = func() (all []*Setting) {
	for i := range sections {
		for j := range sections[i].Settings {
			all = append(all, &sections[i].Settings[j])
		}
	}
	return all
}()

// Doc says what a setting is, in plain text. It is "" for a key that is no setting.
func Doc(key string) string {
	s, _ := find(key)
	if s == nil {
		return ""
	}
	return strings.ReplaceAll(s.Doc, "`", "")
}

// find is the row of a key, and the name in it. An exact key is found before
// a pattern, so channels.auto_create is no channel.
func find(key string) (row *Setting, name string) {
	for _, s := range rows {
		if s.Key == key && !s.Named() {
			return s, ""
		}
	}
	for _, s := range rows {
		if name, ok := s.match(key); ok && s.Named() {
			return s, name
		}
	}
	return nil, ""
}

// channel is the settings of a channel, made with its defaults when first
// asked for.
func (c *Config) channel(name string) *Channel {
	if c.Channels == nil {
		c.Channels = map[string]*Channel{}
	}
	if c.Channels[name] == nil {
		c.Channels[name] = &Channel{}
	}
	return c.Channels[name]
}

func (c *Config) tenant(name string) *Tenant {
	if c.Tenants == nil {
		c.Tenants = map[string]*Tenant{}
	}
	if c.Tenants[name] == nil {
		c.Tenants[name] = &Tenant{}
	}
	return c.Tenants[name]
}

func (c *Config) endpoint(origin string) *Endpoint {
	if c.Endpoints == nil {
		c.Endpoints = map[string]*Endpoint{}
	}
	if c.Endpoints[origin] == nil {
		c.Endpoints[origin] = &Endpoint{}
	}
	return c.Endpoints[origin]
}

// defaultChannel is the same for every name that is not built in, and asked for with
// every register.
func (c *Config) defaultChannel(name string) *Channel {
	if !BuiltIn(name) {
		name = "any"
	}
	known := &anyChannels
	if c.dev {
		known = &devChannels
	}
	if ch, ok := known.Load(name); ok {
		return ch.(*Channel)
	}
	d := &Config{dev: c.dev}
	d.fillNamed("channels.", name)
	ch, _ := known.LoadOrStore(name, d.channel(name))
	return ch.(*Channel)
}

// anyChannels and devChannels are defaults by name, of serve and of dev. Parsing them for
// each register was more than half of what a flood of registers allocated.
var anyChannels, devChannels sync.Map

// defaultTenant is the same for every name, and asked for with every request.
func (c *Config) defaultTenant() *Tenant {
	if c.dev {
		return devTenant()
	}
	return anyTenant()
}

var anyTenant, devTenant = makeTenant(false), makeTenant(true)

func makeTenant(dev bool) func() *Tenant {
	return sync.OnceValue(func() *Tenant {
		d := &Config{dev: dev}
		d.fillNamed("tenants.", "any")
		return d.tenant("any")
	})
}
