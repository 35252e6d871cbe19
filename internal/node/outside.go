package node

import (
	"fmt"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/gateway/acklink"
	"github.com/waterclock/waterclock/gateway/unsubscribe"
)

// twilioCallbacks is what the gateway checks Twilio's status callbacks against; nil where
// nobody gave Twilio a URL.
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

// devAckSecretFile is where dev keeps the secret of links that it made.
const devAckSecretFile = "ack.secret"

// devLinks gives dev links to acknowledge that work in a browser on this machine, unless
// the settings say where dev is reached. Twilio would refuse such a URL.
func (n *node) devLinks(url string) error {
	if n.cfg.Public != "" || n.cfg.Twilio.AuthToken != "" {
		return nil
	}
	n.cfg.Public = url
	if n.cfg.Ack.Secret != "" {
		return nil
	}
	file, err := n.ownSecret(devAckSecretFile, "")
	if err != nil {
		return fmt.Errorf("keep the secret of links to acknowledge: %w", err)
	}
	n.cfg.Ack.Secret = "file:" + file
	return nil
}

// ackURL is the link by which the receiver of a due event acknowledges it; "" without
// public_url or ack.secret.
func (n *node) ackURL(e *worker.DueEvent) string {
	secrets := n.ackSecrets.Load()
	if secrets == nil {
		return ""
	}
	return acklink.URL(n.cfg.Public, *secrets, acklink.Link{DueID: e.ID, Expires: time.Now().Add(n.cfg.Ack.TTL)})
}

// unsubscribeURL is the link of a mail by which its user opts out; "" without public_url,
// ack.secret or a store of preferences.
func (n *node) unsubscribeURL(e *worker.DueEvent) string {
	secrets := n.ackSecrets.Load()
	if secrets == nil || n.preferences == nil {
		return ""
	}
	return unsubscribe.URL(n.cfg.Public, *secrets, unsubscribe.Link{
		Tenant: e.Tenant, User: e.User, Channel: "email", Type: e.Tags()["type"],
	})
}

// ackLinks are the secrets of links to acknowledge; nil without the setting.
func (n *node) ackLinks() (func() []string, error) {
	if n.cfg.Ack.Secret == "" {
		return nil, nil
	}
	if err := n.loadAckSecrets(); err != nil {
		return nil, err
	}
	return func() []string { return *n.ackSecrets.Load() }, nil
}

// loadAckSecrets reads them from their file.
func (n *node) loadAckSecrets() error {
	secrets, err := n.cfg.AckSecrets()
	if err == nil {
		n.ackSecrets.Store(&secrets)
	}
	return err
}
