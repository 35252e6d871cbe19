package java

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/services"
)

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// within bounds all of it. It takes a minute on two cores at rest.
const within = 15 * time.Minute

// TestClient runs every test of the Java client: the whole conformance file, the
// worker, servers and workers that are killed, and the programs of the guide.
// What Maven needs is there after test/setup.sh; nothing is asked of a network.
func TestClient(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs Maven and some JVMs")
	}
	if _, err := exec.LookPath("mvn"); err != nil {
		t.Fatalf("%v: run test/setup.sh", err)
	}
	binary, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	jars, err := services.KafkaJars() // beside them is what test/setup.sh has fetched
	if err != nil {
		t.Fatal(err)
	}
	project, err := filepath.Abs("../../clients/java")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-ntp", "-q", "-o", "-Dbuild.dir="+t.TempDir(),
		"-Dmaven.repo.local="+filepath.Join(filepath.Dir(jars), "maven"), "test")
	cmd.Dir, cmd.Env = project, append(os.Environ(), "WATERCLOCK_BIN="+binary)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its JVMs and dev
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("mvn test: %v (if an artifact is missing: test/setup.sh)\n%s", err, tail(out.String(), 200))
	}
}

// tail is the last n lines, each cut.
func tail(text string, n int) string {
	lines := strings.Split(text, "\n")
	lines = lines[max(0, len(lines)-n):]
	for i, line := range lines {
		lines[i] = line[:min(len(line), 500)]
	}
	return strings.Join(lines, "\n")
}
