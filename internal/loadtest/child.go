package loadtest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// child is a process of this program. Its CPU time and memory are measured separately from ours.
type child struct {
	cmd *exec.Cmd
	url string // URL of its API
}

// startChild runs this program. It adds env to the environment of this process.
func startChild(verb string, args []string, env ...string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	listen, err := freePort()
	if err != nil {
		return nil, err
	}
	c := &child{url: "http://" + listen}
	c.cmd = exec.Command(self, append([]string{verb, "--listen", listen, "--log-level", "error"}, args...)...)
	c.cmd.Env = append(os.Environ(), env...)
	c.cmd.Stderr = os.Stderr
	return c, c.cmd.Start()
}

// awaitReady waits until the process is ready.
func (c *child) awaitReady(ctx context.Context, within time.Duration) error {
	for begun := time.Now(); time.Since(begun) < within; {
		if resp, err := http.Get(c.url + "/readyz"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		sleepUntil(ctx, time.Now().Add(20*time.Millisecond))
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return fmt.Errorf("the server is not ready within %s", within)
}

// stop ends the process. It may be called twice.
func (c *child) stop() {
	if c == nil || c.cmd.Process == nil || c.cmd.ProcessState != nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	_ = c.cmd.Wait()
}

// usage returns the CPU time and the memory that the process has used.
func (c *child) usage() (cpu time.Duration, rss int64) { return usageOf(c.cmd.Process.Pid) }

// usageOf returns what a process has used, or zero if it has ended.
func usageOf(pid int) (cpu time.Duration, rss int64) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // the name before it may contain spaces
	f := strings.Fields(rest)
	if len(f) < 22 {
		return 0, 0
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(f[i], 10, 64); return n }
	return time.Duration(number(11)+number(12)) * (time.Second / clockTicks), number(21) * int64(os.Getpagesize())
}

// clockTicks is USER_HZ. It is 100 on every Linux that Go supports.
const clockTicks = 100

// usageSamples records the usage of a process over time.
type usageSamples struct {
	cpu []time.Duration // CPU time up to each sample
	rss []int64
}

// sample takes samples at an interval until ctx ends.
func (c *child) sample(ctx context.Context, every time.Duration) (u usageSamples) {
	for next := time.Now(); ; next = next.Add(every) {
		cpu, rss := c.usage()
		u.cpu, u.rss = append(u.cpu, cpu), append(u.rss, rss)
		sleepUntil(ctx, next.Add(every))
		if ctx.Err() != nil {
			return u
		}
	}
}

// busiest returns the largest CPU time used within n samples.
func (u usageSamples) busiest(n int) (most time.Duration) {
	for i := range u.cpu {
		most = max(most, u.cpu[i]-u.cpu[max(i-n, 0)])
	}
	return most
}
