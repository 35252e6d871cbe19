package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// whoami says who one is, and reveal prints a payload to whom may read it, and is on record.
func TestWhoamiAndReveal(t *testing.T) {
	const viewer, operator = "viewer-0123456789abcdef0123456789", "operator-0123456789abcdef01234567"
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("acme "+viewer+" viewer vera\nacme "+operator+" operator olga\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	kafka, url := startDev(t, "--set", "auth.keys_file="+keys)
	as := func(key string, args ...string) result {
		t.Helper()
		return cli(t, []string{"WATERCLOCK_API_KEY=" + key}, "", append(args, "--url", url)...)
	}
	as(operator, "whoami").want(t, exitOK, "actor", "olga", "acme", "operator", "read, payloads, act, write, operate",
		"waterclock.*", kafka)
	as(operator, "whoami", "-o", "json", "--jq", ".actor, .roles[0], .history").want(t, exitOK, "olga\noperator\ntrue")
	if r := as(viewer, "whoami"); strings.Contains(r.out, "brokers") || !strings.Contains(r.out, "vera") {
		t.Error(r.out)
	}
	as("none", "whoami").want(t, exitFailed, "WATERCLOCK_API_KEY")
	cli(t, nil, "", "whoami", "--brokers", kafka).want(t, exitUsage, "name it with --url")

	as(operator, "schedule", "pills", "--in", "1h", "--data", `{"z":12345678901234567890,"a":"Take pills"}`).want(t,
		exitOK)
	as(operator, "schedule", "bare", "--in", "1h").want(t, exitOK)
	if err := os.WriteFile(keys+".bytes", []byte{0xff}, 0o600); err != nil {
		t.Fatal(err)
	}
	as(operator, "schedule", "bytes", "--in", "1h", "--data", "@"+keys+".bytes").want(t, exitOK)
	as(operator, "reveal", "bytes").want(t, exitOK, "payload_base64  /w==")
	as(viewer, "get", "pills").want(t, exitOK, "payload_hidden")
	as(viewer, "reveal", "pills").want(t, exitFailed, "forbidden")
	as(operator, "reveal", "pills", "--note", "the user has asked").want(t, exitOK, "pills", "revision",
		`{"z":12345678901234567890,"a":"Take pills"}`)
	as(operator, "reveal", "pills", "-o", "ndjson").want(t, exitOK,
		`{"trigger_id":"pills","revision":1,"payload":{"z":12345678901234567890,"a":"Take pills"}}`)
	as(operator, "reveal", "bare").want(t, exitOK, "there is none")
	as(operator, "reveal", "pilsl").want(t, exitNotFound, "no such trigger", "pills")
	as(operator, "audit", "--verb", "reveal", "-o", "json", "--jq",
		`.[] | "\(.actor) \(.trigger) \(.status) \(.note // "")"`).want(t, exitOK,
		"olga acme/pills 200 the user has asked", "vera acme/pills 403")
	as(operator, "erase", "pills").want(t, exitOK)
	as(operator, "reveal", "pills").want(t, exitNotFound)
}
