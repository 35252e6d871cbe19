package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// Keys sign requests. During a rotation there are two, and both sign. nil signs nothing.
type Keys []*standardwebhooks.Webhook

// maxKeys is how many keys a tenant may have: the old one and the new one.
const maxKeys = 2

// secretPrefix is the prefix of a key of Standard Webhooks.
const secretPrefix = "whsec_"

// NewKeys makes keys from secrets; each is whsec_ and base64. An error never contains the secret.
func NewKeys(secrets ...string) (Keys, error) {
	if len(secrets) > maxKeys {
		return nil, fmt.Errorf("%d keys, at most %d: the old one and the new one", len(secrets), maxKeys)
	}
	keys := make(Keys, 0, len(secrets))
	for _, s := range secrets {
		if !strings.HasPrefix(s, secretPrefix) {
			return nil, fmt.Errorf("a key must begin with %s; `echo %s$(openssl rand -base64 32)` makes one",
				secretPrefix, secretPrefix)
		}
		key, err := standardwebhooks.NewWebhook(s)
		if err != nil || len(s) < len(secretPrefix)+minKey {
			return nil, fmt.Errorf("what follows %s is not base64 of 24 bytes or more", secretPrefix)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// minKey is the length of 24 bytes in base64, the minimum of Standard Webhooks.
const minKey = 32

// signatures returns header webhook-signature, or "" without keys.
func (k Keys) signatures(id string, at time.Time, body []byte) (string, error) {
	all := make([]string, len(k))
	for i, key := range k {
		s, err := key.Sign(id, at, body)
		if err != nil {
			return "", err
		}
		all[i] = s
	}
	return strings.Join(all, " "), nil
}

// messageID returns header webhook-id. It is a hash of ce_id, because ce_id may be long and have
// any characters. It is the same for every attempt.
func messageID(dueID string) string {
	sum := sha256.Sum256([]byte(dueID))
	return "msg_" + hex.EncodeToString(sum[:16])
}
