package sealed

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"sync"
)

// Box seals texts that only who has a secret may read: AES-256-GCM, with keys that are derived
// from secrets which have other uses, too. Tokens are base64url without padding. A Box may be
// used concurrently.
type Box struct {
	purpose string
	secrets func() [][]byte // the first one seals, all open

	mu   sync.Mutex
	keys map[string]cipher.AEAD // by secret; at most as many as there are
}

// NewBox makes a Box. The purpose tells kinds of tokens apart; it never changes.
func NewBox(purpose string, secrets func() [][]byte) *Box {
	return &Box{purpose: purpose, secrets: secrets}
}

// Seal makes a token of a text. It opens only beside the same data.
func (b *Box) Seal(text, data []byte) string {
	secrets := b.secrets()
	return base64.RawURLEncoding.EncodeToString(b.key(secrets[0], len(secrets)).Seal(nil, nil, text, data))
}

// Open returns the text of a token.
func (b *Box) Open(token string, data []byte) (text []byte, ok bool) {
	sealed, ok := unspell(token)
	if !ok {
		return nil, false
	}
	secrets := b.secrets()
	for _, secret := range secrets {
		if text, err := b.key(secret, len(secrets)).Open(nil, nil, sealed, data); err == nil {
			return text, true
		}
	}
	return nil, false
}

// key is derived from one of among secrets.
func (b *Box) key(secret []byte, among int) cipher.AEAD {
	b.mu.Lock()
	defer b.mu.Unlock()
	if known := b.keys[string(secret)]; known != nil {
		return known
	}
	made, err := derive(secret, b.purpose)
	if err != nil {
		panic("sealed: a key of a fixed size: " + err.Error())
	}
	if b.keys == nil || len(b.keys) >= among { // the secrets have changed
		b.keys = map[string]cipher.AEAD{}
	}
	b.keys[string(secret)] = made
	return made
}

func derive(secret []byte, purpose string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}
