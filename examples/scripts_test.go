package examples

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// TestScripts runs each script against a `waterclock dev` of its own and looks
// for what its lines promise, in order.
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob("scripts/*.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	d := startDev(t)
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			out, err := d.command(t, "sh", script).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			rest := string(out)
			for _, want := range promises(t, script) {
				_, after, found := strings.Cut(rest, want)
				if !found {
					t.Fatalf("%q is not in what is left of the output:\n%s\nall of it:\n%s", want, rest, out)
				}
				rest = after
			}
		})
	}
}

// promises are the texts behind "#=" in a script.
func promises(t *testing.T, script string) (want []string) {
	text, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		if _, promise, ok := strings.Cut(line, "  #= "); ok {
			want = append(want, promise)
		}
	}
	if len(want) == 0 {
		t.Fatalf("%s promises nothing", script)
	}
	return want
}

// TestWorker runs a channel of one's own: the receipt ends the trigger. The
// program is the one beside this test, and the one of the guide.
func TestWorker(t *testing.T) {
	d := startDev(t, "--set", "channels.print.receipts=true")
	bin := filepath.Join(t.TempDir(), "worker")
	build(t, bin, "./worker")
	t.Run("example", func(t *testing.T) { prints(t, d, "hello-1", bin, "-brokers", d.kafka, "-channel", "print") })

	blocks := blocksOf(read(t, "../docs/api/worker.md"), "go")
	if len(blocks) != 1 {
		t.Fatalf("the guide has %d programs", len(blocks))
	}
	page, file := filepath.Join(t.TempDir(), "page"), filepath.Join(t.TempDir(), "main.go")
	program := strings.ReplaceAll(blocks[0], "127.0.0.1:9092", d.kafka)
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, page, file)
	t.Run("guide", func(t *testing.T) { prints(t, d, "hello-2", page) })
}

// TestWorkerOptionsOfTheGuide: each list of options compiles in the call that takes it.
func TestWorkerOptionsOfTheGuide(t *testing.T) {
	lists := blocksOf(read(t, "../docs/api/worker.md"), "go options")
	if len(lists) < 2 {
		t.Fatalf("the guide has %d lists of options", len(lists))
	}
	program := `package main

import (
	"context"
	"crypto/tls"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/waterclock/waterclock/clients/go/worker"
)

func main() {
	_ = worker.Run(context.Background(), "print", nil,
` + strings.Join(lists, "") + `	)
}
`
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(t.TempDir(), "options"), file)
}

// prints runs a worker until it has handled a trigger of this name, and ends
// it as an init system would.
func prints(t *testing.T, d *dev, name, bin string, args ...string) {
	worker := d.command(t, bin, args...)
	var printed bytes.Buffer
	worker.Stdout, worker.Stderr = &printed, &printed
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = worker.Process.Signal(syscall.SIGTERM)
		if err := worker.Wait(); err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		if !strings.Contains(printed.String(), name+"@") || !strings.Contains(printed.String(), `attempt 1: "hello"`) {
			t.Errorf("the worker printed %q", printed.String())
		}
	}()
	out, err := d.command(t, "sh", "-c", `
		waterclock schedule `+name+` --in 1s --channel print --data '"hello"' > /dev/null
		waterclock events tail --from-beginning --trigger `+name+` --type 'delivery.*' -n 1 -o ndjson`).CombinedOutput()
	if err != nil || !strings.Contains(string(out), `"state":"FIRED","previous_state":"IN_FLIGHT"`) {
		t.Fatalf("%v\n%s", err, out)
	}
}

// dev is a running `waterclock dev`.
type dev struct{ bin, kafka, url string }

func startDev(t *testing.T, more ...string) *dev {
	d := &dev{bin: waterclock(t)}
	args := append([]string{
		"dev", "--listen", "127.0.0.1:0", "--kafka-listen", "127.0.0.1:0", "--data-dir",
		filepath.Join(t.TempDir(), "data"),
	}, more...)
	cmd := exec.Command(d.bin, args...)
	cmd.Env = clean()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	d.read(t, out)
	return d
}

// read takes the addresses from what dev prints once every partition fires.
func (d *dev) read(t *testing.T, out io.Reader) {
	lines := bufio.NewScanner(out)
	for d.url == "" && lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 1 && words[0] == "Kafka" {
			d.kafka = words[1]
		} else if len(words) > 1 && words[0] == "HTTP" {
			d.url = words[1]
		}
	}
	if d.url == "" || d.kafka == "" {
		t.Fatal("dev ended before it said where it listens")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
}

// command is something run as a user would, with waterclock on the path.
func (d *dev) command(t *testing.T, name string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(clean(), "PATH="+filepath.Dir(d.bin)+":"+os.Getenv("PATH"))
	if d.url != "" {
		cmd.Env = append(cmd.Env, "WATERCLOCK_BROKERS="+d.kafka, "WATERCLOCK_URL="+d.url)
	}
	return cmd
}

// clean is the environment without settings of ours.
func clean() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "WATERCLOCK_") && !strings.HasPrefix(v, "PATH=") {
			env = append(env, v)
		}
	}
	return env
}

// waterclock is the binary, built once.
func waterclock(t *testing.T) string {
	bin, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

func TestMain(m *testing.M) {
	code := m.Run()
	built.Remove()
	os.Exit(code)
}

func build(t *testing.T, bin, pkg string) {
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, pkg).CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", pkg, err, out)
	}
}
