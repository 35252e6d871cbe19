package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The preview renders a template as a worker would, and reports its mistakes.
func TestTemplatesPreview(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(in string, args ...string) result {
		return cli(t, nil, in, append([]string{"templates", "preview", "--templates-dir", dir}, args...)...)
	}
	write("pills.tmpl", `{{ define "title" }}{{ .Data.n }} pills at {{ .LocalTime.Clock }}{{ end }}`)
	write("pills.de.tmpl", `{{ define "title" }}{{ .Data.n }} Tabletten{{ end }}`)
	run("", "pills", "--data", `{"n":1234567}`, "--at", "2026-11-20T08:00:00Z", "--tz", "Asia/Tokyo").
		want(t, exitOK, "1234567 pills at 17:00")
	run(`{"n":2}`, "pills", "--data", "-", "--locale", "de-AT", "-o", "json").
		want(t, exitOK, `"title": "2 Tabletten"`, `"locale": "de"`)
	run("", "pills").want(t, exitFailed, "pills.tmpl:1", `no entry for key "n"`)
	run("", "pill").want(t, exitNotFound, `no template "pill"`, "pills")
	run("", "pills", "--data", "[]").want(t, exitUsage, "--data")
	run("", "pills", "--channel", "fax").want(t, exitUsage, "push, sms or email")
	run("", "pills", "--at", "noon").want(t, exitUsage, "--at")
	run("", "pills", "--tz", "Mars").want(t, exitUsage, "--tz")
	cli(t, nil, "", "templates", "preview", "pills").want(t, exitUsage, "templates.dir")
	write("bad.tmpl", "{{ define \"title\" }}\n{{ nope }}{{ end }}")
	run("", "pills").want(t, exitUsage, "bad.tmpl:2", `"nope" not defined`)
}
