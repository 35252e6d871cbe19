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
// worker, servers and workers that are killed, real Kafka, and the programs of the
// guide.
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
	target := t.TempDir()
	cmd := exec.CommandContext(ctx, "mvn", "-B", "-ntp", "-q", "-o", "-Dbuild.dir="+target,
		"-Dmaven.repo.local="+filepath.Join(filepath.Dir(jars), "maven"), "test")
	cmd.Dir, cmd.Env = project, append(os.Environ(), "WATERCLOCK_BIN="+binary,
		"WATERCLOCK_TEST_KAFKA="+services.Kafka(t).Bootstrap, "MAVEN_OPTS=-XX:TieredStopAtLevel=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its JVMs and dev
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("mvn test: %v (if an artifact is missing: test/setup.sh)\n%s", err, tail(out.String(), 200))
	}
	noneSkipped(t, filepath.Join(target, "surefire-reports"))
}

// noneSkipped reads Maven's reports, one for each class of tests.
func noneSkipped(t *testing.T, dir string) {
	t.Helper()
	reports, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil || len(reports) == 0 {
		t.Fatalf("no reports of tests: %v", err)
	}
	for _, report := range reports {
		b, err := os.ReadFile(report)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(b), "Skipped: 0") {
			t.Errorf("not all tests ran: %s", b)
		}
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
