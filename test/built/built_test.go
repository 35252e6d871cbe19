package built

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestShallowClone: who was cloned without history fetches the one commit, and
// who cannot is told what to do.
func TestShallowClone(t *testing.T) {
	if testing.Short() {
		t.Skip("clones the repository, and may need the network")
	}
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	if err := haveCommit(root, firstVersion); err != nil {
		t.Fatalf("%v: %v", errNoHistory, err)
	}
	shallow := filepath.Join(t.TempDir(), "shallow")
	if out, err := exec.Command("git", "clone", "--quiet", "--depth", "1", "file://"+root,
		shallow).CombinedOutput(); err != nil {
		t.Fatalf("git clone: %v: %s", err, out)
	}
	if exec.Command("git", "-C", shallow, "cat-file", "-e", firstVersion).Run() == nil {
		t.Fatal("a shallow clone has the commit: this tests nothing")
	}
	if err := haveCommit(shallow, firstVersion); err != nil {
		t.Errorf("a shallow clone could not fetch the commit: %v", err)
	}
	alone := t.TempDir()
	if out, err := exec.Command("git", "init", "--quiet", alone).CombinedOutput(); err != nil {
		t.Fatalf("git init: %v: %s", err, out)
	}
	err = errors.Join(errNoHistory, haveCommit(alone, firstVersion))
	if !strings.Contains(err.Error(), "WATERCLOCK_TEST_PREVIOUS") || !strings.Contains(err.Error(), "git fetch") {
		t.Errorf("without the commit: %v", err)
	}
}
