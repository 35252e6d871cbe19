package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/waterclock/waterclock/internal/egress"
)

// FCM is Firebase Cloud Messaging. It is configured if Credentials are set.
type FCM struct {
	Project     string // "" means that of the credentials
	Credentials string // env:NAME or file:PATH
	URL         string // "" means Google's
}

// APNs is the Apple Push Notification service. It is configured if Key is set.
type APNs struct {
	Key    string // env:NAME or file:PATH
	KeyID  string
	TeamID string
	Topic  string
	URL    string // "" means Apple's server of production
}

// Twilio sends SMS. It is configured if AuthToken is set.
type Twilio struct {
	AccountSID       string
	AuthToken        string // env:NAME or file:PATH
	From             string
	MessagingService string
	URL              string // "" means Twilio's
}

// pushAndSMS is the part of the table with the providers of push and SMS.
var pushAndSMS = section{
	"Push and SMS", "A provider is used if its credentials are set. They are `env:NAME` or `file:PATH`; a file is " +
		"read again when it changes.", []Setting{
		{
			Key: "providers.fcm.credentials", Secret: true,
			into: func(c *Config, _ string) any { return &c.FCM.Credentials },
			Doc:  "Key file of a Google service account with the right to send by Firebase Cloud Messaging.",
		},
		{
			Key:  "providers.fcm.project",
			into: func(c *Config, _ string) any { return &c.FCM.Project },
			Doc:  "Id of the Firebase project. Unset means that of the credentials.",
		},
		{
			Key:  "providers.fcm.url",
			into: func(c *Config, _ string) any { return &c.FCM.URL },
			Doc:  "Base URL in place of `https://fcm.googleapis.com`: https, or http on loopback.",
		},
		{
			Key: "providers.apns.key", Secret: true,
			into: func(c *Config, _ string) any { return &c.APNs.Key },
			Doc:  "Signing key of the Apple Push Notification service: the `.p8` file.",
		},
		{
			Key:  "providers.apns.key_id",
			into: func(c *Config, _ string) any { return &c.APNs.KeyID },
			Doc:  "Id of the key: ten characters.",
		},
		{
			Key:  "providers.apns.team_id",
			into: func(c *Config, _ string) any { return &c.APNs.TeamID },
			Doc:  "Id of the developer team: ten characters.",
		},
		{
			Key:  "providers.apns.topic",
			into: func(c *Config, _ string) any { return &c.APNs.Topic },
			Doc:  "Bundle id of the app.",
		},
		{
			Key:  "providers.apns.url",
			into: func(c *Config, _ string) any { return &c.APNs.URL },
			Doc: "Base URL in place of `https://api.push.apple.com`; `https://api.sandbox.push.apple.com` for builds " +
				"of development.",
		},
		{
			Key:  "providers.twilio.account_sid",
			into: func(c *Config, _ string) any { return &c.Twilio.AccountSID },
			Doc:  "SID of the Twilio account: `AC` and 32 hexadecimal digits.",
		},
		{
			Key: "providers.twilio.auth_token", Secret: true,
			into: func(c *Config, _ string) any { return &c.Twilio.AuthToken },
			Doc: "Auth token of the account. Two, separated by a comma, while one is rotated: the first sends, both " +
				"verify status callbacks. Set it for SMS workers and APIs alike.",
		},
		{
			Key:  "providers.twilio.from",
			into: func(c *Config, _ string) any { return &c.Twilio.From },
			Doc:  "Number or name that sends.",
		},
		{
			Key:  "providers.twilio.messaging_service_sid",
			into: func(c *Config, _ string) any { return &c.Twilio.MessagingService },
			Doc:  "SID of a messaging service that chooses the sender, in place of `from`.",
		},
		{
			Key:  "providers.twilio.url",
			into: func(c *Config, _ string) any { return &c.Twilio.URL },
			Doc:  "Base URL in place of `https://api.twilio.com`: https, or http on loopback.",
		},
	},
}

// The keys of credentials.
const (
	fcmCredentials = "providers.fcm.credentials"
	apnsKey        = "providers.apns.key"
	twilioToken    = "providers.twilio.auth_token" //nolint:gosec // the name of a setting
)

// FCMCredentials is the key file as it is now.
func (c *Config) FCMCredentials() (string, error) {
	return c.credential(fcmCredentials, c.FCM.Credentials)
}

// APNsKey is the signing key as it is now.
func (c *Config) APNsKey() (string, error) { return c.credential(apnsKey, c.APNs.Key) }

