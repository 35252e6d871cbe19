package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// putPEM writes a file of a directory.
func putPEM(t *testing.T, dir, name, kind string, der []byte) string {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pairOf writes a certificate and its key.
func pairOf(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	like := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"a"}, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, like, like, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return putPEM(t, dir, "cert", "CERTIFICATE", der), putPEM(t, dir, "key", "PRIVATE KEY", pkcs8)
}

// What `serve` refuses at its start, `config validate --serve` lists, all at once.
func TestValidateServe(t *testing.T) {
	cert, key := pairOf(t)
	_, other := pairOf(t)
	dir := t.TempDir()
	keys := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	good, short := keys("good", "acme 0123456789abcdef0123456789abcdef\n"), keys("short", "acme short\n")
	for _, row := range []struct {
		name     string
		settings []string
		code     int
		want     []string
	}{
		{"all fits", []string{
			"http.tls.cert=" + cert, "http.tls.key=" + key, "internal.tls.cert=" + cert, "internal.tls.key=" + key,
			"internal.tls.ca=" + cert, "auth.keys_file=" + good,
		}, exitOK, []string{"ok"}},
		{
			"the key of another certificate",
			[]string{"http.tls.cert=" + cert, "http.tls.key=" + other},
			exitUsage,
			[]string{"http.tls"},
		},
		{"everything", []string{
			"http.tls.cert=" + cert, "http.tls.key=" + other, "internal.tls.cert=" + cert,
			"internal.tls.key=" + other, "auth.keys_file=" + short, "roles=engine,api,history",
			"kafka.tls.enabled=true", "kafka.tls.ca=" + good, // no certificate
			"cassandra.tls.enabled=true", "cassandra.tls.ca=" + good,
		}, exitUsage, []string{
			"http.tls", "internal.tls", "auth.keys_file", "cassandra.hosts", "kafka.tls.ca", "cassandra.tls.ca",
		}},
		{
			"no key is read where there is no API",
			[]string{"roles=engine", "auth.keys_file=" + short},
			exitOK,
			[]string{"ok"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			args := []string{"config", "validate", "--serve"}
			for _, s := range row.settings {
				args = append(args, "--set", s)
			}
			cli(t, nil, "", args...).want(t, row.code, row.want...)
		})
	}
}
