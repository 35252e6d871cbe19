package services

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeGo answers as go does. It fails a test of the package that FAILS names.
const fakeGo = `#!/usr/bin/env bash
case $1 in
  list) [ $# -gt 2 ] && echo example/calendar || printf '%s\n' example/calendar example/topics ;;
  test)
    case "$*" in *"$FAILS"*)
      echo '--- FAIL: TestBroken (0.01s)'; echo "    broken_test.go:3: it is broken"; echo FAIL; exit 1 ;;
    esac
    echo 'ok  	example	0.1s' ;;
esac
`

// fakeMake answers as make does. It fails a target that FAILS names, as a package does.
const fakeMake = `#!/usr/bin/env bash
case "make $*" in *"$FAILS"*) exec go test "$FAILS" ;; esac
`

// fakeServices says when it is stopped.
const fakeServices = `#!/usr/bin/env bash
[ "$1" != down ] || touch "$DOWN"
`

// TestRunEnds runs test/run.sh with another go, another make and other services. Its exit code is that of the tests,
// whichever of the three lanes fails, the failed test stands at the end of what it prints, and the services are
// stopped.
func TestRunEnds(t *testing.T) {
	for _, row := range []struct {
		name, fails string
		args        []string
		failed      bool
	}{
		{"all pass", "nothing", nil, false},
		{"one fails", "example/topics", nil, true},
		{"one of those that compute fails", "./calendar", nil, true},
		{"one of those that wait fails", "./gateway/...", nil, true},
		{"make check fails", "make check", nil, true},
		{"one of a client fails", "-count 1", nil, true},
		{"some pass", "nothing", []string{"./topics"}, false},
		{"some fail", "./topics", []string{"./topics"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			put := func(name, text string) {
				t.Helper()
				file := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for from, to := range map[string]string{
				"../run.sh": "test/run.sh", "common.sh": "test/services/common.sh",
			} {
				text, err := os.ReadFile(from)
				if err != nil {
					t.Fatal(err)
				}
				put(to, string(text))
			}
			put("test/services/services.sh", fakeServices)
			put("cache/bin/go", fakeGo)
			put("cache/bin/make", fakeMake)
			put("clients/go/go.mod", "module example\n")
			put("tmp/keep", "")
			down := filepath.Join(dir, "down")
			cmd := exec.Command("bash", append([]string{filepath.Join(dir, "test/run.sh")}, row.args...)...)
			cmd.Env = append(os.Environ(), "FAILS="+row.fails, "DOWN="+down, "SVC_CACHE="+filepath.Join(dir, "cache"),
				"TMPDIR="+filepath.Join(dir, "tmp"))
			out, err := cmd.CombinedOutput()
			if (err != nil) != row.failed {
				t.Errorf("%v:\n%s", err, out)
			}
			if row.failed && !strings.HasSuffix(strings.TrimSpace(string(out)), "it is broken\nFAIL") {
				t.Errorf("the failed test does not stand at the end:\n%s", out)
			}
			if _, err := os.Stat(down); err != nil {
				t.Errorf("the services go on: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "tmp/waterclock-run-*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
}
