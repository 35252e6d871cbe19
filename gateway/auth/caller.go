// Package auth says who sent a request, for which tenant, and what they may do.
//
// # Source of truth
//
// The operator's file of keys (keys.go), and the OpenID Connect issuer that is set
// up (oidc.go). AnyOf asks both (caller.go). A role is a set of rights (roles.go);
// which right a route needs is the gateway's table to say.
//
// # Promises
//
//   - A key is kept as its hash alone. How long a look-up takes says nothing about
//     any key.
//   - A token counts only if it is signed by an algorithm that is pinned, for our
//     audience, by our issuer, and is in force now.
//   - A tenant's name can always be the first part of a trigger's key.
//   - An issuer that does not answer makes a 503 and not a 401. It is asked for keys
//     at most every 30 s, whatever tokens come, and every 2 s until it has answered
//     once (keyset.go).
package auth

import (
	"errors"
	"net/http"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// Caller is who sent a request.
type Caller struct {
	Tenant string
	Name   string // for the record: actor of commands, and the log
	Role   Role   // one or several
}

// May reports whether the caller has a right.
func (c *Caller) May(right Rights) bool { return c.Role.Rights()&right == right }

// Authenticator says who a caller is. Its errors never travel to the caller,
// unless they are a *Problem.
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
}

// AnyOf asks one after the other. A credential that the first cannot read is
// for the next.
func AnyOf(list ...Authenticator) Authenticator { return anyOf(list) }

type anyOf []Authenticator

func (a anyOf) Authenticate(r *http.Request) (Caller, error) {
	var errs []error
	for _, one := range a {
		who, err := one.Authenticate(r)
		if err == nil {
			return who, nil
		}
		errs = append(errs, err)
	}
	return Caller{}, errors.Join(errs...)
}

func (a anyOf) Tenants() (all []string) {
	for _, one := range a {
		if known, ok := one.(interface{ Tenants() []string }); ok {
			all = append(all, known.Tenants()...)
		}
	}
	return all
}

var errNoCredential = errors.New("no bearer credential")

// bearer is the credential of a request: Authorization: Bearer, or X-API-Key.
func bearer(r *http.Request) (string, error) {
	scheme, token, found := strings.Cut(r.Header.Get("Authorization"), " ")
	if found && strings.EqualFold(scheme, "Bearer") && token != "" {
		return strings.TrimSpace(token), nil
	}
	if key := r.Header.Get("X-API-Key"); key != "" {
		return key, nil
	}
	return "", errNoCredential
}

// validTenant says whether a name can be the first part of a key: the tenant
// of tenant/id must be the one that wrote it.
func validTenant(name string) bool {
	if name == trigger.DefaultTenant {
		return true
	}
	key, err := trigger.ParseKey([]byte(name + "/x"))
	return err == nil && key.Tenant() == name && len(name) <= maxTenant
}

// maxTenant leaves room for ids in a key.
const maxTenant = 128
