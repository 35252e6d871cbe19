package egress_test

import (
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/egress"
)

func policy(t testing.TB, s egress.Settings) *egress.Policy {
	t.Helper()
	p, err := egress.NewPolicy(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// verdicts of four policies: w is serve without settings, l has the origins of
// listing, d is dev, s is strict with the origins of listing. A letter means
// allowed.
var verdicts = []struct{ url, allowed string }{
	// Public https.
	{"https://hooks.example.com", "wld"},
	{"https://hooks.example.com/", "wld"},
	{"https://hooks.example.com/a/b?c=d%20e", "wld"},
	{"https://hooks.example.com:443/", "wld"},
	{"https://hooks.example.com:8443/", "wld"},
	{"https://HOOKS.Example.COM/", "wld"},
	{"HTTPS://hooks.example.com/", "wld"},
	{"https://xn--mnchen-3ya.example/", "wld"},
	{"https://a_b.example.com/", "wld"},
	{"https://3com.example/", "wld"},
	{"https://127.0.0.1.nip.io/", "wld"}, // the dial refuses it
	{"https://8.8.8.8/", "wld"},
	{"https://[2606:4700:4700::1111]/", "wld"},
	{"https://internal.example.com/", "wld"},
	{"https://localhost.example.com/", "wld"},

	// What is listed.
	{"http://hooks.listed.example/", "ls"},
	{"http://HOOKS.listed.example:80/x", "ls"},
	{"http://hooks.listed.example:8080/", ""},
	{"https://only.listed.example/", "wlds"},
	{"http://only.listed.example/", ""},
	{"http://10.0.0.5:8080/x", "ls"},
	{"http://10.0.0.5/", ""},
	{"https://10.0.0.5:8080/", ""},
	{"https://receiver/", "ls"},
	{"https://receiver:443/", "ls"},
	{"http://receiver/", ""},
	{"http://[fd00::5]:8080/", "ls"},
	{"http://[fd00:0:0::5]:8080/", "ls"},
	{"https://mail.listed.example:25/", "ls"},

	// Loopback.
	{"http://127.0.0.1:9000/", "d"},
	{"https://127.0.0.1/", "d"},
	{"http://127.8.9.10/", "d"},
	{"http://localhost/", "d"},
	{"https://localhost:8443/", "d"},
	{"http://LocalHost:1/", "d"},
	{"http://a.localhost/", "d"},
	{"http://[::1]:80/", "d"},
	{"http://[0:0:0:0:0:0:0:1]/", "d"},
	{"http://[::ffff:127.0.0.1]/", ""},
	{"http://0.0.0.0/", ""},
	{"http://[::]/", ""},

	// Other schemes.
	{"http://hooks.example.com/", ""},
	{"ftp://hooks.example.com/", ""},
	{"file:///etc/passwd", ""},
	{"gopher://hooks.example.com/", ""},
	{"http+unix://%2Fvar%2Frun%2Fdocker.sock/", ""},
	{"unix:///var/run/docker.sock", ""},
	{"ws://hooks.example.com/", ""},
	{"javascript:alert(1)", ""},
	{"data:text/plain,x", ""},
	{"//hooks.example.com/", ""},
	{"/hook", ""},
	{"hooks.example.com", ""},
	{"", ""},

	// Private, link-local, metadata, reserved.
	{"https://10.1.2.3/", ""},
	{"https://172.16.0.1/", ""},
	{"https://172.31.255.255/", ""},
	{"https://192.168.1.1/", ""},
	{"https://100.64.0.1/", ""},
	{"https://169.254.169.254/latest/meta-data/", ""},
	{"https://169.254.170.2/", ""},
	{"https://168.63.129.16/", ""},
	{"https://100.100.100.200/", ""},
	{"https://192.0.0.192/", ""},
	{"https://198.18.0.1/", ""},
	{"https://192.0.2.1/", ""},
	{"https://224.0.0.1/", ""},
	{"https://255.255.255.255/", ""},
	{"https://[fe80::1]/", ""},
	{"https://[fe80::1%25eth0]/", ""},
	{"https://[fc00::1]/", ""},
	{"https://[fd00:ec2::254]/", ""},
	{"https://[fd20:ce::254]/", ""},
	{"https://[ff02::1]/", ""},
	{"https://[2001:db8::1]/", ""},
	{"https://[5f00::1]/", ""},

	// IPv4 inside IPv6: mapped, compatible, NAT64, 6to4, Teredo.
	{"https://[::ffff:10.0.0.1]/", ""},
	{"https://[::ffff:a9fe:a9fe]/", ""},
	{"https://[::ffff:8.8.8.8]/", ""},
	{"https://[::169.254.169.254]/", ""},
	{"https://[64:ff9b::a9fe:a9fe]/", ""},
	{"https://[64:ff9b::10.0.0.1]/", ""},
	{"https://[64:ff9b:1::1]/", ""},
	{"https://[2002:a00:1::]/", ""},
	{"https://[2001:0:a00:1::]/", ""},

	// Addresses spelt for C libraries.
	{"https://2130706433/", ""},
	{"https://0177.0.0.1/", ""},
	{"https://0x7f.0.0.1/", ""},
	{"https://0x7f000001/", ""},
	{"https://127.1/", ""},
	{"https://10.0.1/", ""},
	{"https://8.8.8.08/", ""},
	{"https://8.8.8.8./", ""},
	{"https://1.2.3.4.5/", ""},
	{"https://example.0x7f/", ""},
	{"https://256.256.256.256/", ""},
	{"https://[127.0.0.1]/", ""},
	{"https://[8.8.8.8]/", ""},

	// Names that only this network knows.
	{"https://intranet/", ""},
	{"https://metadata.google.internal/computeMetadata/v1/", ""},
	{"https://internal/", ""},
	{"https://vault.service.internal/", ""},
	{"https://printer.local/", ""},
	{"https://kubernetes.default.svc.cluster.local/", ""},
	{"https://router.home.arpa/", ""},
	{"https://x.localdomain/", ""},
	{"https://localhost./", ""},
	{"https://hooks.example.com./", ""},
	{"https://Metadata.Google.INTERNAL/", ""},

	// User info.
	{"https://user:secret@hooks.example.com/", ""},
	{"https://hooks.example.com@169.254.169.254/", ""},
	{"https://hooks.example.com:443@10.0.0.5:8080/", ""},
	{"http://10.0.0.5:8080@hooks.listed.example/", ""},
	{"https://@hooks.example.com/", ""},
	{`https://hooks.example.com\@169.254.169.254/`, ""},
	{"https://hooks.example.com%40169.254.169.254/", ""},

	// Fragments.
	{"https://hooks.example.com/#a", ""},
	{"https://hooks.example.com#@169.254.169.254/", ""},
	{"https://hooks.example.com/#", ""},

	// Ports.
	{"https://hooks.example.com:0/", ""},
	{"https://hooks.example.com:22/", ""},
	{"https://hooks.example.com:25/", ""},
	{"https://hooks.example.com:80/", ""},
	{"https://hooks.example.com:1023/", ""},
	{"https://hooks.example.com:1024/", "wld"},
	{"https://hooks.example.com:65535/", "wld"},
	{"https://hooks.example.com:65536/", ""},
	{"https://hooks.example.com:0443/", ""},
	{"https://hooks.example.com:-443/", ""},
	{"https://hooks.example.com:https/", ""},
	{"https://hooks.example.com:/", ""},
	{"https://hooks.example.com:443:443/", ""},
	{"https://:443/", ""},

	// Unicode: full-width digits, other dots, circled letters, letters.
	{"https://münchen.example/", ""},
	{"https://１２７.0.0.1/", ""},
	{"https://127。0。0。1/", ""},
	{"https://ⓛocalhost/", ""},
	{"https://hooks.example.com／x/", ""},
	{"https://ＨＯＯＫＳ.example.com/", ""},
	{"https://hooks.example.com\u200b/", ""},

	// What is no host or no URL.
	{"https:///x", ""},
	{"https://", ""},
	{"https:hooks.example.com", ""},
	{"https://hooks..example.com/", ""},
	{"https://.example.com/", ""},
	{"https://*.example.com/", ""},
	{"https://hooks.example.com,10.0.0.1/", ""},
	{"https://hooks example.com/", ""},
	{"https://hooks.example.com\r\nX-Evil: 1/", ""},
	{"https://hooks.example.com/\r\nX-Evil: 1", ""},
	{"https://hooks.example.com/\x00", ""},
	{"https://%31%30.0.0.1/", ""},
	{"https://[::1/", ""},
	{"https://::1/", ""},
	{"https://" + strings.Repeat("a", 64) + ".example.com/", ""},
	{"https://" + strings.Repeat("a.", 127) + "example/", ""},
	{"https://hooks.example.com/" + strings.Repeat("a", 8<<10), ""},
}

var listing = []string{
	"http://hooks.listed.example", "https://only.listed.example/", "http://10.0.0.5:8080", "https://receiver",
	"http://[fd00::5]:8080", "https://mail.listed.example:25",
}

func TestVerdicts(t *testing.T) {
	policies := map[string]*egress.Policy{
		"w": policy(t, egress.Settings{}),
		"l": policy(t, egress.Settings{Allow: listing}),
		"d": policy(t, egress.Settings{Loopback: true}),
		"s": policy(t, egress.Settings{Tenants: map[string][]string{"acme": listing}, Strict: true}),
	}
	for _, row := range verdicts {
		for letter, p := range policies {
			err := p.Check("acme", row.url)
			if allowed := strings.Contains(row.allowed, letter); allowed != (err == nil) {
				t.Errorf("%s: %.100q: %v", letter, row.url, err)
			}
			if u, bad := url.Parse(row.url); bad == nil && !reflect.DeepEqual(p.CheckURL("acme", row.url, u), err) {
				t.Errorf("%s: %.100q: %v, but parsed before: %v", letter, row.url, err, p.CheckURL("acme", row.url, u))
			}
			if e := (*egress.Error)(nil); err != nil && (!errors.As(err, &e) || e.Code != egress.CodeForbiddenURL ||
				len(e.Reason) < 10) {
				t.Errorf("%s: %.100q: refused as %#v", letter, row.url, err)
			}
		}
	}
}

// What a tenant may call is not what others may.
func TestTenants(t *testing.T) {
	p := policy(t, egress.Settings{
		Allow:   []string{"http://all.example"},
		Tenants: map[string][]string{"acme": {"http://acme.example"}, "blue": {"http://blue.example"}},
	})
	for _, row := range []struct {
		tenant, url string
		ok          bool
	}{
		{"acme", "http://all.example/", true},
		{"acme", "http://acme.example/", true},
		{"acme", "http://blue.example/", false},
		{"blue", "http://blue.example/", true},
		{"blue", "http://acme.example/", false},
		{"nobody", "http://acme.example/", false},
		{"nobody", "http://all.example/", true},
		{"", "http://acme.example/", false},
	} {
		if err := p.Check(row.tenant, row.url); (err == nil) != row.ok {
			t.Errorf("%s: %s: %v", row.tenant, row.url, err)
		}
	}
}

// A reason is for the log of rejected commands: it keeps what may be a secret to
// itself.
func TestReasonsAreDiscreet(t *testing.T) {
	p := policy(t, egress.Settings{})
	for _, url := range []string{
		"http://hooks.example.com/s3cret?token=s3cret", "https://u:s3cret@hooks.example.com/", "https://a/s3cret\x7f",
		"https://10.0.0.1/s3cret", "https://hooks.example.com/#s3cret", "https://hooks.example.com:22/s3cret",
		"s3cret://x", "https://ü/s3cret",
	} {
		if err := p.Check("acme", url); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestOrigins(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example.com":       "https://hooks.example.com",
		"https://hooks.example.com/":      "https://hooks.example.com",
		"HTTPS://Hooks.Example.com:443":   "https://hooks.example.com",
		"http://hooks.example.com:443":    "http://hooks.example.com:443",
		"http://10.0.0.5:8080":            "http://10.0.0.5:8080",
		"http://[FD00:0::5]:80/":          "http://[fd00::5]",
		"http://[fd00::5]:8080":           "http://[fd00::5]:8080",
		"http://169.254.169.254":          "http://169.254.169.254",
		"":                                "",
		"hooks.example.com":               "",
		"*":                               "",
		"https://*.example.com":           "",
		"https://":                        "",
		"https://hooks.example.com//":     "",
		"https://hooks.example.com/x":     "",
		"https://hooks.example.com?":      "",
		"https://hooks.example.com/?a=b":  "",
		"https://hooks.example.com#":      "",
		"https://u@hooks.example.com":     "",
		"https://hooks.example.com:0":     "",
		"https://hooks.example.com:99999": "",
		"https://hooks.example.com:":      "",
		"ftp://hooks.example.com":         "",
		"https://münchen.example":         "",
		"https://127.1":                   "",
		"https://hooks.example.com.":      "",
		"https://[::ffff:10.0.0.5]":       "",
		"https://[fe80::1%25eth0]":        "",
	} {
		o, err := egress.ParseOrigin(text)
		if want == "" {
			if err == nil || !strings.HasPrefix(err.Error(), "is not an origin: ") {
				t.Errorf("%q: %v, %v", text, o, err)
			}
			if _, err := egress.NewPolicy(egress.Settings{Allow: []string{text}}); err == nil {
				t.Errorf("%q is in an allow-list", text)
			}
		} else if err != nil || o.String() != want {
			t.Errorf("%q: %v, %v; want %s", text, o, err, want)
		}
	}
}
