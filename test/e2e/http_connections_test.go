package e2e

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// TestManyConnections holds 10,000 connections open, or as many as this
// machine lets a process have, and then calls beside them and on them.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	w := newDevWorld(t)
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	n := min(10_000, int(files.Cur)-1000) // dev has the same limit, and its own files
	if n < 1000 {
		t.Fatalf("only %d files may be open: ulimit -n 20000", files.Cur)
	}
	all := make([]net.Conn, 0, n)
	defer func() {
		for _, c := range all {
			c.Close()
		}
	}()
	ask := func(c net.Conn) error {
		_ = c.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := fmt.Fprintf(c, "GET /healthz HTTP/1.1\r\nHost: %s\r\n\r\n", w.node.http); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		resp.Body.Close()
		return nil
	}
	begun := time.Now()
	for i := range n {
		c, err := net.Dial("tcp", w.node.http)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		all = append(all, c)
		if i%100 == 0 { // the others have sent nothing yet
			if err := ask(c); err != nil {
				t.Fatalf("connection %d: %v", i, err)
			}
		}
	}
	t.Logf("%d connections within %s", n, time.Since(begun))
	wants(t, "a write beside them", w.call(t, http.MethodPut, "/v1/triggers/crowd", `{"delay":"1h"}`), 201)
	wants(t, "a read beside them", w.call(t, http.MethodGet, "/v1/triggers/crowd", ""), 200)
	if err := ask(all[(n-1)/100*100]); err != nil { // has been silent for less than the idle time-out
		t.Errorf("the last that asked: %v", err)
	}
}
