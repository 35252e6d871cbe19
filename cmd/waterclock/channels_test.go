package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A channel that a command created is listed. It can be removed once no trigger names it.
func TestChannels(t *testing.T) {
	w := devInProcess(t, nil, "--data-dir", filepath.Join(t.TempDir(), "dev"))
	defer w.end()
	run := func(args ...string) result {
		t.Helper()
		return cli(t, nil, "", append(args, "--url", w.http)...)
	}
	run("schedule", "k", "--in", "1h", "--channel", "typo").want(t, exitOK)
	list := run("channels", "list", "-o", "ndjson")
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(list.out, `"typo"`); {
		if time.Now().After(deadline) { // its topic is created outside the turn
			t.Fatalf("listed are %s", list.out)
		}
		list = run("channels", "list", "-o", "ndjson")
	}
	if !strings.Contains(list.out, `"name":"sms"`) || strings.Contains(list.out, `.high"`) {
		t.Errorf("listed are %s", list.out)
	}
	run("channels", "remove", "typo").want(t, exitConflict, "triggers that have not ended name the channel")
	run("channels", "remove", "sms").want(t, exitConflict, "the channel always exists")
	run("channels", "remove", "none").want(t, exitNotFound)
	run("cancel", "k").want(t, exitOK)
	run("channels", "remove", "typo").want(t, exitOK, "removed")
	if after := run("channels", "list"); strings.Contains(after.out, "typo") {
		t.Errorf("listed are %s", after.out)
	}
	cli(t, nil, "", "channels", "list", "--brokers", "127.0.0.1:1").want(t, exitUsage, "name it with --url")
}
