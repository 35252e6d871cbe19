package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// binary is built once for all tests.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "waterclock-e2e-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "waterclock")
	out, err := exec.Command("go", "build", "-o", file, "../../cmd/waterclock").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if file, err := binary(); err == nil {
		os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// process is one running waterclock.
type process struct {
	t    *testing.T
	args []string
	http string
	log  string
	cmd  *exec.Cmd
	done chan struct{}
}

// start runs waterclock with a free HTTP port; the log is shown if the test fails.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, http: freeAddr(t), log: filepath.Join(t.TempDir(), name+".log")}
	p.args = append(args, "--listen", p.http)
	p.launch()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		if t.Failed() { // what it was doing goes to the log
			p.signal(syscall.SIGQUIT)
			time.Sleep(time.Second)
		}
		p.kill()
		if t.Failed() {
			b, _ := os.ReadFile(p.log)
			if keep := os.Getenv("WATERCLOCK_TEST_KEEP"); keep != "" {
				_ = os.WriteFile(filepath.Join(keep, name+".log"), b, 0o600)
			}
			t.Logf("--- %s\n%s", name, tail(string(b), 6000))
		}
	})
	return p
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *process) launch() {
	p.t.Helper()
	file, err := binary()
	if err != nil {
		p.t.Fatal(err)
	}
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(file, p.args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

// kill is kill -9, and waits until the process is gone.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// ready waits for /readyz.
func (p *process) ready(within time.Duration) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	for ctx.Err() == nil {
		select {
		case <-p.done:
			b, _ := os.ReadFile(p.log)
			p.t.Fatalf("the process ended:\n%s", tail(string(b), 3000))
		default:
		}
		if resp, err := http.Get("http://" + p.http + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	p.t.Fatalf("not ready within %v", within)
}

// run is one call of the command line; it returns standard output.
func run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := try(t, args...)
	if err != nil {
		t.Fatalf("waterclock %s: %v", strings.Join(args, " "), err)
	}
	return out
}

func try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

func freeAddr(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}
