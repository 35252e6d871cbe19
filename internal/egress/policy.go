package egress

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// The codes of an Error.
const (
	CodeForbiddenURL     = "forbidden_url"     // the URL itself, at registration and before a call
	CodeForbiddenAddress = "forbidden_address" // what its host resolves to, at the dial
)

// Error is why a URL is not called. Reason is for a person: it says what to
// change, and never has the path or the query of the URL.
type Error struct {
	Code, Reason string
}

func (e *Error) Error() string { return e.Code + ": " + e.Reason }

func forbidden(format string, args ...any) *Error {
	return &Error{Code: CodeForbiddenURL, Reason: fmt.Sprintf(format, args...)}
}

// MaxURL is the longest URL, in bytes.
const MaxURL = 2048

var errTooLong = forbidden("callback.url is over %d bytes", MaxURL)

var errFragment = forbidden("callback.url has a fragment, which is never sent: leave out the # and what follows")

// Settings are what a Policy is made of. The zero value allows https to public
// addresses, and nothing else.
type Settings struct {
	Allow    []string            // origins for every tenant; webhook.allow
	Tenants  map[string][]string // more of them for one tenant; tenants.<name>.callback_allow
	Strict   bool                // listed origins only; webhook.strict
	Loopback bool                // http and https to loopback count as listed; dev
}

// Policy says which URLs may be called. It does not change, so any number may
// ask it at once. The zero value is the Policy of zero Settings.
type Policy struct {
	allow            map[Origin]bool
	tenants          map[string]map[Origin]bool
	strict, loopback bool
}

// NewPolicy refuses settings with an entry that is no origin.
func NewPolicy(s Settings) (*Policy, error) {
	p := &Policy{tenants: map[string]map[Origin]bool{}, strict: s.Strict, loopback: s.Loopback}
	var err error
	if p.allow, err = origins(s.Allow); err != nil {
		return nil, fmt.Errorf("webhook.allow: %w", err)
	}
	for name, list := range s.Tenants {
		if p.tenants[name], err = origins(list); err != nil {
			return nil, fmt.Errorf("tenants.%s.callback_allow: %w", name, err)
		}
	}
	return p, nil
}

func origins(list []string) (map[Origin]bool, error) {
	all := make(map[Origin]bool, len(list))
	for _, text := range list {
		o, err := ParseOrigin(text)
		if err != nil {
			return nil, fmt.Errorf("%q %w", text, err)
		}
		all[o] = true
	}
	return all, nil
}

// Check says whether a tenant's triggers may call a URL: nil, or an *Error of
// code forbidden_url. It resolves nothing, so that the same URL and settings
// give the same verdict everywhere and always.
func (p *Policy) Check(tenant, rawURL string) error {
	_, err := p.Target(tenant, rawURL)
	return err
}

// Target is where a URL leads, if the tenant may call it; else an *Error.
func (p *Policy) Target(tenant, rawURL string) (Target, error) {
	if len(rawURL) > MaxURL {
		return Target{}, errTooLong
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return Target{}, forbidden("callback.url is no URL")
	}
	return p.parsed(tenant, rawURL, u)
}

// CheckURL is Check of a URL that is parsed already; rawURL is its text.
func (p *Policy) CheckURL(tenant, rawURL string, u *url.URL) error {
	if len(rawURL) > MaxURL {
		return errTooLong
	}
	_, err := p.parsed(tenant, rawURL, u)
	return err
}

func (p *Policy) parsed(tenant, rawURL string, u *url.URL) (Target, error) {
	if strings.Contains(rawURL, "#") { // an empty fragment leaves no trace in u
		return Target{}, errFragment
	}
	return p.target(tenant, u)
}

// Target is an origin that may be called, and why.
type Target struct {
	Origin Origin
	Listed bool // by webhook.allow, callback_allow, or as loopback in dev; else public https
}

func (p *Policy) target(tenant string, u *url.URL) (Target, error) {
	o, err := originOf(u)
	if err != nil {
		return Target{}, err
	}
	if p.allow[o] || p.tenants[tenant][o] || p.loopback && o.isLoopback() {
		return Target{Origin: o, Listed: true}, nil
	}
	if err := p.unlisted(o); err != nil {
		return Target{}, err
	}
	return Target{Origin: o}, nil
}

// unlisted is why an origin that nobody listed is refused; nil if it is https to
// what may be public.
func (p *Policy) unlisted(o Origin) error {
	const list = "; an operator can list the origin in webhook.allow or callback_allow"
	switch why := o.private(); {
	case why != "":
		return forbidden("callback.url may not lead to %s: %s"+list, o.Host, why)
	case p.strict:
		return forbidden("callback.url may not lead to %s: webhook.strict is on"+list, o)
	case o.Scheme != "https":
		return forbidden("callback.url must begin with https:// here" + list)
	case o.Port != 443 && o.Port < 1024:
		return forbidden("callback.url may not use port %d: 443 and ports from 1024 may be used"+list, o.Port)
	}
	return nil
}

// never are suffixes of names that no public DNS has.
var never = []string{"localhost", "local", "internal", "localdomain", "home.arpa"}

// private says why no public address can stand behind an origin; "" if one may.
func (o Origin) private() string {
	if ip, err := netip.ParseAddr(o.Host); err == nil {
		if err := public(ip); err != nil {
			return "it is not a public address"
		}
		return ""
	}
	for _, suffix := range never {
		if o.Host == suffix || strings.HasSuffix(o.Host, "."+suffix) {
			return "such a name has no public address"
		}
	}
	if !strings.Contains(o.Host, ".") {
		return "a name without a dot has no public address"
	}
	return ""
}

// isLoopback says that the host is this machine whatever DNS says.
func (o Origin) isLoopback() bool {
	ip, err := netip.ParseAddr(o.Host)
	if err != nil {
		return o.Host == "localhost" || strings.HasSuffix(o.Host, ".localhost")
	}
	return ip.IsLoopback() && !ip.Is4In6()
}
