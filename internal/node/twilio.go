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
