package attack

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/issuer"
)

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

// Keys of the two tenants, of a third that only reads, and of who runs the cluster.
var (
	victimKey   = strings.Repeat("v", 32)
	attackerKey = strings.Repeat("a", 32)
	readerKey   = strings.Repeat("r", 32)
	operatorKey = strings.Repeat("o", 32)
)

// node is one Waterclock with auth: a process, or several that are one cluster.
type node struct {
	kind    string
	url     string // of the API
	kafka   string
	history bool
	issuer  *issuer.Issuer
	within  []string // a command that runs its processes

	processes []*process
}

// process is one running waterclock.
type process struct {
	http  string
	admin string // where it says whether it is ready
	log   string
	cmd   *exec.Cmd
}

// largePayload is what a payload may have on these nodes: the most there is.
const largePayload = 512 << 10

func settings(t *testing.T) []string {
	t.Helper()
	keys := filepath.Join(t.TempDir(), "keys")
	text := fmt.Sprintf("victim %s writer\nattacker %s writer\nattacker %s reader\ndefault %s operator\n",
		victimKey, attackerKey, readerKey, operatorKey)
	if err := os.WriteFile(keys, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--auth-keys-file", keys, "--limits-payload", "512KiB", "--topics-partitions", "4"}
}

// newDev is dev with auth: everything in one process.
func newDev(t *testing.T, more ...string) *node {
	t.Helper()
	n := &node{kind: "dev", kafka: built.FreeAddr(t), history: true, issuer: issuer.New(t)}
	args := append([]string{
		"dev", "--kafka-listen", n.kafka, "--data-dir", filepath.Join(t.TempDir(), "data"),
	}, issuerSettings(n.issuer)...)
	n.start(t, append(append(args, settings(t)...), more...)...)
	n.url = "http://" + n.processes[0].http
	return n
}

// newServe is serve with auth as an engine and a gateway that asks it over the
// internal interface. Their broker is in the test's process.
func newServe(t *testing.T, more ...string) *node {
	t.Helper()
	n := &node{kind: "serve", kafka: startBroker(t), issuer: issuer.New(t)}
	t.Setenv("WATERCLOCK_INTERNAL_SECRET", strings.Repeat("s", 32))
	args := append(append([]string{"serve", "--brokers", n.kafka}, settings(t)...), more...)
	args = append(args, issuerSettings(n.issuer)...)
	n.start(t, append(args, "--data-dir", t.TempDir(), "--roles", "engine")...)
	n.start(t, append(args, "--data-dir", t.TempDir(), "--roles", "api")...)
	n.url = "http://" + n.processes[1].http
	return n
}

// startBroker starts one in the test's process.
func startBroker(t *testing.T) (address string) {
	t.Helper()
	b, err := broker.Start(t.Context(), broker.Options{
		Dir: t.TempDir(), Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b.Addr()
}

// start runs waterclock and waits until it is ready; its log is shown if the test
// fails.
func (n *node) start(t *testing.T, args ...string) {
	t.Helper()
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{http: built.FreeAddr(t), admin: built.FreeAddr(t), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(p.log)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	argv := append(append(slices.Clone(n.within), file), args...)
	p.cmd = exec.Command(argv[0], append(argv[1:], "--listen", p.http, "--admin-listen", p.admin)...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		if b, _ := os.ReadFile(p.log); t.Failed() {
			t.Logf("--- %s\n%s", args[0], b[max(0, len(b)-4000):])
		}
	})
	n.processes = append(n.processes, p)
	p.ready(t)
}

func (p *process) ready(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if resp, err := http.Get("http://" + p.admin + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("not ready within two minutes")
}

// said is the process's log so far.
func (p *process) said(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(p.log)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rss is the memory of all processes of the node, in bytes.
func (n *node) rss(t *testing.T) (sum int64) {
	t.Helper()
	for _, p := range n.processes {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
		if err != nil {
			t.Fatalf("a process is gone: %v", err)
		}
		_, rest, _ := strings.Cut(string(b), "VmRSS:")
		kb, err := strconv.ParseInt(strings.Fields(rest + " 0")[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += kb << 10
	}
	return sum
}
