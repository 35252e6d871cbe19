package attack

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// TestSmallDisk: a burst that fills the disk does not end dev. Writes are answered 503,
// /readyz and the log say why, reads go on. When there is room, it fires what it had
// acknowledged, and takes writes.
func TestSmallDisk(t *testing.T) {
	disk := t.TempDir()
	mount := func(flags uintptr, size string) error {
		return syscall.Mount("tmpfs", disk, "tmpfs", flags, "mode=0700,size="+size)
	}
	if err := mount(0, "120m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	n := &node{kind: "dev", kafka: built.FreeAddr(t), history: true}
	n.start(t, append([]string{
		"dev", "--kafka-listen", n.kafka, "--data-dir", filepath.Join(disk, "data"),
	}, settings(t)...)...)
	n.url = "http://" + n.processes[0].http
	a := n.as("attacker", attackerKey)
	begun := time.Now()
	acknowledged := fill(t, a)
	t.Logf("full after %v, with %d triggers acknowledged", time.Since(begun), len(acknowledged))
	if len(acknowledged) < 100 {
		t.Errorf("120 MB were full after %d triggers of 64 KB: something takes room ahead", len(acknowledged))
	}
	eventually(t, "/readyz says that the disk is full", func() bool {
		status, text := n.processes[0].readyz(t)
		return status == http.StatusServiceUnavailable && strings.Contains(text, "full")
	})
	if got := a.try(t.Context(), "PUT", "/v1/triggers/more", `{"delay":"1d"}`); got.status !=
		http.StatusServiceUnavailable || !strings.Contains(got.body, "full") {
		t.Errorf("a write on a full disk: %s", got)
	}
	if err := mount(syscall.MS_REMOUNT, "600m"); err != nil {
		t.Fatal(err)
	}
	n.processes[0].ready(t)
	t.Logf("ready after %v", time.Since(begun))
	eventually(t, "writes are taken", func() bool {
		got := a.try(t.Context(), "PUT", "/v1/triggers/more", `{"delay":"1d"}`)
		return got.status == http.StatusCreated || got.status == http.StatusOK
	})
	for _, id := range acknowledged {
		eventually(t, id+" is there", func() bool {
			got := a.try(t.Context(), "GET", "/v1/triggers/"+id, "")
			if got.status == http.StatusNotFound {
				t.Fatalf("%s was acknowledged, and is gone", id)
			}
			return got.status == http.StatusOK
		})
	}
	if got := n.processes[0].said(t); !strings.Contains(got, "there is room") && !strings.Contains(got, "have room") {
		t.Errorf("the log does not say that the disk was full")
	}
}

// fill registers triggers until none is taken any more, and returns those that were.
func fill(t *testing.T, a *tenant) (acknowledged []string) {
	t.Helper()
	const line = `{"id":"%s","delay":"30d","payload":"%s"}`
	full := 0
	for i, deadline := 0, time.Now().Add(3*time.Minute); full < 3; i++ {
		if time.Now().After(deadline) {
			t.Fatalf("after %d batches the disk is not full", i)
		}
		var lines []string
		for j := range 20 {
			lines = append(lines, fmt.Sprintf(line, fmt.Sprintf("b%d-%d", i, j), strings.Repeat("x", 64<<10)))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second) // one under way may wait for room
		got := a.try(ctx, "POST", "/v1/triggers:batch", strings.Join(lines, "\n"))
		cancel()
		if got.status == http.StatusServiceUnavailable {
			full++
			time.Sleep(200 * time.Millisecond)
			continue
		}
		for j, answer := range strings.Split(strings.TrimSpace(got.body), "\n") {
			if strings.Contains(answer, `"status":201`) {
				acknowledged = append(acknowledged, fmt.Sprintf("b%d-%d", i, j))
			}
		}
	}
	if len(acknowledged) == 0 {
		t.Fatal("nothing was taken before the disk was full")
	}
	return acknowledged
}

// readyz is what the process says of itself.
func (p *process) readyz(t *testing.T) (status int, text string) {
	t.Helper()
	resp, err := http.Get("http://" + p.admin + "/readyz")
	if err != nil {
		t.Fatalf("the process does not answer: %v", err)
	}
	defer resp.Body.Close()
	b, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b)
}

// eventually waits until f is true, for as long as a busy machine may need.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); !f(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}
