package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/trigger"
)

func TestEmbeddedZipIsTheCalendars(t *testing.T) {
	sum := sha256.Sum256(calendar.EmbeddedZip())
	if got, want := hex.EncodeToString(sum[:]), calendar.Embedded().ID(); got != want {
		t.Errorf("tzdata_zoneinfo.zip has SHA-256 %s, package calendar's release %s: copy "+
			"calendar/tzdata/zoneinfo.zip here",
			got, want)
	}
}

// otherRelease writes a copy of the embedded release in which some zones are changed: to the
// bytes of another zone, or removed for "".
func otherRelease(t *testing.T, change map[string]string) (file string) {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(calendar.EmbeddedZip()), int64(len(calendar.EmbeddedZip())))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		from, changed := change[f.Name]
		if changed && from == "" {
			continue
		}
		if !changed {
			from = f.Name
		}
		src, err := in.Open(from)
		if err != nil {
			t.Fatal(err)
		}
		dst, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: zip.Store})
		if err == nil {
			_, err = io.Copy(dst, src)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "zoneinfo.zip")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestTZData(t *testing.T) {
	brokers := cluster(t)
	run := func(args ...string) result {
		return cli(t, nil, "", append(append([]string{"tzdata"}, args...), "--brokers", brokers)...)
	}
	own := calendar.Embedded()
	run("status").want(t, exitOK, "none applied", own.Release())
	run("status", "-o", "json", "--jq", ".active").want(t, exitOK, "null")
	run("apply", "embedded", "--dry-run").want(t, exitOK, "no clock changes")
	run("status").want(t, exitOK, "none applied")
	run("apply", "embedded").want(t, exitOK, "written")
	run("apply", "embedded").want(t, exitOK, "active already")
	run("status", "-o", "json", "--jq", ".active.sha256").want(t, exitOK, own.ID())

	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	berlin := specFrom(t, c, `{"recurrence":"FREQ=DAILY","start":"2026-11-20T09:00","timezone":"Europe/Berlin"}`)
	stand(t, brokers, "moves", trigger.Pending, berlin)
	stand(t, brokers, "finished", trigger.Fired, berlin)
	stand(t, brokers, "elsewhere", trigger.Pending, specFrom(t, c,
		`{"recurrence":"FREQ=DAILY","timezone":"Asia/Tokyo"}`))
	next := otherRelease(t, map[string]string{"Europe/Berlin": "Europe/London"})
	run("apply", next).want(t, exitUsage, "--label is missing")
	run("apply", next, "--label", "2099a", "--dry-run").want(t, exitOK, "1 zone differ", "at most 1 trigger would move",
		"Europe/Berlin")
	run("apply", next, "--label", "2099a", "--dry-run", "-o", "json", "--jq", ".triggers").want(t, exitOK, "1")
	run("apply", next, "--label", "2099a").want(t, exitOK, "written")
	run("status", "-o", "json", "--jq", `.active.label+" "+(.same|tostring)`).want(t, exitOK, "2099a false")

	lacks := otherRelease(t, map[string]string{"Europe/Berlin": ""})
	run("apply", lacks, "--label", "2099b").want(t, exitLoss, "lacks 1 zone (Europe/Berlin)", "--force")
	run("apply", lacks, "--label", "2099b", "--dry-run").want(t, exitOK, "at most 0 triggers would move",
		"lacks the zone of 1 trigger", "removed")
	run("apply", lacks, "--label", "2099b", "--dry-run", "--force").want(t, exitOK, "lacks the zone of 1 trigger",
		"carried over")
	run("apply", lacks, "--label", "2099b", "--force").want(t, exitOK, "written", "Europe/Berlin", "carried over")
	run("apply", lacks, "--label", "2099b", "--force").want(t, exitOK, "active already")
	run("status").want(t, exitOK, "2099b", "carried over", "Europe/Berlin")
	run("status", "-o", "json", "--jq", `.active.carried|join(" ")`).want(t, exitOK, "Europe/Berlin")
	// Berlin has the rules of 2099a by now.
	run("apply", next, "--label", "2099c", "--dry-run").want(t, exitOK, "no clock changes")
	bad := filepath.Join(t.TempDir(), "x.zip")
	if err := os.WriteFile(bad, []byte("no zip"), 0o600); err != nil {
		t.Fatal(err)
	}
	run("apply", bad, "--label", "2099c").want(t, exitUsage, "open zip")
	run("apply", "/does/not/exist", "--label", "2099c").want(t, exitUsage, "no such file")
	run("apply").want(t, exitUsage, "tzdata apply")
}

func TestTooManyZonesChange(t *testing.T) {
	change := map[string]string{}
	for _, name := range calendar.Embedded().Names()[:200] {
		change[name] = "Asia/Tokyo"
	}
	cli(t, nil, "", "tzdata", "apply", otherRelease(t, change), "--label", "2099a", "--brokers", cluster(t)).want(t,
		exitConflict, "suggests a broken file")
}
