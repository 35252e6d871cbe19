package egress

import (
	"errors"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Origin is a scheme, host and port in one spelling: lower case, the port
// explicit, IPv6 in its shortest form and without brackets.
type Origin struct {
	Scheme string // http, https
	Host   string // a name or an address
	Port   uint16
}

// String leaves out the scheme's own port, as a URL does.
func (o Origin) String() string {
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if o.Port == defaultPorts[o.Scheme] {
		return o.Scheme + "://" + host
	}
	return o.Scheme + "://" + net.JoinHostPort(o.Host, strconv.Itoa(int(o.Port)))
}

var defaultPorts = map[string]uint16{"http": 80, "https": 443}

// maxHost is the longest name that DNS has.
const maxHost = 253

// errNoOrigin is what ParseOrigin says of a path, a query or no URL at all.
var errNoOrigin = errors.New(
	"is not an origin: write scheme, host and port only, such as https://hooks.example.com")

// ParseOrigin reads an entry of an allow-list: scheme, host and perhaps a port,
// and nothing behind them but one slash.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || strings.TrimSuffix(u.Path, "/") != "" || strings.HasSuffix(u.Path, "//") ||
		u.RawQuery != "" || u.ForceQuery || u.User != nil || u.Opaque != "" || strings.Contains(text, "#") {
		return Origin{}, errNoOrigin
	}
	o, err := originOf(u)
	if e := (*Error)(nil); errors.As(err, &e) {
		return Origin{}, errors.New("is not an origin: " + strings.TrimPrefix(e.Reason, "callback.url "))
	}
	return o, nil
}

// OriginOf spells the origin of any URL as Origin.String does, also of one that no policy allows.
// It is "" if the text is no URL with a host. Settings, breakers and dead letters name an
// endpoint by it.
func OriginOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return OriginOfURL(u)
}

// OriginOfURL is OriginOf of a URL that is parsed already.
func OriginOfURL(u *url.URL) string {
	if u.Host == "" {
		return ""
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		if ip, err := netip.ParseAddr(host); err == nil {
			host = ip.String()
		}
		host = "[" + host + "]"
	}
	if port := u.Port(); port != "" && port != strconv.Itoa(int(defaultPorts[scheme])) {
		host += ":" + port
	}
	return scheme + "://" + host
}

// originOf is the origin of a URL, or why no policy can allow the URL. Every
// part is compared in one spelling, and what other parsers read otherwise is
// refused: decimal and octal addresses, user info, Unicode, a dot at the end.
func originOf(u *url.URL) (Origin, error) {
	o := Origin{Scheme: strings.ToLower(u.Scheme)}
	standard, known := defaultPorts[o.Scheme]
	switch {
	case !known:
		return o, forbidden("callback.url must begin with https://, or http:// where that is allowed")
	case u.User != nil:
		return o, forbidden("callback.url has user info, which is never sent: leave out what stands before the @")
	case u.Host == "" || u.Hostname() == "":
		return o, forbidden("callback.url has no host")
	case u.Fragment != "" || u.RawFragment != "":
		return o, errFragment
	}
	var err error
	if o.Host, err = hostOf(u); err != nil {
		return o, err
	}
	if o.Port, err = portOf(u, standard); err != nil {
		return o, err
	}
	return o, nil
}

func portOf(u *url.URL, standard uint16) (uint16, error) {
	text := u.Port()
	if text == "" {
		if strings.HasSuffix(u.Host, ":") {
			return 0, forbidden("callback.url has a colon without a port: leave it out")
		}
		return standard, nil
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 || text[0] == '0' {
		return 0, forbidden("callback.url has a port that does not exist: ports are 1 to 65535")
	}
	return uint16(port), nil
}

// hostOf is a name in lower case, or an address in its one spelling.
func hostOf(u *url.URL) (string, error) {
	host := strings.ToLower(u.Hostname())
	if strings.HasPrefix(u.Host, "[") {
		return address6(host)
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is4() {
		return ip.String(), nil
	}
	return host, name(host)
}

func address6(host string) (string, error) {
	ip, err := netip.ParseAddr(host)
	switch {
	case err != nil || !ip.Is6() || ip.Zone() != "":
		return "", forbidden("callback.url has no IPv6 address between [ and ], or one with a zone")
	case ip.Is4In6():
		return "", forbidden("callback.url has an IPv4 address written as IPv6: write %s", ip.Unmap())
	}
	return ip.String(), nil
}

// name refuses what is no host name, and what some resolvers take for an address.
func name(host string) error {
	if len(host) > maxHost {
		return forbidden("callback.url has a host of over %d bytes", maxHost)
	}
	if strings.HasSuffix(host, ".") {
		return forbidden("callback.url has a host that ends with a dot: leave it out")
	}
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if err := label(l); err != nil {
			return err
		}
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return forbidden("callback.url has a host that ends in a number but is no IPv4 address: " +
			"write all four parts in decimal, without leading zeros")
	}
	return nil
}

func label(l string) error {
	if l == "" || len(l) > 63 {
		return forbidden("callback.url has a host with an empty part, or one of over 63 bytes")
	}
	for i := range len(l) {
		switch c := l[i]; {
		case c >= 0x80:
			return forbidden("callback.url has a host with other characters than ASCII: write it as xn--…")
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_':
		default:
			return forbidden("callback.url has a host with a character that no host name has: " +
				"letters, digits, hyphens and dots may be used")
		}
	}
	return nil
}

// isNumber says that a C library would read a label as part of an address:
// decimal, octal, or hexadecimal behind 0x.
func isNumber(l string) bool {
	if digits, hex := strings.CutPrefix(l, "0x"); hex {
		return strings.Trim(digits, "0123456789abcdef") == ""
	}
	return strings.Trim(l, "0123456789") == ""
}
