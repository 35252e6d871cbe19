package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// TestSchemathesis lets schemathesis read /openapi.json and try to find an
// answer that it does not describe: a 5xx, another status, type or shape, bad
// data that is taken, a method that is said to be there and is not. It has the
// machine to itself: beside another test's brokers and crashes an honest 503
// (the owner has not answered in time) would count as a 5xx.
func TestSchemathesis(t *testing.T) {
	seconds := "40"
	if soak, err := time.ParseDuration(os.Getenv("WATERCLOCK_TEST_SOAK")); err == nil {
		seconds = strconv.Itoa(int(soak.Seconds()))
	}
	w := newDevWorld(t)
	schemathesis(t, w, "--max-time", seconds, "--max-examples", "40")
}

// TestSchemathesisWithKeys does so where a key is needed: each operation that
// says so must refuse who has none, or another.
func TestSchemathesisWithKeys(t *testing.T) {
	const key = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk"
	keys := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("acme "+key+" operator\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newDevWorld(t, "--auth-keys-file", keys)
	schemathesis(t, w, "--max-time", "15", "--phases", "coverage", "--header", "Authorization: Bearer "+key)
}

// selectedOperations is where schemathesis says how many operations it tests.
var selectedOperations = regexp.MustCompile(`Selected: (\d+)`)

func schemathesis(t *testing.T, w *world, more ...string) {
	python := services.Python(t, "venv")
	data, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Hour)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, append([]string{
		"-m", "schemathesis.cli", "--config-file", filepath.Join(data, "schemathesis.toml"),
		"run", "http://" + w.node.http + "/openapi.json",
	}, more...)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "SCHEMATHESIS_HOOKS=schemathesis_hooks", "PYTHONPATH="+data,
		"PYTHONDONTWRITEBYTECODE=1", "NO_COLOR=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("schemathesis: %v\n%s", err, out)
	}
	if found := selectedOperations.FindSubmatch(out); found == nil || atoi(t, found[1]) < 40 {
		t.Errorf("schemathesis found fewer than 40 operations:\n%s", tail(string(out), 2000))
	}
	t.Logf("%s", tail(string(out), 300))
}

func atoi(t *testing.T, digits []byte) int {
	t.Helper()
	n, err := strconv.Atoi(string(digits))
	if err != nil {
		t.Fatal(err)
	}
	return n
}
