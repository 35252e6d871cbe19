package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// binary is what users run; strikable can be told to strike itself at a step of
// the turn, or to be built wrong.
var (
	binary    = built.Waterclock
	strikable = built.Failpoints
)

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// process is one running waterclock.
type process struct {
	t    *testing.T
	file string // the binary
	args []string
	env  []string // besides ours
	http string
	log  string

	admin string // where /readyz is, also beside auth
	cmd   *exec.Cmd
	done  chan struct{}

	leaving bool // it was asked to end
}

// start runs waterclock with a free HTTP port; the log is shown if the test fails.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return startAs(t, name, file, nil, args...)
}

// startAs is start of another binary, or with more in its environment.
func startAs(t *testing.T, name, file string, env []string, args ...string) *process {
	t.Helper()
	p := &process{
		t: t, file: file, env: env, http: built.FreeAddr(t), admin: built.FreeAddr(t),
		log: filepath.Join(t.TempDir(), name+".log"),
	}
	p.args = append(args, "--listen", p.http, "--admin-listen", p.admin)
	p.launch()
	t.Cleanup(func() {
		p.signal(syscall.SIGCONT)
		logged := p.logged()
		if t.Failed() { // what it was doing goes to the log
			p.signal(syscall.SIGQUIT)
			time.Sleep(time.Second)
		}
		p.kill()
		if t.Failed() {
			all := p.logged()
			if keep := os.Getenv("WATERCLOCK_TEST_KEEP"); keep != "" {
				_ = os.WriteFile(filepath.Join(keep, name+".log"), []byte(all), 0o600)
			}
			t.Logf("--- %s\n%s", name, tail(logged, 6000))
			t.Logf("--- %s, what its goroutines did\n%s", name, head(strings.TrimPrefix(all, logged), 3000))
		}
	})
	return p
}

func (p *process) logged() string {
	b, _ := os.ReadFile(p.log)
	return string(b)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
func head(s string, n int) string { return s[:min(n, len(s))] }

func (p *process) launch() {
	p.t.Helper()
	log, err := os.OpenFile(p.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	p.cmd = exec.Command(p.file, p.args...)
	p.cmd.Env = append(os.Environ(), p.env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.done, p.leaving = make(chan struct{}), false
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

// ended says whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// stop asks the process to end, and kills it when it does not within a time.
func (p *process) stop(within time.Duration) {
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(within):
		p.kill()
	}
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
		if resp, err := http.Get("http://" + p.admin + "/readyz"); err == nil {
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

// dataDir is where a process keeps its data.
func (p *process) dataDir() string {
	for i, a := range p.args {
		if a == "--data-dir" {
			return p.args[i+1]
		}
	}
	return ""
}
