package node

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// A listener that would be open to everybody is refused when it is opened, whatever the cause.
// The error names the settings that help.
func TestMayListen(t *testing.T) {
	open, home := &net.TCPAddr{IP: net.IPv6zero, Port: 8080}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	host := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: 8080}
	keys := config.Auth{KeysFile: "k"}
	for _, row := range []struct {
		name, setting string
		at            net.Addr
		c             config.Config
		wants         []string // texts in the refusal; nil: no refusal
	}{
		{"loopback", "listen", home, config.Config{Roles: []string{"api"}}, nil},
		{"loopback, v6", "listen", &net.TCPAddr{IP: net.IPv6loopback}, config.Config{Roles: []string{"api"}}, nil},
		{"nobody logs in", "listen", open, config.Config{Roles: []string{"api"}}, []string{"auth.keys_file"}},
		{
			"unencrypted", "listen", open,
			config.Config{Roles: []string{"api"}, Auth: keys},
			[]string{"http.tls.cert", "http.tls_elsewhere"},
		},
		{"no API", "listen", open, config.Config{Roles: []string{"engine"}, Auth: keys}, nil},
		{"TLS", "listen", open, config.Config{
			Roles: []string{"api"}, Auth: keys, HTTP: config.HTTP{Cert: "c", Key: "k"},
		}, nil},
		{"a proxy", "listen", open, config.Config{
			Roles: []string{"api"}, Auth: keys, HTTP: config.HTTP{TLSElsewhere: true},
		}, nil},
		{"Kafka", "kafka.listen", home, config.Config{}, nil},
		{"Kafka, open", "kafka.listen", open, config.Config{Auth: keys}, []string{"kafka.listen", "SSH tunnel"}},
		{"Kafka, one host", "kafka.listen", host, config.Config{Auth: keys}, []string{"no log-in"}},
		{"instances", "internal.listen", home, config.Config{}, nil},
		{"instances, open", "internal.listen", host, config.Config{}, []string{"internal.secret"}},
		{"instances, a secret", "internal.listen", host, config.Config{Internal: config.Internal{Secret: "x"}}, nil},
		{"probes", "admin.listen", host, config.Config{}, nil},
		{"a listener without a rule", "x.listen", host, config.Config{}, []string{"x.listen"}},
	} {
		err := mayListen(&row.c, row.setting, row.at)
		var setting *SettingError
		if (err == nil) != (row.wants == nil) || err != nil && !errors.As(err, &setting) {
			t.Errorf("%s: %v", row.name, err)
		}
		for _, want := range row.wants {
			if err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %s", row.name, err, want)
			}
		}
	}
}

func TestURLOf(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skip(err)
	}
	for _, row := range []struct{ cert, address, want string }{
		{"", "127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"c.pem", "127.0.0.1:8080", "https://127.0.0.1:8080"},
		{"c.pem", "[::]:8080", "https://" + name + ":8080"},
	} {
		if got := urlOf(&config.Config{HTTP: config.HTTP{Cert: row.cert}}, row.address); got != row.want {
			t.Errorf("%s: %s, want %s", row.address, got, row.want)
		}
	}
}

// A keys file without valid keys locks everybody out, so there must be a warning.
func TestKeysFileWithoutKeys(t *testing.T) {
	for text, warned := range map[string]bool{
		"": true, "\n# none yet\n": true,
		"acme secret-of-acme-0123456789-0123456789\n": false,
	} {
		file := filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		n := &node{
			cfg: &config.Config{Auth: config.Auth{KeysFile: file}},
			log: slog.New(slog.NewTextHandler(&said, nil)),
		}
		if _, err := n.authenticator(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(said.String(), "has no keys"); got != warned {
			t.Errorf("%q: %s", text, said.String())
		}
	}
}

// A tenant with a list of channels may change every trigger that it may register: a change of the
// time names no channel.
func TestAdmitChannels(t *testing.T) {
	n := &node{cfg: &config.Config{Tenants: map[string]*config.Tenant{
		"acme": {Channels: []string{"push"}},
		"blue": {},
	}}}
	for _, row := range []struct {
		tenant, command string
		ok              bool
	}{
		{"acme", `{"op":"register","delay":"1m","channel":"push"}`, true},
		{"acme", `{"op":"register","delay":"1m","channel":"sms"}`, false},
		{"acme", `{"op":"register","delay":"1m"}`, false},
		{"blue", `{"op":"register","delay":"1m","channel":"sms"}`, true},
		{"acme", `{"op":"reschedule","delay":"1m"}`, true},
		{"acme", `{"op":"snooze","for":"1m"}`, true},
		{"acme", `{"op":"cancel"}`, true},
	} {
		c, err := topics.DecodeCommand(&topics.Record{Key: []byte(row.tenant + "/x"), Value: []byte(row.command)},
			topics.Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if refused := n.admit(row.tenant, c); (refused == nil) != row.ok {
			t.Errorf("%s: %s: %v", row.tenant, row.command, refused)
		}
	}
}

// A callback's URL is checked of every tenant, also of one that may use all channels.
func TestAdmitCallbacks(t *testing.T) {
	policy, err := egress.NewPolicy(egress.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{cfg: &config.Config{Tenants: map[string]*config.Tenant{
		"acme": {Channels: []string{"webhook"}},
	}}, egress: policy}
	for _, tenant := range []string{"acme", "blue"} {
		c, err := topics.DecodeCommand(&topics.Record{Key: []byte(tenant + "/x"), Value: []byte(
			`{"op":"register","delay":"1m","channel":"webhook","callback":{"url":"http://169.254.169.254/"}}`,
		)}, topics.Limits{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if refused := n.admit(tenant, c); refused == nil || refused.Code != trigger.CodeForbiddenURL {
			t.Errorf("%s: %v", tenant, refused)
		}
	}
}
