package waterclock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary builds the waterclock command of this source once, unless test/run.sh has it. TestMain removes it.
var binary = sync.OnceValues(func() (string, error) {
	shared := filepath.Join(os.Getenv("WATERCLOCK_TEST_BUILT"), "waterclock")
	if _, err := os.Stat(shared); err == nil && filepath.IsAbs(shared) {
		return shared, nil
	}
	dir, err := os.MkdirTemp("", "waterclock-go-client-")
	if err != nil {
		return "", err
	}
	built = dir
	bin := filepath.Join(dir, "waterclock")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/waterclock")
	cmd.Dir, cmd.Env = "../../..", append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=") // the server's module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return bin, nil
})

var built string

func TestMain(m *testing.M) {
	code := m.Run()
	if built != "" {
		_ = os.RemoveAll(built)
	}
	os.Exit(code)
}

// dev is a running `waterclock dev`.
type dev struct {
	url, kafka string
	dir        string
	args       []string
	cmd        *exec.Cmd
}

func startDev(t *testing.T, more ...string) *dev {
	t.Helper()
	d := &dev{dir: filepath.Join(t.TempDir(), "data"), args: more}
	d.start(t, "127.0.0.1:0", "127.0.0.1:0")
	t.Cleanup(func() { d.kill(syscall.SIGTERM) })
	return d
}

// start returns once dev has printed its addresses.
func (d *dev) start(t *testing.T, http, kafka string) {
	t.Helper()
	bin, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"dev", "--listen", http, "--kafka-listen", kafka, "--data-dir", d.dir}, d.args...)
	d.cmd = exec.Command(bin, args...)
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WATERCLOCK_") {
			d.cmd.Env = append(d.cmd.Env, v)
		}
	}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	d.cmd.Stderr = &log
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	d.url, d.kafka = "", ""
	lines := bufio.NewScanner(out)
	for (d.url == "" || d.kafka == "") && lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) > 1 && words[0] == "Kafka":
			d.kafka = words[1]
		case len(words) > 1 && words[0] == "HTTP":
			d.url = words[1]
		}
	}
	if d.url == "" || d.kafka == "" {
		_ = d.cmd.Wait()
		t.Fatalf("dev ended before it said where it listens\n%s", log.String())
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// kill ends dev, and returns once it is gone.
func (d *dev) kill(sig os.Signal) {
	_ = d.cmd.Process.Signal(sig)
	_ = d.cmd.Wait()
}

// within returns a context with a timeout.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}
