package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// reader is somebody who types what the documents say, on a machine where the usual
// ports are taken.
type reader struct {
	t        *testing.T
	w        *world
	hook     string // where the receiver listens
	receiver string // its binary
	log      string // what it prints
}

func newReader(t *testing.T) *reader {
	t.Helper()
	dir := t.TempDir()
	r := &reader{
		t: t, w: newDevWorld(t), hook: built.FreeAddr(t),
		receiver: filepath.Join(dir, "receiver"), log: filepath.Join(dir, "receiver.log"),
	}
	build := exec.Command("go", "build", "-o", r.receiver, "./examples/receiver")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return r
}

// receive runs the receiver until stop is called or the test ends.
func (r *reader) receive(args ...string) (stop func()) {
	r.t.Helper()
	log, err := os.OpenFile(r.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(r.receiver, append(args, "-listen", r.hook)...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	before := strings.Count(r.printed(), "listening on")
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Kill() // an error if it has ended
		_ = cmd.Wait()
	}
	r.t.Cleanup(stop)
	await(r.t, "the receiver listens", func() bool { return strings.Count(r.printed(), "listening on") > before })
	return stop
}

func (r *reader) printed() string {
	b, _ := os.ReadFile(r.log)
	return string(b)
}

// types runs lines of a document, and wants them to succeed.
func (r *reader) types(lines string) string {
	r.t.Helper()
	out, err := r.tries(lines)
	if err != nil {
		r.t.Fatalf("%s\n%v\n%s", lines, err, out)
	}
	return out
}

// tries runs lines of a document as they are, but for the ports.
func (r *reader) tries(lines string) (string, error) {
	r.t.Helper()
	file, err := binary()
	if err != nil {
		r.t.Fatal(err)
	}
	lines = strings.NewReplacer("go run ./cmd/waterclock", "waterclock", "127.0.0.1:9000", r.hook,
		"127.0.0.1:8080", r.w.node.http).Replace(lines)
	script := fmt.Sprintf("waterclock() { %q %s \"$@\"; }\n%s", file, strings.Join(r.w.flags, " "), lines)
	out, err := exec.Command("bash", "-euc", script).CombinedOutput()
	return string(out), err
}

// lineOf is the one line of a document that has all the words.
func lineOf(t *testing.T, page string, words ...string) string {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for line := range strings.Lines(strings.ReplaceAll(string(b), "\\\n", "")) {
		all := true
		for _, w := range words {
			all = all && strings.Contains(line, w)
		}
		if all && found != "" {
			t.Fatalf("%s has two lines with %q", page, words)
		}
		if all {
			found = line
		}
	}
	if found == "" {
		t.Fatalf("%s has no line with %q", page, words)
	}
	return found
}

// TestMinuteOfACallback walks the README and the webhooks guide as somebody does who has
// never seen Waterclock: a receiver that fails twice is called a third time, what nobody
// takes is found among the dead letters, and a redrive sends it, once.
func TestMinuteOfACallback(t *testing.T) {
	t.Parallel() // it waits, most of the time: the retries are those of a user
	r := newReader(t)
	const readme, guide = "../../README.md", "../../docs/api/webhooks.md"

	if line := lineOf(t, readme, "go run ./examples/receiver"); !strings.Contains(line, "-fail 2") {
		t.Fatalf("the README starts the receiver otherwise: %s", line)
	}
	stop := r.receive("-fail", "2")
	begun := time.Now()
	r.types(lineOf(t, readme, "schedule pills"))
	await(t, "the third attempt", func() bool {
		return regexp.MustCompile(`attempt 3 of pills.*204`).MatchString(r.printed())
	})
	if took := time.Since(begun); took < 40*time.Second {
		t.Errorf("it was called a third time after %v; the README says after 10 and 30 s more", took)
	}
	for _, want := range []string{"attempt 1 of pills", "attempt 2 of pills"} {
		if strings.Count(r.printed(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, r.printed())
		}
	}

	stop()
	r.types(lineOf(t, guide, "triggers/lost"))
	list := lineOf(t, guide, "waterclock dead-letters list")
	await(t, "the dead letter", func() bool {
		out, _ := r.tries(list) // the history may be busy
		return strings.Contains(out, "connection_refused")
	})
	if out := r.types(lineOf(t, guide, "explain lost")); !strings.Contains(out, "given up after attempt 2") {
		t.Errorf("explain: %s", out)
	}
	r.receive()
	redrive := lineOf(t, guide, "waterclock redrive lost")
	if out := r.types(redrive); !regexp.MustCompile(`redriven +1`).MatchString(out) {
		t.Errorf("redrive: %s", out)
	}
	await(t, "the redriven one", func() bool { return strings.Contains(r.printed(), "attempt 3 of lost") })
	if out := r.types(redrive); !regexp.MustCompile(`duplicate +1`).MatchString(out) {
		t.Errorf("a second redrive: %s", out)
	}
	await(t, "no open dead letter", func() bool {
		out, err := r.tries(list)
		return err == nil && !strings.Contains(out, "lost")
	})
	if n := strings.Count(r.printed(), " of lost"); n != 1 {
		t.Errorf("the receiver was called %d times:\n%s", n, r.printed())
	}
}
