package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/waterclock/waterclock/gateway/problem"
)

// OIDCOptions pin what a token must be.
type OIDCOptions struct {
	Issuer   string // https URL of the OpenID Connect issuer
	Audience string // a token must name it
	// Algorithms that are accepted. Empty means RS256, ES256 and EdDSA; none
	// and the HMAC ones are refused even if named.
	Algorithms []string
	// TenantClaim is the claim that is the tenant. "" means tenant.
	TenantClaim string
	// RoleClaim is the claim with roles, a string or a list; the highest counts.
	// "" means roles. A token without it is a writer.
	RoleClaim string
	// Keys are the issuer's keys; nil finds them by discovery.
	Keys oidc.KeySet
	// Client fetches discovery and keys; nil means one with a time-out of 5 s.
	Client *http.Client
	Now    func() time.Time
}

var defaultAlgorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}

// asymmetric are the algorithms a token may be signed with at all: with the
// others anybody who may verify could also sign (RFC 8725, 2.1).
var asymmetric = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512,
	oidc.EdDSA,
}

// OIDC accepts JWTs of one issuer.
type OIDC struct {
	opts OIDCOptions

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until discovery worked
	tried    time.Time
}

// NewOIDC checks the options. Discovery happens with the first token, so that
// an issuer that is away at start-up does not keep us away.
func NewOIDC(o OIDCOptions) (*OIDC, error) {
	o.TenantClaim, o.RoleClaim = cmp.Or(o.TenantClaim, "tenant"), cmp.Or(o.RoleClaim, "roles")
	if len(o.Algorithms) == 0 {
		o.Algorithms = defaultAlgorithms
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 5 * time.Second}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var errs []error
	if o.Issuer == "" {
		errs = append(errs, errors.New("auth.oidc.issuer is empty"))
	}
	if o.Audience == "" {
		errs = append(errs, errors.New("auth.oidc.audience is empty: tokens for anybody else would be accepted"))
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			errs = append(errs, fmt.Errorf("auth.oidc.algorithms: %s is not accepted", problem.Quoted(alg)))
		}
	}
	a := &OIDC{opts: o}
	if o.Keys != nil {
		a.verifier = oidc.NewVerifier(o.Issuer, o.Keys, a.config())
	}
	return a, errors.Join(errs...)
}

func (a *OIDC) config() *oidc.Config {
	return &oidc.Config{ClientID: a.opts.Audience, SupportedSigningAlgs: a.opts.Algorithms, Now: a.opts.Now}
}

var errNoToken = errors.New("the credential is no JWT")

// Authenticate verifies the token's signature, issuer, audience and times, and
// reads tenant and role from its claims.
func (a *OIDC) Authenticate(r *http.Request) (Caller, error) {
	token, err := bearer(r)
	if err != nil {
		return Caller{}, err
	}
	if strings.Count(token, ".") != 2 {
		return Caller{}, errNoToken // an API key: no reason to ask the issuer
	}
	verifier, err := a.ready()
	if err != nil {
		return Caller{}, problem.Unavailable(err, "the token's issuer does not answer")
	}
	id, err := verifier.Verify(r.Context(), token)
	if err != nil && strings.Contains(err.Error(), fetchingKeys) {
		return Caller{}, problem.Unavailable(err, "the token's issuer does not answer")
	}
	if err != nil {
		return Caller{}, err
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Caller{}, err
	}
	return a.caller(id, claims)
}

// fetchingKeys is what go-oidc says where the signature could not be checked at
// all: its error for that has no type.
const fetchingKeys = "fetching keys"

// maxTokenSkew is how far an issuer's clock may be ahead of ours. go-oidc would
// take five minutes.
const maxTokenSkew = time.Minute

func (a *OIDC) caller(id *oidc.IDToken, claims map[string]any) (Caller, error) {
	if from, ok := claims["nbf"].(float64); ok && from > float64(a.opts.Now().Add(maxTokenSkew).Unix()) {
		return Caller{}, errors.New("the token is not valid yet")
	}
	tenant, ok := claims[a.opts.TenantClaim].(string)
	if !ok || !validTenant(tenant) {
		return Caller{}, fmt.Errorf("claim %s is no tenant", a.opts.TenantClaim)
	}
	role, err := roleIn(claims[a.opts.RoleClaim])
	if err != nil {
		return Caller{}, err
	}
	return Caller{Tenant: tenant, Name: id.Subject, Role: role}, nil
}

// roleIn is the highest role a claim names. Names we do not know are of other
// services; a claim with none of ours gives no role.
func roleIn(claim any) (Role, error) {
	names, ok := claim.([]any)
	switch {
	case claim == nil:
		return Writer, nil
	case !ok:
		names = []any{claim}
	}
	var highest Role
	for _, n := range names {
		if name, ok := n.(string); ok {
			role, _ := ParseRole(name)
			highest = max(highest, role)
		}
	}
	if highest == 0 {
		return 0, errors.New("no role of ours among the token's")
	}
	return highest, nil
}

// discoverEvery bounds how often an issuer that does not answer is asked.
const discoverEvery = 2 * time.Second

func (a *OIDC) ready() (*oidc.IDTokenVerifier, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.verifier != nil {
		return a.verifier, nil
	}
	if now := time.Now(); now.Sub(a.tried) < discoverEvery {
		return nil, errors.New("the issuer did not answer a moment ago")
	}
	defer func() { a.tried = time.Now() }() // not before: those who waited for the answer would each ask again
	// The keys are fetched with this context later on, so it must not end.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), a.opts.Client), a.opts.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", a.opts.Issuer, err)
	}
	a.verifier = provider.Verifier(a.config())
	return a.verifier, nil
}
