package trigger

import (
	"strings"
	"unicode/utf8"
)

// Key names a trigger: "id", or "tenant/id". It is the record key on every
// topic, so a trigger and all its facts share one partition.
type Key string

// MaxKeyBytes bounds a trigger key.
const MaxKeyBytes = 255

// DefaultTenant is the tenant of every key without a slash.
const DefaultTenant = "default"

// ParseKey checks a record key: UTF-8, 1 to 255 bytes, no control characters, no empty tenant
// or id. "default/x" is refused, because "x" means the same, and one trigger must not have
// two keys.
func ParseKey(b []byte) (Key, error) {
	switch {
	case len(b) == 0:
		return "", keyError("the record key is empty: it must be the trigger's id")
	case len(b) > MaxKeyBytes:
		return "", keyError("the key is longer than 255 bytes")
	case !utf8.Valid(b):
		return "", keyError("the key is not UTF-8")
	}
	for _, r := range string(b) {
		if r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) {
			return "", keyError("the key has a control character")
		}
	}
	k := Key(b)
	tenant, id, found := strings.Cut(string(k), "/")
	switch {
	case found && tenant == "":
		return "", keyError("the key begins with '/': write tenant/id, or the id alone")
	case found && id == "", strings.HasSuffix(string(k), "/"):
		return "", keyError("the key ends with '/': the id is missing")
	case found && tenant == DefaultTenant:
		return "", keyError("write the id alone: without a tenant it is in the default one")
	}
	return k, nil
}

func keyError(msg string) error { return &Error{Code: CodeInvalidKey, Msg: msg} }

// NewKey joins a tenant and an id the way ParseKey splits them.
func NewKey(tenant, id string) Key {
	if tenant == "" || tenant == DefaultTenant {
		return Key(id)
	}
	return Key(tenant + "/" + id)
}

// Tenant is the text before the first slash, else "default".
func (k Key) Tenant() string {
	if tenant, _, found := strings.Cut(string(k), "/"); found {
		return tenant
	}
	return DefaultTenant
}

// ID is the key without its tenant.
func (k Key) ID() string {
	if _, id, found := strings.Cut(string(k), "/"); found {
		return id
	}
	return string(k)
}
