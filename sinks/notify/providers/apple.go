package providers

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Apple wants a new provider token at most once every 20 minutes and at least once every 60
// (https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns).
const (
	appleRenewAfter = 50 * time.Minute
	appleLeast      = 20 * time.Minute
)

// appleTokens makes the provider tokens of APNs.
type appleTokens struct {
	keyID, team string

	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	token  string
	made   time.Time
	forced time.Time     // when the last token was made because APNs reported one as expired
	off    time.Duration // our clock minus Apple's, if that matters
}

func (t *appleTokens) replace(text []byte) error {
	signer, err := parseKey(text)
	key, ok := signer.(*ecdsa.PrivateKey)
	if err != nil || !ok || key.Curve != elliptic.P256() {
		return errors.New("the key is not an APNs key: it must be the .p8 file from Apple")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.key, t.token, t.forced = key, "", time.Time{}
	return nil
}

// get returns the current token.
func (t *appleTokens) get(now time.Time) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if age := now.Sub(t.made); t.token != "" && age >= 0 && age < appleRenewAfter {
		return t.token, nil
	}
	return t.sign(now)
}

// renew returns the token after one was reported as expired. ok is false if that token's
// successor was, too: another one within 20 minutes would break Apple's rule. If the answer shows
// that our clock is wrong, later tokens have Apple's time.
func (t *appleTokens) renew(refused string, answer http.Header, now time.Time) (token string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.token != refused && t.token != "" {
		return t.token, true // another goroutine has renewed it
	}
	if !t.forced.IsZero() && now.Sub(t.forced) < appleLeast {
		return "", false
	}
	if off := clockOff(answer, now); off.Abs() > time.Minute {
		t.off = off
	}
	t.forced = now
	token, err := t.sign(now)
	return token, err == nil
}

// sign makes a token: a JWT with the key's id, the team and the time, signed with ES256.
func (t *appleTokens) sign(now time.Time) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: t.key},
		(&jose.SignerOptions{}).WithHeader("kid", t.keyID))
	if err != nil {
		return "", errors.New("the key of providers.apns cannot sign")
	}
	claims, _ := json.Marshal(struct { // it can always be encoded
		Team   string `json:"iss"`
		Issued int64  `json:"iat"`
	}{t.team, now.Add(-t.off).Unix()})
	signed, err := signer.Sign(claims)
	if err != nil {
		return "", errors.New("the key of providers.apns cannot sign")
	}
	if t.token, err = signed.CompactSerialize(); err != nil {
		return "", errors.New("the key of providers.apns cannot sign")
	}
	t.made = now
	return t.token, nil
}
