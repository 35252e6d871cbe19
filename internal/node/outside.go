package node

import "github.com/waterclock/waterclock/gateway"

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
