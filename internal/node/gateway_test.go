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
	"github.com/waterclock/waterclock/topics"
)

// An API in the clear beyond loopback is refused, and the words name the
// settings that help.
func TestMayListen(t *testing.T) {
	open, home := &net.TCPAddr{IP: net.IPv6zero, Port: 8080}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}
	for _, row := range []struct {
		name string
		at   net.Addr
		c    config.Config
		ok   bool
	}{
		{"loopback", home, config.Config{Roles: []string{"api"}}, true},
		{"open", open, config.Config{Roles: []string{"api"}}, false},
		{"no API", open, config.Config{Roles: []string{"engine"}}, true},
		{"TLS", open, config.Config{Roles: []string{"api"}, HTTP: config.HTTP{Cert: "c", Key: "k"}}, true},
		{"a proxy", open, config.Config{Roles: []string{"api"}, HTTP: config.HTTP{TLSElsewhere: true}}, true},
	} {
		err := mayListen(&row.c, row.at)
		if (err == nil) != row.ok {
			t.Errorf("%s: %v", row.name, err)
		}
		if err == nil {
			continue
		}
		var setting *SettingError
		if !errors.As(err, &setting) || !strings.Contains(setting.Msg, "http.tls.cert") ||
			!strings.Contains(setting.Msg, "http.tls_elsewhere") {
			t.Errorf("%s: %v", row.name, err)
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

// Keys that are none lock everybody out: somebody should say so.
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

// A tenant with a list of channels may change whatever it may register: a
// change of the time names no channel.
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
