package egress_test

import (
	"net"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/idna"

	"github.com/waterclock/waterclock/internal/egress"
)

// Whatever is allowed without being listed is https to a public-looking host,
// and net/http and a C library read the same host in it.
func FuzzCheck(f *testing.F) {
	for _, row := range verdicts {
		f.Add(row.url)
	}
	p := policy(f, egress.Settings{})
	listed := policy(f, egress.Settings{Allow: listing, Loopback: true})
	f.Fuzz(func(t *testing.T, text string) {
		target, err := p.Target("acme", text)
		if second := p.Check("acme", text); (second == nil) != (err == nil) {
			t.Fatal("two verdicts:", err, second)
		}
		if err == nil && listed.Check("acme", text) != nil {
			t.Fatal("a longer allow-list allows less")
		}
		if err != nil {
			if !refusedAs(err, egress.CodeForbiddenURL) || strings.ContainsAny(err.Error(), "\r\n\x00") {
				t.Fatalf("refused as %q", err)
			}
			return
		}
		r, err := http.NewRequest(http.MethodPost, text, nil)
		if err != nil {
			t.Fatal("allowed, but no request:", err)
		}
		if r.URL.Scheme != "https" || r.URL.User != nil || r.URL.Fragment != "" || target.Listed {
			t.Fatalf("%v, %v", r.URL, target)
		}
		dialled, err := idna.Lookup.ToASCII(r.URL.Hostname()) // as http.Transport does
		if err != nil {
			dialled = strings.ToLower(r.URL.Hostname())
		}
		port := r.URL.Port()
		if port == "" {
			port = "443"
		}
		want := net.JoinHostPort(target.Origin.Host, strconv.Itoa(int(target.Origin.Port)))
		if got := net.JoinHostPort(dialled, port); got != want && netip.AddrPort.Compare(parse(got), parse(want)) != 0 {
			t.Fatalf("checked %s, dialled %s", want, got)
		}
		readAsAddress(t, target)
		if o, err := egress.ParseOrigin(target.Origin.String()); err != nil || o != target.Origin {
			t.Fatalf("%v is written %s, which is %v, %v", target.Origin, target.Origin, o, err)
		}
	})
}

func parse(s string) netip.AddrPort {
	a, _ := netip.ParseAddrPort(s)
	return a
}

var number = regexp.MustCompile(`^(0x[0-9a-f]*|[0-9]+)$`) // decimal, octal, hexadecimal

// readAsAddress knows the forms of inet_aton: one to four numbers.
func readAsAddress(t *testing.T, target egress.Target) {
	t.Helper()
	host := target.Origin.Host
	if ip, err := netip.ParseAddr(host); err == nil {
		if !ip.IsGlobalUnicast() || ip.IsPrivate() || target.Address(ip) != nil {
			t.Fatal("allowed:", ip)
		}
		return
	}
	parts := strings.Split(host, ".")
	if len(parts) > 4 {
		return
	}
	for _, part := range parts {
		if !number.MatchString(part) {
			return
		}
	}
	t.Fatal("some resolvers read an address in", host)
}
