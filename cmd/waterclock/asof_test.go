package main

import (
	"strings"
	"testing"
	"time"
)

// A complete process shows a trigger as it was between two changes.
func TestGetAsOf(t *testing.T) {
	kafka, url := startDev(t)
	run := func(args ...string) result {
		return cli(t, nil, "", append([]string{"--brokers", kafka, "--url", url}, args...)...)
	}
	at := func() string { // an instant in the past, after the last change
		time.Sleep(2 * time.Millisecond)
		now := time.Now()
		time.Sleep(2 * time.Millisecond)
		return now.UTC().Format(time.RFC3339Nano)
	}
	before := at()
	run("schedule", "k", "--in", "5h", "--channel", "orders", "--tag", "team=seats").want(t, exitOK)
	planned := at()
	run("pause", "k").want(t, exitOK)
	paused := at()
	run("resume", "k").want(t, exitOK)
	run("run", "k").want(t, exitOK)
	run("cancel", "k").want(t, exitOK)
	cancelled := at()

	show := func(at, filter, want string) {
		t.Helper()
		run("get", "k", "--as-of", at, "--jq", filter).want(t, exitOK, want)
	}
	const all = `[.state, .revision, (.next_fire_at != null), .delay, .channel, .tags.team, .attempt] | tostring`
	show(planned, all, `["PENDING",1,true,"5h","orders","seats",0]`)
	show(paused, all, `["PAUSED",2,false,"5h","orders","seats",0]`)
	show(cancelled, all, `["CANCELLED",4,false,"5h","orders","seats",1]`)
	run("get", "k", "--as-of", before).want(t, exitNotFound, "at that instant")
	run("get", "k", "--as-of", "soon").want(t, exitUsage, "as_of is an instant such as")
	run("get", "k", "--as-of", "").want(t, exitUsage, "--as-of is empty")
	if now := run("get", "k", "--jq", ".state"); !strings.Contains(now.out, "CANCELLED") {
		t.Errorf("now it is %s", now.out)
	}
}
