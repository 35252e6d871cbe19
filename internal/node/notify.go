package node

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
	"github.com/waterclock/waterclock/sinks/notify/templates"
	"github.com/waterclock/waterclock/topics"
)

// notifiers holds the roles push, sms and email of a process.
type notifiers struct {
	workers   map[string]*notify.Worker // by channel
	providers []notify.Provider         // all open providers
	outbox    *providers.Outbox         // nil without one; one outbox serves every channel
	set       *providers.Set            // the providers of push and SMS; nil with an outbox
	texts     atomic.Pointer[templates.Set]
}

// runProviders adds the roles for which dev has a provider.
func runProviders(c *config.Config) {
	for _, channel := range topics.NotificationChannels {
		if c.HasProvider(channel) && !c.HasRole(channel) {
			c.Roles = append(c.Roles, channel)
		}
	}
}

// openNotify creates the workers of the roles.
func (n *node) openNotify() error {
	s := &notifiers{workers: map[string]*notify.Worker{}}
	for _, channel := range topics.NotificationChannels {
		if !n.cfg.HasRole(channel) {
			continue
		}
		n.notifiers = s
		if err := n.openNotifier(s, channel); err != nil {
			return errors.Join(err, s.close())
		}
	}
	if n.notifiers == nil {
		return nil
	}
	return n.loadTemplates()
}

func (n *node) openNotifier(s *notifiers, channel string) error {
	open, err := n.openProviders(s, channel)
	if err != nil {
		return &SettingError{err.Error()}
	}
	s.workers[channel], err = notify.New(notify.Options{
		Channel: channel, Kafka: n.clients, Kit: n.kitOptions(channel), Providers: open, Consent: n.consent(channel),
		Book: n.preferences, Templates: s.texts.Load, Zones: n.zones, Concurrency: n.cfg.Worker.Concurrency,
		AckURL: n.ackURL, UnsubscribeURL: n.unsubscribeURL, Logger: n.log.With("role", channel),
	})
	return err
}

// openProviders opens the providers of a channel. With an outbox, nothing leaves this machine.
func (n *node) openProviders(s *notifiers, channel string) (open []notify.Provider, err error) {
	c := n.cfg
	switch {
	case c.Outbox.Dir != "":
		if s.outbox == nil {
			if s.outbox, err = providers.NewOutbox(providers.OutboxOptions{
				Dir:    c.Outbox.Dir,
				Logger: n.log,
			}); err != nil {
				return nil, err
			}
			s.providers = append(s.providers, s.outbox)
			n.log.Info("notifications are written to a folder and not sent", "dir", c.Outbox.Dir)
		}
		return n.counted(s.outbox), nil
	case channel == "push" || channel == "sms":
		if s.set == nil {
			if s.set, err = providers.Open(c, providers.HTTP{UserAgent: userAgent(n.opts.Version)}); err != nil {
				return nil, err
			}
			s.providers = append(s.providers, s.set.All("push")...)
			s.providers = append(s.providers, s.set.All("sms")...)
		}
		return n.counted(s.set.All(channel)...), nil
	case channel == "email" && c.SMTP.Host != "":
		mails, err := providers.NewSMTP(providers.SMTPOptions{
			Host: c.SMTP.Host, Port: c.SMTP.Port, TLS: c.SMTP.TLS, From: c.SMTP.From, Username: c.SMTP.Username,
			Password: c.SMTPPassword, Connections: c.SMTP.Connections, Shared: c.HasAuth(),
		})
		if err != nil {
			return nil, err
		}
		s.providers = append(s.providers, mails)
		return n.counted(mails), nil
	}
	return nil, nil
}

// counted wraps providers so that metrics count their answers.
func (n *node) counted(all ...notify.Provider) (out []notify.Provider) {
	for _, p := range all {
		out = append(out, providers.Counted(p, n.metrics.ProviderAnswered))
	}
	return out
}

// loadTemplates reads the templates, at the start and after each change.
func (n *node) loadTemplates() error {
	if n.cfg.Templates.Dir == "" {
		return nil
	}
	set, err := templates.Load(n.cfg.Templates.Dir)
	if err == nil {
		n.notifiers.texts.Store(set)
	}
	return err
}

// startNotify starts the worker of each channel.
func (n *node) startNotify(life *roles) {
	if n.notifiers == nil {
		return
	}
	for _, channel := range topics.NotificationChannels {
		if w := n.notifiers.workers[channel]; w != nil {
			life.start(channel, func(ctx context.Context) error { return w.Run(ctx) })
		}
	}
}

func (n *node) closeNotify() {
	if n.notifiers == nil {
		return
	}
	if err := n.notifiers.close(); err != nil {
		n.log.Warn("closing a provider failed", "error", err)
	}
}

func (s *notifiers) close() error {
	var errs []error
	for _, p := range s.providers {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
