package auth

import (
	"cmp"
	"context"
	"crypto"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
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
	// RoleClaim is the claim with roles, a string or a list; the rights of all of them count.
	// "" means roles. A token without it is a reader.
	RoleClaim string
	// Keys are the issuer's keys; nil finds them by discovery.
	Keys []crypto.PublicKey
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

	mu    sync.Mutex
	keys  *keySet // nil until discovery worked
	tried time.Time
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
	o.Client = issuerClient(o.Client)
	if o.Now == nil {
		o.Now = time.Now
	}
	var errs []error
	if o.Issuer == "" {
		errs = append(errs, errors.New("auth.oidc.issuer is empty"))
	} else if err := trustworthy(o.Issuer); err != nil {
		errs = append(errs, fmt.Errorf("auth.oidc.issuer: %w", err))
	}
	if o.Audience == "" {
		errs = append(errs, errors.New("auth.oidc.audience is empty: tokens for other services would be accepted"))
	}
	for _, alg := range o.Algorithms {
		if !slices.Contains(asymmetric, alg) {
			errs = append(errs, fmt.Errorf("auth.oidc.algorithms: %s is not accepted", printable.Quoted(alg)))
		}
	}
	return &OIDC{opts: o}, errors.Join(errs...)
}

var errNoToken = errors.New("the credential is not a JWT")

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
	header, err := headerOf(token, a.opts.Algorithms)
	if err != nil {
		return Caller{}, err // the issuer is not asked about what cannot be a token
	}
	keys, err := a.keysFor(r.Context(), header)
	switch {
	case errors.Is(err, errUnknownSigner):
		return Caller{}, err
	case err != nil:
		return Caller{}, problem.Unavailable(err, "the token's issuer does not answer")
	}
	verifier := oidc.NewVerifier(a.opts.Issuer, &oidc.StaticKeySet{PublicKeys: keys}, &oidc.Config{
		ClientID: a.opts.Audience, SupportedSigningAlgs: a.opts.Algorithms, Now: a.opts.Now,
	})
	id, err := verifier.Verify(r.Context(), token)
	if err != nil {
		return Caller{}, err
	}
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		return Caller{}, err
	}
	return a.caller(id, claims)
}

// maxTokenSkew is how far an issuer's clock may be ahead of ours. go-oidc would
// take five minutes.
const maxTokenSkew = time.Minute

func (a *OIDC) caller(id *oidc.IDToken, claims map[string]any) (Caller, error) {
	if from, ok := claims["nbf"].(float64); ok && from > float64(a.opts.Now().Add(maxTokenSkew).Unix()) {
		return Caller{}, errors.New("the token is not valid yet")
	}
	tenant, ok := claims[a.opts.TenantClaim].(string)
	if !ok || !validTenant(tenant) {
		return Caller{}, fmt.Errorf("claim %s is not a tenant", a.opts.TenantClaim)
	}
	role, err := rolesIn(claims[a.opts.RoleClaim])
	if err != nil {
		return Caller{}, err
	}
	return Caller{Tenant: tenant, Name: id.Subject, Role: role}, nil
}

// rolesIn are the roles that a claim names. Names we do not know are of other
// services; a claim with none of ours gives no role.
func rolesIn(claim any) (Role, error) {
	names, ok := claim.([]any)
	switch {
	case claim == nil:
		return Reader, nil
	case !ok:
		names = []any{claim}
	}
	var roles Role
	for _, n := range names {
		name, _ := n.(string)
		if role, ok := ParseRole(name); ok {
			roles |= role
		}
	}
	if roles == 0 {
		return 0, errors.New("the token has no role of Waterclock")
	}
	return roles, nil
}

// discoverEvery bounds how often an issuer that does not answer is asked.
const discoverEvery = 2 * time.Second

// keysFor are the keys a token may be signed with.
func (a *OIDC) keysFor(ctx context.Context, h *jose.Header) ([]crypto.PublicKey, error) {
	if a.opts.Keys != nil {
		return a.opts.Keys, nil
	}
	keys, err := a.discovered()
	if err != nil {
		return nil, err
	}
	return keys.find(ctx, h)
}

// discovered asks the issuer where its keys are, until it has said so.
func (a *OIDC) discovered() (*keySet, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys != nil {
		return a.keys, nil
	}
	if now := time.Now(); now.Sub(a.tried) < discoverEvery {
		return nil, errors.New("the issuer did not answer a moment ago")
	}
	defer func() { a.tried = time.Now() }() // not before: those who waited for the answer would each ask again
	provider, err := oidc.NewProvider(oidc.ClientContext(context.Background(), a.opts.Client), a.opts.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover %s: %w", a.opts.Issuer, err)
	}
	var said struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&said); err != nil {
		return nil, fmt.Errorf("discover %s: %w", a.opts.Issuer, err)
	}
	if err := trustworthy(said.Keys); err != nil {
		return nil, fmt.Errorf("discover %s: jwks_uri: %w", a.opts.Issuer, err)
	}
	a.keys = &keySet{url: said.Keys, client: a.opts.Client, now: a.opts.Now}
	return a.keys, nil
}
