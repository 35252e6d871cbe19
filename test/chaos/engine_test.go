package chaos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

// engine is one process of waterclock serve, and what it lives in.
type engine struct {
	w     *world
	name  string
	roles string
	guest services.Guest // where it has a namespace
	links []*link        // where it has not: its way to each broker
	url   string
	probe string // where /readyz is: beyond loopback it is not the API's
	dir   string // its data
	log   string

	mu     sync.Mutex
	file   string // the binary
	cmd    *exec.Cmd
	done   chan struct{}
	wanted bool // to run: who ends by himself is started again
}

// launch starts the process, and watches it.
func (e *engine) launch() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wanted = true
	if e.done == nil || ended(e.done) {
		e.start()
	}
}

// start does so; the lock is held.
func (e *engine) start() {
	log, err := os.OpenFile(e.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		e.w.t.Error(err)
		return
	}
	defer log.Close()
	line := e.line()
	e.cmd = exec.Command(line[0], line[1:]...)
	e.cmd.Env = append(os.Environ(), "FAILPOINTS_DIAL="+dialMap(e.links))
	e.cmd.Stdout, e.cmd.Stderr = log, log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	done := make(chan struct{})
	e.done = done
	cmd := e.cmd
	if err := cmd.Start(); err != nil {
		e.w.t.Error(err)
		close(done)
		return
	}
	go func() {
		_ = cmd.Wait() // how it ended shows in its log
		close(done)
		e.restart(done)
	}()
}

func (e *engine) line() []string {
	var line []string
	if e.guest.Namespace != "" {
		line = []string{"ip", "netns", "exec", e.guest.Namespace}
	}
	line = append(line, e.file, "serve", "--config", e.w.config, "--roles", e.roles, "--data-dir", e.dir, "--listen",
		strings.TrimPrefix(e.url, "http://"), "--admin-listen", strings.TrimPrefix(e.probe, "http://"))
	if e.guest.Addr != "" {
		line = append(line, "--internal-listen", e.guest.Addr+":7070")
	}
	return line
}

// restart is the supervisor: a process that ends by itself is started again
// after a second.
func (e *engine) restart(life chan struct{}) {
	time.Sleep(time.Second)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.wanted || e.done != life {
		return
	}
	e.w.surprise(e.name, lastLine(e.log))
	e.start()
}

func ended(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// lastLine is what a process said last, for the summary.
func lastLine(file string) string {
	b, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	last := lines[len(lines)-1]
	return last[:min(300, len(last))]
}

// end signals the process, and kills it when it does not go; the supervisor lets
// it rest.
func (e *engine) end(s syscall.Signal, within time.Duration) {
	e.mu.Lock()
	e.wanted = false
	cmd, done := e.cmd, e.done
	e.mu.Unlock()
	if done == nil {
		return
	}
	_ = cmd.Process.Signal(syscall.SIGCONT)
	_ = cmd.Process.Signal(s)
	select {
	case <-done:
		return
	case <-time.After(within):
	}
	if s != syscall.SIGKILL {
		e.w.t.Errorf("%s did not end within %v of %v", e.name, within, s)
	}
	_ = cmd.Process.Kill()
	<-done
}

func (e *engine) kill() { e.end(syscall.SIGKILL, time.Minute) }
func (e *engine) stop() { e.end(syscall.SIGTERM, 30*time.Second) }

// freeze is SIGSTOP, until thaw.
func (e *engine) freeze() { e.signal(syscall.SIGSTOP) }
func (e *engine) thaw()   { e.signal(syscall.SIGCONT) }

func (e *engine) signal(s syscall.Signal) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_ = e.cmd.Process.Signal(s)
}

// store is what the engine keeps on disk of its partitions.
func (e *engine) store() string { return filepath.Join(e.dir, "store") }

// ready says why the engine is not.
func (e *engine) ready() error { return e.ask(e.probe+"/readyz", nil) }

// ask makes one request; the answer must be 200.
func (e *engine) ask(url string, into any) error {
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := e.w.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s %s", e.name, url, resp.Status, strings.TrimSpace(string(b)))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(b, into)
}

// partition is what an engine says of one.
type partition struct {
	Partition int32
	Owner     string
	Ready     bool
	Doing     string
	Refused   string
	Pending   int64
	Lag       int64   `json:"commands_lag"`
	Overdue   float64 `json:"oldest_overdue_seconds"`
}

// healthy says what keeps the engines from being as before a fault: each ready,
// and of all partitions one sees none without a ready owner, behind or overdue.
func (w *world) healthy() error {
	behind, overdue := int64(200), 2.0
	if w.load.rate.Load() == 0 { // nothing is under way
		behind, overdue = 0, 0
	}
	for _, e := range w.engines {
		if err := e.ready(); err != nil {
			return err
		}
	}
	list, err := w.partitions()
	if err != nil {
		return err
	}
	var all error
	for _, p := range list {
		if !p.Ready || p.Overdue > overdue || p.Lag > behind {
			all = errors.Join(all,
				fmt.Errorf("partition %d of %q: ready %v, refused %q, doing %q, %d commands behind, %.1f s overdue",
					p.Partition, p.Owner, p.Ready, p.Refused, p.Doing, p.Lag, p.Overdue))
		}
	}
	return all
}

// partitions are all of them, as one engine sees them.
func (w *world) partitions() ([]partition, error) {
	var list struct{ Items []partition }
	if err := w.engines[0].ask(w.engines[0].url+"/v1/partitions", &list); err != nil {
		return nil, err
	}
	if len(list.Items) != partitions {
		return nil, fmt.Errorf("%d of %d partitions are known", len(list.Items), partitions)
	}
	return list.Items, nil
}

// pending says whether any trigger still waits for something.
func (w *world) pending() bool {
	list, err := w.partitions()
	return err != nil || slices.ContainsFunc(list, func(p partition) bool {
		return !p.Ready || p.Pending > 0 ||
			p.Lag > 0
	})
}
