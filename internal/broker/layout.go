package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Names in Options.Dir; docs/formats/broker.md draws the directory.
const (
	lockFile    = "LOCK"
	versionFile = "VERSION"
	outcomeFile = "outcomes.log" // beside it journalName(0) and (1)
	floorsFile  = "floors.json"
	cleanedFile = "cleaned.json"
	cleanDir    = "cleaning"
	dataDir     = "kfake"
)

const (
	// layoutVersion is the version of everything in Options.Dir but kfake's
	// own files. Version 1 knew no journal; whoever opens it makes it 2.
	layoutVersion = 2
	oldestLayout  = 1
	// kfakeFormat is kfake's currentPersistVersion, which meta.json names.
	kfakeFormat = 1
	// KfakeVersion is the module version whose files we know how to repair.
	// Whoever changes it reads persist.go anew, and runs the golden tests.
	KfakeVersion = "v0.0.0-20260918054303-01f206a7e32c"
)

func versionText() string {
	return fmt.Sprintf("waterclock-broker %d kfake %d %s\n", layoutVersion, kfakeFormat, KfakeVersion)
}

// checkVersion refuses a directory that others wrote, and signs a new one.
func checkVersion(dir string) error {
	path := filepath.Join(dir, versionFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return signVersion(dir, path)
	}
	if err != nil {
		return err
	}
	if err := parseVersion(string(raw), dir); err != nil {
		return err
	}
	if err := checkKfakeFormat(dir); err != nil || string(raw) == versionText() {
		return err
	}
	return replaceFile(path, []byte(versionText()))
}

func signVersion(dir, path string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() != lockFile && e.Name() != versionFile+".tmp" {
			return fmt.Errorf("%s holds %s but no %s file, so this broker did not write it: choose an empty directory",
				dir, e.Name(), versionFile)
		}
	}
	return replaceFile(path, []byte(versionText()))
}

func parseVersion(text, dir string) error {
	var layout, format int
	var kfake string
	if n, _ := fmt.Sscanf(strings.TrimSpace(text), "waterclock-broker %d kfake %d %s", &layout, &format,
		&kfake); n < 3 {
		return fmt.Errorf("%s in %s is not readable: restore it, or move the directory away to start empty",
			versionFile, dir)
	}
	if layout > layoutVersion || format > kfakeFormat {
		return fmt.Errorf("%s was written by a newer waterclock (layout %d, kfake format %d; this one knows %d and "+
			"%d): run that version, or move the directory away to start empty", dir, layout, format, layoutVersion,
			kfakeFormat)
	}
	if layout < oldestLayout || format < kfakeFormat {
		return fmt.Errorf("%s was written by an older waterclock (layout %d, kfake format %d; this one knows %d "+
			"and %d): run that version and export, or move the directory away to start empty", dir, layout, format,
			layoutVersion, kfakeFormat)
	}
	return nil
}

// checkKfakeFormat reads what kfake itself says of its files.
func checkKfakeFormat(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, dataDir, "meta.json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var meta struct{ Version int }
	if err := json.Unmarshal(raw, &meta); err != nil {
		return fmt.Errorf("%s/meta.json is damaged, restore it from a backup: %w", dataDir, err)
	}
	if meta.Version != kfakeFormat {
		return fmt.Errorf("%s/%s is in kfake format %d and this waterclock knows %d: run the version that wrote "+
			"it, or move the directory away to start empty", dir, dataDir, meta.Version, kfakeFormat)
	}
	return nil
}
