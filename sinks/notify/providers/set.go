package providers

import (
	"errors"
	"fmt"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/sinks/notify"
)

// Set has the providers of push and SMS in the settings. A field is nil if the settings do not
// have that provider.
type Set struct {
	FCM    *FCM
	APNs   *APNs
	Twilio *Twilio
}

// Open makes the providers of the settings. h sets their URL.
func Open(c *config.Config, h HTTP) (*Set, error) {
	s := new(Set)
	var errs [3]error
	if c.FCM.Credentials != "" {
		s.FCM, errs[0] = openFCM(c, h)
	}
	if c.APNs.Key != "" {
		s.APNs, errs[1] = openAPNs(c, h)
	}
	if c.Twilio.AuthToken != "" {
		s.Twilio, errs[2] = openTwilio(c, h)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return s, nil
}

func openFCM(c *config.Config, h HTTP) (*FCM, error) {
	credentials, err := c.FCMCredentials()
	if err != nil {
		return nil, err
	}
	h.URL = c.FCM.URL
	f, err := NewFCM(FCMOptions{HTTP: h, Project: c.FCM.Project, Credentials: []byte(credentials)})
	if err != nil {
		return nil, fmt.Errorf("providers.fcm: %w", err)
	}
	return f, nil
}

func openAPNs(c *config.Config, h HTTP) (*APNs, error) {
	key, err := c.APNsKey()
	if err != nil {
		return nil, err
	}
	h.URL = c.APNs.URL
	a, err := NewAPNs(APNsOptions{
		HTTP: h, Key: []byte(key), KeyID: c.APNs.KeyID, TeamID: c.APNs.TeamID, Topic: c.APNs.Topic,
	})
	if err != nil {
		return nil, fmt.Errorf("providers.apns: %w", err)
	}
	return a, nil
}

func openTwilio(c *config.Config, h HTTP) (*Twilio, error) {
	tokens, err := c.TwilioTokens()
	if err != nil {
		return nil, err
	}
	h.URL = c.Twilio.URL
	t, err := NewTwilio(TwilioOptions{
		HTTP: h, AccountSID: c.Twilio.AccountSID, AuthToken: tokens[0], From: c.Twilio.From,
		MessagingService: c.Twilio.MessagingService, PublicURL: c.Public,
	})
	if err != nil {
		return nil, fmt.Errorf("providers.twilio: %w", err)
	}
	return t, nil
}

// All returns the providers of one channel, push or sms.
func (s *Set) All(channel string) (list []notify.Provider) {
	if channel == "push" && s.FCM != nil {
		list = append(list, s.FCM)
	}
	if channel == "push" && s.APNs != nil {
		list = append(list, s.APNs)
	}
	if channel == "sms" && s.Twilio != nil {
		list = append(list, s.Twilio)
	}
	return list
}

// Reload reads the credentials from their files. If a file is invalid, its provider keeps the old
// ones.
func (s *Set) Reload(c *config.Config) error {
	var errs [3]error
	if s.FCM != nil {
		errs[0] = reload("providers.fcm", c.FCMCredentials, func(text string) error {
			return s.FCM.Replace([]byte(text))
		})
	}
	if s.APNs != nil {
		errs[1] = reload("providers.apns", c.APNsKey, func(text string) error {
			return s.APNs.Replace([]byte(text))
		})
	}
	if s.Twilio != nil {
		errs[2] = reload("providers.twilio", c.TwilioTokens, func(list []string) error {
			return s.Twilio.Replace(list[0])
		})
	}
	return errors.Join(errs[:]...)
}

func reload[T any](name string, read func() (T, error), replace func(T) error) error {
	value, err := read()
	if err != nil {
		return err
	}
	if err := replace(value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Close closes all providers.
func (s *Set) Close() error {
	var errs []error
	for _, channel := range []string{"push", "sms"} {
		for _, p := range s.All(channel) {
			errs = append(errs, p.Close())
		}
	}
	return errors.Join(errs...)
}