// TwilioTokens are the auth tokens as they are now: one that sends, and perhaps one more
// that verifies. None means that Twilio is not configured.
func (c *Config) TwilioTokens() ([]string, error) {
	if c.Twilio.AuthToken == "" {
		return nil, nil
	}
	text, err := c.ReadSecret(twilioToken, c.Twilio.AuthToken)
	if err != nil {
		return nil, err
	}
	list := splitList(text)
	if len(list) == 0 || len(list) > 2 {
		return nil, fmt.Errorf("%s: has %d tokens: one, or two while one is rotated", twilioToken, len(list))
	}
	for i, ref := range list {
		if list[i], err = dereference(ref); err != nil {
			return nil, fmt.Errorf("%s: %w", twilioToken, err)
		}
	}
	return list, nil
}

// credential is the value of a setting that is a reference, or whose file is named.
func (c *Config) credential(key, text string) (string, error) {
	text, err := c.ReadSecret(key, text)
	if err == nil {
		text, err = dereference(text)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return text, nil
}

// ProviderFiles are the files with credentials of providers, which may change while a process
// runs.
func (c *Config) ProviderFiles() (files []string) {
	for key, text := range map[string]string{
		fcmCredentials: c.FCM.Credentials, apnsKey: c.APNs.Key, twilioToken: c.Twilio.AuthToken,
	} {
		if file := c.secretFiles[key]; file != "" {
			files = append(files, file)
			continue
		}
		files = append(files, filesIn(text)...)
	}
	return files
}

// Ten characters of Apple's, and an account of Twilio's.
var (
	appleID   = regexp.MustCompile(`^[A-Z0-9]{10}$`)
	twilioSID = regexp.MustCompile(`^AC[0-9a-fA-F]{32}$`)
)

// checkPushAndSMS finds a provider of which only a part is set, and credentials that are not
// there.
func (l *loader) checkPushAndSMS() {
	for key, text := range map[string]string{
		"providers.fcm.url": l.c.FCM.URL, "providers.apns.url": l.c.APNs.URL,
		"providers.twilio.url": l.c.Twilio.URL,
	} {
		if text == "" {
			continue
		}
		if _, err := egress.ParseBase(text); err != nil {
			l.at(key, "%v", err)
		}
	}
	l.checkFCM()
	l.checkAPNs()
	l.checkTwilio()
}

func (l *loader) checkFCM() {
	switch f := l.c.FCM; {
	case f.Credentials != "":
		l.unreadable(fcmCredentials, second(l.c.FCMCredentials()))
	case f.Project != "" || f.URL != "":
		l.at(fcmCredentials, "is unset, but other settings of providers.fcm are set: name the service account's key "+
			"file, such as file:/etc/waterclock/fcm.json")
	}
}

func (l *loader) checkAPNs() {
	a := l.c.APNs
	if a == (APNs{}) {
		return
	}
	if a.Key == "" {
		l.at(apnsKey, "is unset, but other settings of providers.apns are set: name the .p8 file, such as "+
			"file:/etc/waterclock/apns.p8")
	} else {
		l.unreadable(apnsKey, second(l.c.APNsKey()))
	}
	for key, id := range map[string]string{"providers.apns.key_id": a.KeyID, "providers.apns.team_id": a.TeamID} {
		if !appleID.MatchString(id) {
			l.at(key, "%q is not valid: write the ten capital letters and digits that Apple's developer account "+
				"shows", id)
		}
	}
	if a.Topic == "" {
		l.at("providers.apns.topic", "is unset: name the bundle id of the app, such as com.example.app")
	}
}

func (l *loader) checkTwilio() {
	t := l.c.Twilio
	if t == (Twilio{}) {
		return
	}
	if t.AuthToken == "" {
		l.at(twilioToken, "is unset, but other settings of providers.twilio are set: write env:NAME or file:PATH")
	} else {
		l.unreadable(twilioToken, second(l.c.TwilioTokens()))
	}
	if !twilioSID.MatchString(t.AccountSID) {
		l.at("providers.twilio.account_sid", "%q is not valid: write AC and 32 hexadecimal digits", t.AccountSID)
	}
	switch {
	case t.From == "" && t.MessagingService == "":
		l.at("providers.twilio.from", "is unset: name the number that sends, or set messaging_service_sid")
	case t.From != "" && t.MessagingService != "":
		l.at("providers.twilio.from", "is set, and so is messaging_service_sid: set only one, which chooses the sender")
	}
}

// unreadable reports why a credential cannot be read; the error begins with its key.
func (l *loader) unreadable(key string, err error) {
	if err != nil {
		l.at(key, "%s", strings.TrimPrefix(err.Error(), key+": "))
	}
}

func second[T any](_ T, err error) error { return err }

// filesIn are the files that a list of references names.
func filesIn(text string) (files []string) {
	for _, ref := range splitList(text) {
		if path, ok := strings.CutPrefix(ref, fileRef); ok {
			files = append(files, path)
		}
	}
	return files
}
