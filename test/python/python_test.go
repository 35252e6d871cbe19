package python

import (
	"archive/zip"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/services"
)

const client = "../../clients/python"

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// TestPythonClient runs the client's tests with the installed wheel. None may be
// skipped.
func TestPythonClient(t *testing.T) {
	if testing.Short() {
		t.Skip("needs what test/setup.sh installs")
	}
	t.Parallel()
	bin, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	site := install(t, wheel(t))
	env := []string{
		"WATERCLOCK_BIN=" + bin, "PYTHONPATH=" + site, "WATERCLOCK_TEST_KAFKA=" + services.Kafka(t).Bootstrap,
	}
	out := run(t, env, "-m", "pytest", "-p", "no:cacheprovider",
		"-o", "pythonpath=", "--basetemp", filepath.Join(t.TempDir(), "pytest"), "--durations", "5")
	summary := regexp.MustCompile(`(?m)^.*\d+ passed.*$`).FindString(out)
	if summary == "" || strings.Contains(summary, "skipped") || strings.Contains(summary, "deselected") {
		t.Fatalf("not all tests ran:\n%s", out)
	}
	t.Log(summary)
}

// TestPythonTypes checks the types of the client, its tests and its benchmark,
// strictly.
func TestPythonTypes(t *testing.T) {
	if testing.Short() {
		t.Skip("needs what test/setup.sh installs")
	}
	t.Parallel()
	run(t, nil, "-m", "mypy", "--cache-dir", t.TempDir())
}

// TestPythonWheel: the wheel has the package with its types, and nothing else.
func TestPythonWheel(t *testing.T) {
	if testing.Short() {
		t.Skip("needs what test/setup.sh installs")
	}
	t.Parallel()
	r, err := zip.OpenReader(wheel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		if top, _, _ := strings.Cut(f.Name, "/"); top != "waterclock" && !strings.HasSuffix(top, ".dist-info") {
			t.Errorf("%s is in the wheel", f.Name)
		}
	}
	for _, want := range []string{
		"waterclock/py.typed", "waterclock/worker/run.py", "waterclock/worker/prometheus.py",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not in the wheel: %q", want, names)
		}
	}
}

// wheel builds the wheel, without a network.
func wheel(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	run(t, nil, "-m", "pip", "wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-w", dir, ".")
	found, err := filepath.Glob(filepath.Join(dir, "waterclock-*-py3-none-any.whl"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q, %v", found, err)
	}
	return found[0]
}

// install installs a wheel into a directory of its own.
func install(t *testing.T, wheel string) string {
	t.Helper()
	site := t.TempDir()
	run(t, nil, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", site, wheel)
	return site
}

// run runs Python in the client's directory and returns what it printed. What
// hangs is killed with its children.
func run(t *testing.T, env []string, args ...string) string {
	t.Helper()
	python := services.Python(t, "venv")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, args...)
	cmd.Dir = client
	cmd.Env = append(append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1"), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("python %s: %v; if something is missing, type  make setup\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
