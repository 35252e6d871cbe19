package node

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/gateway/acklink"
	"github.com/waterclock/waterclock/gateway/unsubscribe"
)

// twilioCallbacks returns what the gateway needs to check Twilio's status callbacks. It returns
// nil if Twilio has no callback URL.
func (n *node) twilioCallbacks() (*gateway.TwilioCallbacks, error) {
	if n.cfg.Public == "" || n.cfg.Twilio.AuthToken == "" {
		return nil, nil
	}
	if err := n.loadTwilioTokens(); err != nil {
		return nil, err
	}
	return &gateway.TwilioCallbacks{
		PublicURL: n.cfg.Public, Tokens: func() []string { return *n.twilioTokens.Load() },
	}, nil
}

// loadTwilioTokens reads the auth tokens from their file.
func (n *node) loadTwilioTokens() error {
	tokens, err := n.cfg.TwilioTokens()
	if err == nil {
		n.twilioTokens.Store(&tokens)
	}
	return err
}

// devAckSecretFile holds the secret of acknowledge links that dev generated.
const devAckSecretFile = "ack.secret"

// devLinks gives dev links to acknowledge and to unsubscribe. Unless public_url says at which URL
// dev is reached, the links work in a browser on this machine. It adds no URL if Twilio is
// configured, because Twilio would refuse such a URL. Without ack.secret dev generates one.
func (n *node) devLinks(url string) error {
	if n.cfg.Public == "" && n.cfg.Twilio.AuthToken == "" {
		n.cfg.Public = url
	}
	if n.cfg.Public == "" || n.cfg.Ack.Secret != "" {
		return nil
	}
	file, err := n.ownSecret(devAckSecretFile, "")
	if err != nil {
		return fmt.Errorf("keep the secret of links to acknowledge: %w", err)
	}
	n.cfg.Ack.Secret = "file:" + file
	return nil
}

// ackURL returns the link with which the receiver of a due event acknowledges it. It returns ""
// without public_url or ack.secret.
func (n *node) ackURL(e *worker.DueEvent) string {
	secrets := n.ackSecrets.Load()
	if secrets == nil {
		return ""
	}
	return acklink.URL(n.cfg.Public, *secrets, acklink.Link{DueID: e.ID, Expires: time.Now().Add(n.cfg.Ack.TTL)})
}

// unsubscribeURL returns the link of a mail with which its user opts out. It returns "" without
// public_url, ack.secret or stored preferences.
func (n *node) unsubscribeURL(e *worker.DueEvent) string {
	secrets := n.ackSecrets.Load()
	if secrets == nil || n.preferences == nil {
		return ""
	}
	return unsubscribe.URL(n.cfg.Public, *secrets, unsubscribe.Link{
		Tenant: e.Tenant, User: e.User, Channel: "email", Type: e.Tags()["type"],
	})
}

// ackLinks returns a function for the secrets of acknowledge links, or nil without the setting.
func (n *node) ackLinks() (func() []string, error) {
	if n.cfg.Ack.Secret == "" {
		return nil, nil
	}
	if err := n.loadAckSecrets(); err != nil {
		return nil, err
	}
	return func() []string { return *n.ackSecrets.Load() }, nil
}

// loadAckSecrets reads the secrets of acknowledge links from their file.
func (n *node) loadAckSecrets() error {
	secrets, err := n.cfg.AckSecrets()
	if err == nil {
		n.ackSecrets.Store(&secrets)
	}
	return err
}
