package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Client is a Kafka client of another language.
type Client interface {
	// Name is kcat, python, node or java.
	Name() string
	// Produce sends the records, in order within a partition, and returns when the
	// brokers have acknowledged all. Partition, Offset and Timestamp are ignored.
	// A record the client cannot express is an error.
	Produce(ctx context.Context, bootstrap string, recs []Record) error
	// Consume returns the first n committed records of the topic from its
	// beginning, in order within a partition. It waits for them until ctx ends.
	Consume(ctx context.Context, bootstrap, topic string, n int) ([]Record, error)
}

// Record is a Kafka record. A nil Key or Value is null on the wire, an empty one
// has zero length.
type Record struct {
	Topic     string   `json:"topic"`
	Partition int32    `json:"partition"`
	Offset    int64    `json:"offset"`
	Timestamp int64    `json:"timestamp"` // ms since 1970
	Key       []byte   `json:"key"`
	Value     []byte   `json:"value"`
	Headers   []Header `json:"headers"`
}

// Header is a record header; they keep their order, and may repeat a key.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Header returns the value of the first header of that key, or "".
func (r Record) Header(key string) string {
	for _, h := range r.Headers {
		if h.Key == key {
			return string(h.Value)
		}
	}
	return ""
}

// Clients returns every client, ready to run.
func Clients(t testing.TB) []Client {
	t.Helper()
	if testing.Short() {
		t.Skip("needs clients of other languages, which -short leaves out")
	}
	found, err := find(t.TempDir())
	if err != nil {
		t.Fatalf("foreign: %v; type  make setup", err)
	}
	return found
}

// run runs a command to its end. What it says on standard error becomes part of
// the error. A command that ctx ends is killed, and so it is if we die.
func run(ctx context.Context, env []string, stdin []byte, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = bytes.NewReader(stdin)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		return out, fmt.Errorf("%s: %w\n%s", strings.Join(command, " "), err, errs.String())
	}
	return out, nil
}

// script is a client whose program speaks JSON lines, see clients/.
type script struct {
	name    string
	command []string
	env     []string
}

func (s script) Name() string { return s.name }

func (s script) Produce(ctx context.Context, bootstrap string, recs []Record) error {
	var lines bytes.Buffer
	for _, r := range recs {
		if err := json.NewEncoder(&lines).Encode(r); err != nil {
			return fmt.Errorf("%s: encode a record: %w", s.name, err)
		}
	}
	_, err := run(ctx, s.env, lines.Bytes(), append(s.command[:len(s.command):len(s.command)], "produce", bootstrap)...)
	return err
}

func (s script) Consume(ctx context.Context, bootstrap, topic string, n int) ([]Record, error) {
	out, err := run(ctx, s.env, nil, append(s.command[:len(s.command):len(s.command)], "consume", bootstrap, topic,
		fmt.Sprint(n))...)
	if err != nil {
		return nil, err
	}
	return decodeLines(s.name, out, n)
}

func decodeLines(name string, out []byte, n int) (recs []Record, err error) {
	for line := range bytes.Lines(out) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: decode %q: %w", name, line, err)
		}
		recs = append(recs, r)
	}
	if len(recs) != n {
		return nil, fmt.Errorf("%s: wrote %d records, not %d", name, len(recs), n)
	}
	return recs, nil
}
