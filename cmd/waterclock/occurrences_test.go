package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What fires stays in its order: a snoozed occurrence has the time that it had.
func TestOccurrencesKeepTheirOrder(t *testing.T) {
	at := func(all ...string) (list []upcoming) {
		for _, a := range all {
			list = append(list, upcoming{At: a})
		}
		return list
	}
	c := comingOccurrences{Items: at("10", "09", "11", "13"), LeftOut: at("08", "12", "14")}
	var got []string
	for _, o := range c.all() {
		got = append(got, o.At)
	}
	if want := "08 10 09 11 12 13 14"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %s", got, want)
	}
}

// A table of occurrences says what a calendar or a gap leaves out, where it would have been. JSON lists what fires,
// unless it is asked for the rest.
func TestOccurrencesLeftOut(t *testing.T) {
	_, url := startDev(t)
	run := func(args ...string) result {
		t.Helper()
		return cli(t, nil, "", append(args, "--url", url)...)
	}
	file := filepath.Join(t.TempDir(), "us.json")
	if err := os.WriteFile(file, []byte(`{"dates":["2060-07-05"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	run("calendar", "put", "us", file).want(t, exitOK)
	run("schedule", "day", "--every", "FREQ=DAILY", "--start", "2060-07-04T09:00", "--tz", "America/New_York",
		"--calendars", "us").want(t, exitOK)
	run("schedule", "gap", "--every", "FREQ=DAILY", "--start", "2060-03-13T02:30", "--tz", "America/New_York",
		"--dst-gap", "skip").want(t, exitOK)
	for _, c := range []struct {
		key, before, out, note, after string
	}{
		{
			"day", "2060-07-04T09:00:00", "2060-07-05T09:00:00", "does not fire: a day of calendar us",
			"2060-07-06T09:00:00",
		},
		{
			"gap", "2060-03-13T02:30:00", "2060-03-14T02:30:00",
			"does not fire: gap: skipped, clocks jump from 02:00 to 03:00", "2060-03-15T02:30:00",
		},
	} {
		r := run("occurrences", c.key, "-n", "2")
		lines := strings.Split(strings.TrimSpace(r.out), "\n")
		if len(lines) != 4 || !strings.Contains(lines[1], c.before) || !strings.Contains(lines[2], c.out) ||
			!strings.Contains(lines[2], c.note) || !strings.Contains(lines[3], c.after) {
			t.Errorf("%d\n%s%s", r.code, r.out, r.err)
		}
		const names = `.[] | "\(.occurrence) \(.left_out // false)"`
		r = run("occurrences", c.key, "-n", "2", "-o", "json", "--jq", names)
		if r.out != c.before+" false\n"+c.after+" false\n" {
			t.Errorf("JSON lists\n%s%s", r.out, r.err)
		}
		r = run("occurrences", c.key, "-n", "2", "-o", "json", "--left-out", "--jq", names)
		if r.out != c.before+" false\n"+c.out+" true\n"+c.after+" false\n" {
			t.Errorf("JSON with --left-out lists\n%s%s", r.out, r.err)
		}
	}
}
