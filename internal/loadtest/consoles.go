package loadtest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// withConsoles calls f while another process has all consoles open (OpenConsoles). That process has the lowest
// priority, because browsers do not use the cores of the server that they look at.
func (c *consoleRun) withConsoles(ctx context.Context, f func() error) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", self, "bench", "consoles", c.host, strconv.Itoa(c.o.Consoles))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	out := bufio.NewReader(pipe)
	if _, err = out.ReadString('\n'); err == nil {
		sleepUntil(ctx, time.Now().Add(2*time.Second))
		err = f()
	}
	in.Close()
	if err == nil {
		err = json.NewDecoder(out).Decode(&c.result.Fact)
	}
	return errors.Join(err, cmd.Wait())
}

// OpenConsoles acts as n browsers that show page Now of the server at host. Once all streams are open it writes an
// empty line to out. When in ends it writes how old the facts were when a stream had them, as JSON.
func OpenConsoles(ctx context.Context, host string, n int, in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	streams, err := openStreams(host, n)
	defer func() {
		for _, l := range streams {
			l.conn.Close()
		}
	}()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var late []int64
	g, running := errgroup.WithContext(ctx)
	for _, l := range streams {
		g.Go(func() error {
			got, err := facts(l)
			mu.Lock()
			defer mu.Unlock()
			late = append(late, got...)
			return err
		})
	}
	g.Go(func() error { return readNow(running, host, n) })
	fmt.Fprintln(out)
	go func() {
		_, _ = io.Copy(io.Discard, in)
		stop()
	}()
	<-running.Done()
	for _, l := range streams {
		_ = l.conn.SetReadDeadline(time.Now())
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if len(late) == 0 {
		return errors.New("no fact came on any stream")
	}
	return json.NewEncoder(out).Encode(lateOf(late))
}

// openStreams also returns the streams that are open when it fails.
func openStreams(host string, n int) (all []*lean, err error) {
	for range n {
		l, err := dialLean(host)
		if err != nil {
			return all, err
		}
		all = append(all, l)
		fmt.Fprintf(l.conn, "GET /v1/live HTTP/1.1\r\nHost: %s\r\n\r\n", host)
		if status, err := l.line(); err != nil || !bytes.Contains(status, []byte(" 200 ")) {
			return all, fmt.Errorf("a stream answers %q, %w", status, err)
		}
	}
	return all, nil
}

// facts reads a stream until its deadline, and returns how old each fact was in microseconds.
func facts(l *lean) (late []int64, err error) {
	for {
		line, err := l.line()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return late, nil
		}
		if err != nil {
			return late, fmt.Errorf("a stream ended: %w", err)
		}
		_, rest, ok := bytes.Cut(line, []byte(`"occurred_at":"`))
		if !ok {
			continue
		}
		text, _, _ := bytes.Cut(rest, []byte(`"`))
		if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
			late = append(late, time.Since(at).Microseconds())
		}
	}
}

// nowReads are what page Now reads beside its stream, of an operator, in 30 s.
var nowReads = slices.Concat(slices.Repeat([]string{
	"/v1/partitions?fresh=false", "/v1/endpoints?fresh=false", "/v1/channels",
	"/v1/dead-letters?group_by=code&fresh=false", "/v1/forecast?bucket=1m&n=10",
}, 3), slices.Repeat([]string{"/v1/lateness?window=1h"}, 2))

// readNow reads that for n consoles until ctx ends.
func readNow(ctx context.Context, host string, n int) error {
	reads := &httpRun{host: host, o: HTTPOptions{Connections: 16}}
	var next atomic.Int64
	_, err := reads.pace(ctx, time.Hour, max(1, n*len(nowReads)/30), reads.read(func() string {
		return nowReads[int(next.Add(1))%len(nowReads)]
	}))
	if ctx.Err() != nil {
		return nil
	}
	return err
}
