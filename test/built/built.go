// Package built gives tests the binaries that users run: of this source, of it
// with a tag, and of the version before. Each is built once for a test binary,
// or once for all if WATERCLOCK_TEST_BUILT names a directory (test/run.sh).
//
//	func TestMain(m *testing.M) { code := m.Run(); built.Remove(); os.Exit(code) }
package built

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Waterclock is the binary as make build builds it.
var Waterclock = sync.OnceValues(func() (string, error) { return build("waterclock") })

// Failpoints is a binary that can be told to strike itself at a step of the
// turn, to be built wrong, or to reach brokers through proxies
// (internal/node/failpoints.go).
var Failpoints = sync.OnceValues(func() (string, error) {
	return build("waterclock-failpoints", "-tags",
		"failpoints")
})

// Next is the version after this one, as far as formats go.
var Next = sync.OnceValues(func() (string, error) { return build("waterclock-next", "-tags", "nextformat") })

// firstVersion is the last commit whose engine does not say which formats it
// reads, and knows no guard record.
const firstVersion = "e6875641267115615f4fcdedb241022b57f3258a"

// Previous is the binary of firstVersion, built from the repository's history.
// A clone without it fetches that one commit from where it was cloned from.
// WATERCLOCK_TEST_PREVIOUS names a binary for who has no history at all.
var Previous = sync.OnceValues(func() (string, error) {
	if file := os.Getenv("WATERCLOCK_TEST_PREVIOUS"); file != "" {
		return file, nil
	}
	root, err := repository()
	if err != nil {
		return "", fmt.Errorf("%w: %w", errNoHistory, err)
	}
	if err := haveCommit(root, firstVersion); err != nil {
		return "", fmt.Errorf("%w: %w", errNoHistory, err)
	}
	return once("waterclock-previous", func(file string) *exec.Cmd {
		const script = `mkdir "$2.source" && git -C "$1" archive "$3" | tar -x -C "$2.source" && cd "$2.source" &&
			go build -ldflags "-s -w" -o "$2" ./cmd/waterclock`
		return exec.Command("bash", "-euo", "pipefail", "-c", script, "bash", root, file, firstVersion)
	})
})

// errNoHistory says what to do without the commit.
var errNoHistory = errors.New("the version before is built from commit " + firstVersion[:7] +
	", which this copy of the repository lacks and cannot fetch. " +
	"Clone the repository whole (git fetch --unshallow), or name a binary of that commit by WATERCLOCK_TEST_PREVIOUS")

// haveCommit fetches the commit if a shallow clone has not got it.
func haveCommit(root, commit string) error {
	if exec.Command("git", "-C", root, "cat-file", "-e", commit+"^{commit}").Run() == nil {
		return nil
	}
	out, err := exec.Command("git", "-C", root, "fetch", "--quiet", "--no-tags", "--depth", "1", "origin",
		commit).CombinedOutput()
	if err != nil {
		return fmt.Errorf("git fetch origin %s: %w: %s", commit[:7], err, strings.TrimSpace(string(out)))
	}
	return nil
}

// repository is the directory of this module: tests run in their package's.
func repository() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// shared is the directory of several test binaries. Whoever named it removes it.
var shared = os.Getenv("WATERCLOCK_TEST_BUILT")

var directory = sync.OnceValues(func() (string, error) {
	if shared != "" {
		return shared, os.MkdirAll(shared, 0o755)
	}
	return os.MkdirTemp("", "waterclock-built-")
})

func build(name string, flags ...string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	return once(name, func(file string) *exec.Cmd {
		// Without what only debuggers read: it takes half of the linker's time.
		args := append([]string{"build", "-ldflags", "-s -w"}, flags...)
		cmd := exec.Command("go", append(args, "-o", file, "./cmd/waterclock")...)
		cmd.Dir = root
		return cmd
	})
}

// once runs the command that writes a file, unless it is there. Others wait meanwhile.
func once(name string, command func(file string) *exec.Cmd) (string, error) {
	dir, err := directory()
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, name)
	lock, err := os.OpenFile(file+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close() // and the lock ends
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(file); err == nil {
		return file, nil
	}
	cmd := command(file + ".new")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build does
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return file, os.Rename(file+".new", file)
}

// Remove removes what was built for this test binary alone. Nothing can be built after it.
func Remove() {
	if dir, err := directory(); err == nil && shared == "" {
		os.RemoveAll(dir)
	}
}
