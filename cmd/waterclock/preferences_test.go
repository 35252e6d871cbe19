package main

import (
	"net"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/test/services"
)

// The output of get is valid input for set, and set replaces everything.
func TestPreferences(t *testing.T) {
	_, url := startDev(t)
	run := func(in string, args ...string) result {
		return cli(t, nil, in, append(append([]string{"preferences"}, args...), "--url", url)...)
	}
	ok := func(r result, said ...string) result {
		t.Helper()
		r.want(t, exitOK, said...)
		return r
	}
	const defaults = `{"opted_out_channels":[],"preferred_channels":[],"notification_types":{},"quiet_hours":{},"addresses":{}}`
	same := func(r result, want string) {
		t.Helper()
		if got := strings.Join(strings.Fields(r.out), ""); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	same(ok(run("", "get", "ada", "-o", "ndjson")), defaults)
	ok(run("", "get", "ada"), "the defaults: everything is wanted, at every hour")
	r := ok(run(`{"opted_out_channels":["SMS"],"timezone":"Europe/Berlin","quiet_hours":{"from":"22:00","to":"07:00"},
		"notification_types":{"news":{"push":false}},"locale":"de"}`, "set", "ada"), "sms", "22:00 to 07:00",
		"Europe/Berlin", "news on push: false")
	if strings.Contains(r.out, "email") {
		t.Errorf("an empty row: %s", r.out)
	}
	whole := ok(run("", "get", "ada", "-o", "ndjson")).out
	same(ok(run(whole, "set", "ada", "-", "-o", "ndjson")), strings.Join(strings.Fields(whole), ""))
	same(ok(run(`{}`, "set", "ada", "-o", "ndjson")), defaults)
	run(`{"timezone":"Europe/Berln"}`, "set", "ada").want(t, exitUsage, "unknown_zone", "Europe/Berlin")
	run(`{"quiet":1}`, "set", "ada").want(t, exitUsage, "unknown_field")
	run(`timezone: UTC`, "set", "ada").want(t, exitUsage, "not JSON")
	run("", "set", "ada", "/nowhere.json").want(t, exitUsage, "/nowhere.json")
	run("", "get").want(t, exitUsage, "USER")
}

// The doctor connects and does not show the password.
func TestDoctorPreferences(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // now nothing listens there
	check := func(at string) string {
		r := cli(t, []string{"WATERCLOCK_POSTGRES_URL=" + at}, "", "doctor", "--brokers", "127.0.0.1:1",
			"--data-dir", t.TempDir(), "-o", "json", "--jq", `.. | objects | select(.check?=="preferences") | .status+": "+.detail`)
		return r.out + r.err
	}
	if got := check("postgres://u:hunter2@" + ln.Addr().String() + "/x"); !strings.Contains(got, "fail: ") ||
		strings.Contains(got, "hunter2") {
		t.Errorf("nobody there: %s", got)
	}
	if got := check(services.Postgres(t)); !strings.Contains(got, "ok: PostgreSQL") {
		t.Errorf("a server: %s", got)
	}
	if got := check(""); strings.Contains(got, "ok: PostgreSQL") {
		t.Errorf("no setting: %s", got)
	}
}
