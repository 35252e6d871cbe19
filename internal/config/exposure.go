package config

import (
	"fmt"
	"net"
	"net/netip"
)

// Exposure says why a listener may not be at an address: beyond loopback each
// needs a lock of its kind. It is asked with what the settings say, and again with
// what was opened. The key is the setting to change; "" means that all is well.
func (c *Config) Exposure(listener, address string) (key, problem string) {
	if loopback(address) {
		return "", ""
	}
	switch listener {
	case "listen":
		return c.apiExposure(address)
	case "kafka.listen":
		return "kafka.listen", fmt.Sprintf("%s can be reached from other machines, and the broker inside dev has no "+
			"log-in: anybody who reaches it can read and write all tenants' triggers. Listen on 127.0.0.1. From "+
			"other machines use the HTTP API with auth.keys_file and http.tls.cert, an SSH tunnel for Kafka "+
			"clients, or serve with "+
			"a Kafka cluster that has TLS, log-ins and ACLs", address)
	case "internal.listen":
		if c.Internal.Secret == "" {
			return "internal.secret", fmt.Sprintf("is unset, but internal.listen %s can be reached from other "+
				"machines: give all instances the same secret", address)
		}
	case "admin.listen": // probes and metrics alone, without a log-in: docs/operations/security.md
	default:
		return listener, "is not a listener of Waterclock"
	}
	return "", ""
}

func (c *Config) apiExposure(address string) (key, problem string) {
	switch {
	case !c.Auth.On():
		return "listen", fmt.Sprintf("%s can be reached from other machines without a log-in: set auth.keys_file or "+
			"auth.oidc.issuer, or listen on 127.0.0.1", address)
	case c.HasRole("api") && c.HTTP.Cert == "" && !c.HTTP.TLSElsewhere:
		return "listen", fmt.Sprintf("%s: credentials would be sent unencrypted: set http.tls.cert and "+
			"http.tls.key, or http.tls_elsewhere=true where a proxy in front terminates TLS, or "+
			"listen on 127.0.0.1", address)
	}
	return "", ""
}

// checkExposure keeps what has no lock off the network.
func (l *loader) checkExposure() {
	for _, at := range []struct{ listener, address string }{
		{"listen", l.c.Listen},
		{"kafka.listen", l.c.Kafka.Listen},
		{"internal.listen", l.c.Internal.Listen},
		{"admin.listen", l.c.Admin.Listen},
	} {
		if key, problem := l.c.Exposure(at.listener, at.address); key != "" {
			l.at(key, "%s", problem)
		}
	}
}

// loopback says that an address is on this machine only; what cannot be
// parsed is reported elsewhere.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err != nil || loopbackHost(host)
}

func loopbackHost(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
