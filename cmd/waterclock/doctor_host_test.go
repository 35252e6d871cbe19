package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/internal/config"
)

// The disk counts as full below disk.reserve, or a tenth of a small one, as for the engine.
func TestDoctorOnTheDisk(t *testing.T) {
	for _, row := range []struct {
		reserve     string
		free, total uint64
		status      string
		want        string
	}{
		{"256MiB", 5 << 30, 100 << 30, "ok", "5.0 GiB free"},
		{"256MiB", 1 << 30, 100 << 30, "warn", "1.0 GiB free"},
		{"256MiB", 255 << 20, 100 << 30, "fail", "disk.reserve is 256.0 MiB"},
		{"10GiB", 5 << 30, 100 << 30, "fail", "disk.reserve is 10.0 GiB"},
		{"10GiB", 5 << 30, 20 << 30, "warn", "5.0 GiB free"},
		{"10GiB", 30 << 30, 100 << 30, "warn", "30.0 GiB free"},
		{"10GiB", 50 << 30, 100 << 30, "ok", "50.0 GiB free"},
		{"0B", 255 << 20, 100 << 30, "fail", "255.0 MiB free"},
		{"0B", 3 << 30, 100 << 30, "ok", "3.0 GiB free"},
	} {
		t.Run(fmt.Sprintf("%s, %s of %s", row.reserve, bytesText(row.free), bytesText(row.total)), func(t *testing.T) {
			c, err := config.Load(config.Options{Flags: map[string]string{"disk.reserve": row.reserve}})
			if err != nil {
				t.Fatal(err)
			}
			d := &doctor{c: c}
			d.free("/data", row.free, row.total)
			if len(d.findings) != 1 || d.findings[0].Status != row.status ||
				!strings.Contains(d.findings[0].Detail, row.want) {
				t.Errorf("it says %+v, want %s %q", d.findings, row.status, row.want)
			}
		})
	}
}

func TestDoctorOnTheDataDirectory(t *testing.T) {
	for _, row := range []struct {
		name   string
		make   func(dir string) error
		status string
		want   string
	}{
		{"missing", func(string) error { return nil }, "ok", "does not exist yet"},
		{"there", func(dir string) error { return os.Mkdir(dir, 0o700) }, "ok", "writable"},
		{"a file", func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "fail", "is not a directory"},
		{"open to all", func(dir string) error { return os.Mkdir(dir, 0o755) }, "warn", "mode 755"},
		{"of another version", func(dir string) error {
			return os.Mkdir(dir, 0o700)
		}, "fail", "written by another version"},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if err := row.make(dir); err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(row.name, "of another") {
				if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("waterclock data 99\n"),
					0o600); err != nil {
					t.Fatal(err)
				}
			}
			r := cli(t, nil, "", "doctor", "--brokers", nobody(t), "--data-dir", dir, "-o", "json", "--jq",
				`.[]|select(.check=="data dir")|.status+" "+.detail`)
			r.want(t, exitFailed, row.status+" ", row.want)
		})
	}
}
