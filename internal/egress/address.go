package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"
)

// metadata are addresses at which clouds hand out credentials, and which are not
// among those that IANA calls special.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"),   // Azure
	netip.MustParsePrefix("100.100.100.200/32"), // Alibaba
	netip.MustParsePrefix("fd00:ec2::/32"),      // AWS
	netip.MustParsePrefix("fd20:ce::/32"),       // Google
}

// inHouse are the addresses of private networks, which only a listed name may
// resolve to.
var inHouse = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("172.16.0.0/12"),
	netip.MustParsePrefix("192.168.0.0/16"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("fc00::/7"),
}

// guard knows the special addresses. Ports are the Policy's to judge.
var guard = ssrf.New(ssrf.WithAnyPort())

// public says why an address is no public one; nil if it is.
func public(ip netip.Addr) error {
	if within(metadata, ip) {
		return fmt.Errorf("%s is a cloud metadata address", ip)
	}
	if guard.SafeAddr(ip) != nil {
		return fmt.Errorf("%s is not a public address", ip)
	}
	return nil
}

// Address says whether a request to a target may be sent to an address that its
// host resolved to: nil, or an *Error of code forbidden_address.
func (t Target) Address(ip netip.Addr) error {
	if t.Listed {
		return listed(t.Origin.Host, ip)
	}
	if err := public(ip); err != nil {
		return &Error{Code: CodeForbiddenAddress, Reason: fmt.Sprintf("%s resolves to %v", t.Origin.Host, err)}
	}
	return nil
}

// listed judges an address for a host of an allow-list: a literal is itself, a
// name of this machine loopback, and any other name is public or in house.
func listed(host string, ip netip.Addr) error {
	literal, err := netip.ParseAddr(host)
	switch {
	case err == nil && literal == ip:
		return nil
	case err == nil:
	case host == "localhost" || strings.HasSuffix(host, ".localhost"):
		if ip.IsLoopback() && !ip.Is4In6() {
			return nil
		}
	case !within(metadata, ip) && (within(inHouse, ip) || public(ip) == nil):
		return nil
	}
	return &Error{
		Code:   CodeForbiddenAddress,
		Reason: fmt.Sprintf("%s is listed, but resolves to %s, which must be listed itself", host, ip),
	}
}

func within(prefixes []netip.Prefix, ip netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}
