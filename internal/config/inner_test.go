package config

import (
	"slices"
	"strings"
	"testing"
)

// Other hosts are pointed at an address behind which nothing listens for them: a warning, for a
// forwarder on this host may do so.
func TestAdvertisedBeyondLoopback(t *testing.T) {
	for _, c := range []struct {
		listen, advertise string
		warns             bool
	}{
		{"", "10.0.0.5:7070", true},
		{"localhost:7070", "wc-0.wc:7070", true},
		{"[::1]:7070", "[fd00::5]:7070", true},
		{"0.0.0.0:7070", "10.0.0.5:7070", false},
		{"10.0.0.5:7070", "10.0.0.5:7070", false},
		{"127.0.0.1:7070", "localhost:7071", false},
		{"127.0.0.1:7070", "", false},
		{"", "", false},
	} {
		env := []string{"WATERCLOCK_INTERNAL_SECRET=0123456789abcdef0123"}
		if c.listen != "" {
			env = append(env, "WATERCLOCK_INTERNAL_LISTEN="+c.listen)
		}
		if c.advertise != "" {
			env = append(env, "WATERCLOCK_INTERNAL_ADVERTISE="+c.advertise)
		}
		got, err := Load(Options{Env: env})
		if err != nil {
			t.Fatal(err)
		}
		warned := slices.ContainsFunc(got.Warnings, func(w string) bool {
			return strings.HasPrefix(w, "internal.listen ") && strings.Contains(w, c.advertise)
		})
		if warned != c.warns || len(got.Warnings) > 1 || !c.warns && len(got.Warnings) > 0 {
			t.Errorf("listen %q, advertise %q: warnings %q", c.listen, c.advertise, got.Warnings)
		}
	}
}
