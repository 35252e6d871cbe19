package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

// TestDevHasNoTLS: dev refuses settings of a cluster by name, before anything is started.
func TestDevHasNoTLS(t *testing.T) {
	cli(t, []string{"WATERCLOCK_KAFKA_TLS_ENABLED=true"}, "", "dev", "--data-dir", t.TempDir(), "--listen",
		"127.0.0.1:0",
		"--kafka-listen", "127.0.0.1:0").
		want(t, exitUsage, "kafka.tls.enabled")
}

// dev also listens on admin.listen. With auth enabled, the metrics are there.
func TestDevListensForAdmins(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("acme secret-of-acme-0123456789-0123456789 operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	_, url := startDev(t, "--auth-keys-file", keys, "--admin-listen", address)
	for at, want := range map[string]int{
		url + "/metrics": http.StatusNotFound, url + "/readyz": http.StatusNotFound,
		"http://" + address + "/metrics": http.StatusOK, "http://" + address + "/readyz": http.StatusOK,
	} {
		resp, err := http.Get(at)
		if err != nil {
			t.Error(err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", at, resp.StatusCode, want)
		}
	}
}
