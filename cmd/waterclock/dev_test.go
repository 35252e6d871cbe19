package main

import "testing"

// TestDevHasNoTLS: settings of a cluster are refused by name, before anything
// is started.
func TestDevHasNoTLS(t *testing.T) {
	cli(t, []string{"WATERCLOCK_KAFKA_TLS_ENABLED=true"}, "", "dev", "--data-dir", t.TempDir(), "--listen", "127.0.0.1:0", "--kafka-listen", "127.0.0.1:0").
		want(t, exitUsage, "kafka.tls.enabled")
}
