package auth

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/waterclock/waterclock/internal/printable"
)

// Keys are static API keys. Only their SHA-256 is kept: a key is random and
// long, so a slow hash would add nothing but a way to keep us busy.
type Keys struct {
	now atomic.Pointer[keysByHash]
}

type keysByHash map[[sha256.Size]byte]Caller

// minKey is the least length of a key in the clear: 16 random bytes in hex.
const minKey = 32

var errUnknownKey = errors.New("unknown API key")

// ReadKeys reads lines of
//
//	tenant key [role [name]]
//
// where key is the key itself or sha256: and its hash in hex, role is one of
// RoleNames (default writer), and name is who the log says it was.
// Empty lines and those that begin with # are passed.
func ReadKeys(from io.Reader) (*Keys, error) {
	by := keysByHash{}
	lines := bufio.NewScanner(from)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if err := by.add(words); err != nil {
			return nil, fmt.Errorf("API keys, line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read API keys: %w", err)
	}
	k := &Keys{}
	k.now.Store(&by)
	return k, nil
}

// Replace takes the keys of another file, for the requests that come from now on.
func (k *Keys) Replace(by *Keys) { k.now.Store(by.now.Load()) }

// Len is how many keys there are.
func (k *Keys) Len() int { return len(*k.now.Load()) }

func (by keysByHash) add(words []string) error {
	if len(words) < 2 || len(words) > 4 {
		return errors.New("write: tenant key [role [name]]")
	}
	if !validTenant(words[0]) {
		return fmt.Errorf("%s is not a tenant's name", printable.Quoted(words[0]))
	}
	sum, err := keyHash(words[1])
	if err != nil {
		return err
	}
	if _, twice := by[sum]; twice {
		return errors.New("this key is already in the file")
	}
	who := Caller{Tenant: words[0], Role: Writer, Name: "key:" + hex.EncodeToString(sum[:4])}
	if len(words) > 2 {
		role, ok := ParseRole(words[2])
		if !ok {
			return fmt.Errorf("%s is not a role; the roles are %s", printable.Quoted(words[2]),
				strings.Join(roleNames[:], ", "))
		}
		who.Role = role
	}
	if len(words) > 3 {
		who.Name = words[3]
	}
	by[sum] = who
	return nil
}

// Tenants are the tenants that have a key, in no order; one may be there twice.
func (k *Keys) Tenants() (all []string) {
	for _, who := range *k.now.Load() {
		all = append(all, who.Tenant)
	}
	return all
}

func keyHash(text string) (sum [sha256.Size]byte, err error) {
	hash, isHash := strings.CutPrefix(text, "sha256:")
	switch {
	case isHash:
		n, err := hex.Decode(sum[:], []byte(hash[:min(len(hash), 2*sha256.Size)]))
		if err != nil || n != sha256.Size || len(hash) != 2*sha256.Size {
			return sum, errors.New("sha256: must be followed by 64 hex digits")
		}
		return sum, nil
	case len(text) < minKey:
		return sum, fmt.Errorf("the key has %d characters; at least %d", len(text), minKey)
	}
	return sha256.Sum256([]byte(text)), nil
}

// Authenticate finds the key by its hash. How long that takes tells about the
// hash of what was sent, which says nothing about any key.
func (k *Keys) Authenticate(r *http.Request) (Caller, error) {
	key, err := bearer(r)
	if err != nil {
		return Caller{}, err
	}
	who, ok := (*k.now.Load())[sha256.Sum256([]byte(key))]
	if !ok {
		return Caller{}, errUnknownKey
	}
	return who, nil
}
