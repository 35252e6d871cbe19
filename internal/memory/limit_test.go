//go:build linux

package memory

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// TestMain is also the child of the tests below: in another root or another
// cgroup it says what it finds.
func TestMain(m *testing.M) {
	if root, child := os.LookupEnv("WATERCLOCK_TEST_FIND"); child {
		if cgroup := os.Getenv("WATERCLOCK_TEST_CGROUP"); cgroup != "" {
			if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte("0"), 0o600); err != nil {
				fmt.Println("join:", err)
				os.Exit(1)
			}
		}
		if root != "" {
			if err := errors.Join(syscall.Chroot(root), os.Chdir("/")); err != nil {
				fmt.Println("chroot:", err)
				os.Exit(1)
			}
		}
		l, err := Find(0)
		fmt.Println(l.Bytes, l.Source, err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// found is what a child says that sees another root or is in another cgroup.
func found(t *testing.T, root, cgroup string, env ...string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "WATERCLOCK_TEST_FIND="+root, "WATERCLOCK_TEST_CGROUP="+cgroup), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("child: %v: %s", err, out)
	}
	return strings.TrimSpace(string(out))
}

// TestContainers: trees of files as containers have them.
func TestContainers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may change the root of a process")
	}
	const (
		v2mount = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
		v1mount = "34 23 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	)
	for _, c := range []struct {
		name  string
		files map[string]string
		env   []string
		want  string
	}{
		{"v2", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, nil, "751619260 container <nil>"},
		{"v2, the parent has less", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/pod/app\n",
			"sys/fs/cgroup/pod/app/memory.max": "max\n", "sys/fs/cgroup/pod/memory.max": "104857600\n",
		}, nil, "73400320 container <nil>"},
		{"v2 without a limit", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n",
		}, nil, "0  <nil>"},
		{"v1", map[string]string{
			"proc/self/mountinfo": v1mount, "proc/self/cgroup": "4:memory:/app\n",
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "367001600\n",
			"sys/fs/cgroup/memory/app/memory.stat":           "hierarchical_memory_limit 367001600\n",
		}, nil, "256901120 container <nil>"},
		{"v1 without a limit", map[string]string{
			"proc/self/mountinfo": v1mount, "proc/self/cgroup": "4:memory:/app\n",
			"sys/fs/cgroup/memory/app/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/app/memory.stat":           "hierarchical_memory_limit 9223372036854771712\n",
		}, nil, "0  <nil>"},
		{"v1, named but not mounted", map[string]string{
			"proc/self/mountinfo": "30 23 0:26 / /proc rw - proc proc rw\n", "proc/self/cgroup": "4:memory:/app\n",
		}, nil, "0  read the container's memory limit: memory controller found in /proc/self/cgroup but no cgroup " +
			"v1 memory mount found"},
		{"no /proc", nil, nil, "0  <nil>"},
		{"GOMEMLIMIT is used instead", map[string]string{
			"proc/self/mountinfo": v2mount, "proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1073741824\n",
		}, []string{"GOMEMLIMIT=500MiB"}, "524288000 GOMEMLIMIT <nil>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			for name, content := range c.files {
				path := filepath.Join(root, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := found(t, root, "", c.env...); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestCgroup: a real one, as in the finding: 350 MiB, and nobody set a limit.
func TestCgroup(t *testing.T) {
	dir := filepath.Join("/sys/fs/cgroup/memory", "waterclock-test-"+strconv.Itoa(os.Getpid()))
	file := "memory.limit_in_bytes"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		dir, file = filepath.Join("/sys/fs/cgroup", filepath.Base(dir)), "memory.max"
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skipf("no writable cgroup here: %v", err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) })
	if err := os.WriteFile(filepath.Join(dir, file), []byte("367001600"), 0o600); err != nil {
		t.Skipf("no writable memory cgroup here: %v", err)
	}
	if got, want := found(t, "", dir), "256901120 container <nil>"; got != want {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestFind(t *testing.T) {
	if l, err := Find(1 << 30); err != nil || l != (Limit{1 << 30, "memory.limit"}) {
		t.Errorf("a setting: %+v %v", l, err)
	}
	broken := errors.New("broken")
	for _, c := range []struct {
		bytes uint64
		err   error
		want  Limit
	}{
		{1000, nil, Limit{700, "container"}},
		{1 << 62, nil, Limit{}},
		{0, memlimit.ErrNoLimit, Limit{}},
		{0, memlimit.ErrNoCgroup, Limit{}},
		{0, memlimit.ErrCgroupsNotSupported, Limit{}},
		{0, broken, Limit{}},
	} {
		l, err := ofContainer(func() (uint64, error) { return c.bytes, c.err })
		if l != c.want || errors.Is(c.err, broken) != (err != nil) {
			t.Errorf("%d, %v: %+v %v", c.bytes, c.err, l, err)
		}
	}
}
