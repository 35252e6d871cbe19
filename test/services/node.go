package services

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// home is where one service keeps its data and its copy of the scripts. It is
// the SVC_HOME of those scripts.
type home struct {
	dir      string
	env      []string
	lifeline *os.File // its closing, by us or by our death, removes dir
}

// newHome makes a directory that does not outlive this process.
func newHome(env ...string) (*home, error) {
	dir, err := os.MkdirTemp("", "waterclock-test-")
	if err != nil {
		return nil, fmt.Errorf("make a home: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL reads it as another user
		return nil, fmt.Errorf("make a home: %w", err)
	}
	lifeline, err := removeAtDeath(dir)
	if err != nil {
		return nil, fmt.Errorf("make a home: %w", err)
	}
	h := &home{dir: dir, env: append(os.Environ(), append(env, "SVC_HOME="+dir)...), lifeline: lifeline}
	homes.Store(h, true)
	if err := unpack(filepath.Join(dir, "bin")); err != nil {
		return nil, fmt.Errorf("unpack scripts: %w", err)
	}
	return h, nil
}

// script runs a script to its end and returns the KEY=value lines it prints.
func (h *home) script(name string, args ...string) (map[string]string, error) {
	cmd := exec.Command(h.path(name), args...)
	cmd.Env = h.env
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, errs.String())
	}
	vars := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			vars[k] = v
		}
	}
	return vars, nil
}

func (h *home) path(script string) string { return filepath.Join(h.dir, "bin", script) }

// remove removes the directory; its nodes must be dead.
func (h *home) remove() {
	homes.Delete(h)
	h.lifeline.Close()
}

// homes keeps every home reachable: a file that is not is closed by the
// garbage collector, and a lifeline must not be.
var homes sync.Map

// removeAtDeath starts a shell that removes dir, and the namespaces and disks of its
// nodes, once the pipe it reads from has no writer left. Only this process is one: Go opens
// pipes close-on-exec.
func removeAtDeath(dir string) (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// A dying node may still be writing: hence more than one try.
	cmd := exec.Command("sh", "-c",
		`cat; [ ! -f "$0/kafka/settings" ] || SVC_HOME="$0" "$0/bin/kafka.sh" clean; for i in 1 2 3 4 5; do rm -rf -- "$0" && exit; sleep 1; done`, dir)
	cmd.Stdin = r
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us, not for it
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // reaps it
	return w, nil
}

//go:embed *.sh *.xml conf
var scripts embed.FS

func unpack(to string) error {
	return fs.WalkDir(scripts, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.MkdirAll(filepath.Join(to, path), 0o755)
		}
		data, err := scripts.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), data, 0o755)
	})
}

// node is a process that a script's "run" becomes.
type node struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has been waited for
}

// start starts a node. It gets the signal atDeath when this process dies.
func (h *home) start(atDeath syscall.Signal, as *syscall.Credential, script string, args ...string) (*node, error) {
	n := &node{cmd: exec.Command(h.path(script), args...), done: make(chan struct{})}
	n.cmd.Env = h.env
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: atDeath, Credential: as, Setpgid: true}
	if err := onThatThread(n.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", script, err)
	}
	go func() {
		_ = n.cmd.Wait() // how it ended shows in its log
		close(n.done)
	}()
	return n, nil
}

func (n *node) alive() bool {
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

func (n *node) signal(s syscall.Signal) error { return n.cmd.Process.Signal(s) }

// stop sends s, and SIGKILL if the node still lives after timeout. It returns
// when the node is gone.
func (n *node) stop(s syscall.Signal, timeout time.Duration) error {
	_ = n.signal(syscall.SIGCONT) // a stopped process gets no other signal
	if err := n.signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-n.done:
		return nil
	case <-time.After(timeout):
	}
	if err := n.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-n.done
	return fmt.Errorf("process %d ignored %v for %v and was killed", n.cmd.Process.Pid, s, timeout)
}

// await calls ready until it returns nil. It gives up after the timeout, or when
// the node dies, with the end of its logs.
func (n *node) await(timeout time.Duration, ready func() error, logs ...string) error {
	deadline := time.After(timeout)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-n.done:
			return fmt.Errorf("%w, %v:\n%s", errDied, n.cmd.ProcessState, tails(logs))
		case <-deadline:
			return fmt.Errorf("not ready after %v: %w\n%s", timeout, err, tails(logs))
		case <-tick.C:
		}
	}
}

var errDied = errors.New("died while starting")

// tails is the last 4 KB of each file, for an error.
func tails(paths []string) string {
	var b strings.Builder
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			data = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s:\n%s\n", filepath.Base(path), data[max(0, len(data)-4096):])
	}
	return b.String()
}

// onThatThread runs f on a thread that lives as long as this process:
// PR_SET_PDEATHSIG fires when the thread that forked ends, and Go ends threads
// as it likes.
func onThatThread(f func() error) error {
	startThread.Do(func() {
		go func() {
			runtime.LockOSThread()
			for job := range jobs {
				job()
			}
		}()
	})
	errs := make(chan error)
	jobs <- func() { errs <- f() }
	return <-errs
}

var (
	startThread sync.Once
	jobs        = make(chan func())
)
