package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
)

// TestNotifications runs the guide's blocks as one program, and looks for what its
// lines promise, in order.
func TestNotifications(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed")
	}
	dir := t.TempDir()
	d := startDev(t, "--outbox", filepath.Join(dir, "outbox"))
	page := read(t, "../docs/api/notifications.md")
	blocks := blocksOf(page, "sh run")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks", len(blocks))
	}
	program := strings.ReplaceAll(strings.Join(blocks, "\n"), "http://127.0.0.1:8080", d.url)
	cmd := shell(t, d, program)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	rest := string(text)
	for _, want := range promised(program) {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not in what is left of the output:\n%s\nall of it:\n%s", want, rest, text)
		}
		rest = after
	}
}

// The settings that the guide shows are valid.
func TestMailSettings(t *testing.T) {
	t.Setenv("SMTP_PASSWORD", "x")
	file := filepath.Join(t.TempDir(), "waterclock.yaml")
	text := oneBlock(t, read(t, "../docs/api/notifications.md"), "yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(config.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckServe(); err != nil {
		t.Error(err)
	}
	if password, err := c.SMTPPassword(); err != nil || password != "x" {
		t.Errorf("%q, %v", password, err)
	}
}
