package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
)

func TestNotifications(t *testing.T) {
	dir := t.TempDir()
	runGuide(t, startDev(t, "--outbox", filepath.Join(dir, "outbox")), dir, "../docs/api/notifications.md", 3)
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
