package analytics

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"hash/maphash"
)

// Users says what the files have of user ids and of the values of tags.
type Users struct {
	// Key makes keyed hashes of them (HMAC-SHA256). Equal values have equal hashes, so they can
	// be counted and joined. Nobody without the key can find a person's.
	Key []byte

	// Plain writes them as they are.
	Plain bool
}

// mode is what manifests say of it: files of two modes must not be mixed.
func (u Users) mode() string {
	switch {
	case u.Plain:
		return "plain"
	case len(u.Key) == 0:
		return "absent"
	}
	sum := newHash(u.Key)
	sum.Write([]byte("which key"))
	return "hashed:" + hex.EncodeToString(sum.Sum(nil)[:8])
}

// hider hides values. Some hashes are kept, since users and tags repeat.
type hider struct {
	users Users
	sum   hash.Hash
	text  []byte        // what is hashed
	kept  []hiddenValue // a value stands where seed hashes it to, over the one before
	seed  maphash.Seed
}

type hiddenValue struct{ text, out string }

const mostKept = 1 << 13

func newHash(key []byte) hash.Hash { return hmac.New(sha256.New, key) }

func newHider(u Users) *hider {
	h := &hider{users: u}
	if !u.Plain && len(u.Key) > 0 {
		h.sum, h.kept, h.seed = newHash(u.Key), make([]hiddenValue, mostKept), maphash.MakeSeed()
	}
	return h
}

// user is "" without a key: then the column is null.
func (h *hider) user(id string) string {
	if id == "" || h.users.Plain {
		return id
	}
	return h.hashed("user\x00", id)
}

// tags keeps the names. Without a key there are none.
func (h *hider) tags(all map[string]string) map[string]string {
	if len(all) == 0 || h.users.Plain {
		return all
	}
	if h.sum == nil {
		return nil
	}
	for name, value := range all {
		all[name] = h.hashed("tag\x00"+name+"\x00", value)
	}
	return all
}

// hashed is 96 bits of the hash: 16 characters.
func (h *hider) hashed(kind, value string) string {
	if h.sum == nil {
		return ""
	}
	h.text = append(append(h.text[:0], kind...), value...)
	at := &h.kept[maphash.Bytes(h.seed, h.text)%mostKept]
	if at.text != string(h.text) {
		h.sum.Reset()
		h.sum.Write(h.text)
		var sum [sha256.Size]byte
		at.text, at.out = string(h.text), base64.RawURLEncoding.EncodeToString(h.sum.Sum(sum[:0])[:12])
	}
	return at.out
}
