package e2e

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/built"
)

// kills is how often dev is killed: 5 in the ordinary test, more by
// WATERCLOCK_TEST_KILLS.
func kills() int {
	if n, err := strconv.Atoi(os.Getenv("WATERCLOCK_TEST_KILLS")); err == nil {
		return n
	}
	return 5
}

func TestDevSurvivesKill9(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	kafka := built.FreeAddr(t)
	p := start(t, "dev", "dev", "--kafka-listen", kafka, "--data-dir", filepath.Join(t.TempDir(), "data"))
	p.ready(30 * time.Second)
	brokers := []string{kafka}
	l := newLoad(t, brokers, "waterclock.")
	ctx, stop := context.WithCancel(context.Background())
	loaded := make(chan struct{})
	go func() { defer close(loaded); l.run(ctx, "k", 100) }()
	for range kills() {
		time.Sleep(time.Duration(200+rng.IntN(1800)) * time.Millisecond)
		p.kill()
		p.launch()
		p.ready(30 * time.Second)
	}
	stop()
	<-loaded
	awaitReady(t, p)
	l.judge(brokers, "waterclock.")
}

// awaitReady waits until the last due time has passed and nothing is overdue.
func awaitReady(t *testing.T, ps ...*process) {
	t.Helper()
	time.Sleep(4 * time.Second)
	for _, p := range ps {
		p.ready(30 * time.Second)
	}
	time.Sleep(2 * time.Second)
}

func TestDevSaysWhatToDo(t *testing.T) {
	taken := built.FreeAddr(t)
	dir := filepath.Join(t.TempDir(), "data")
	p := start(t, "dev", "dev", "--kafka-listen", taken, "--data-dir", dir)
	p.ready(30 * time.Second)
	for _, c := range []struct {
		name, want string
		args       []string
	}{
		{"taken port", "Stop what listens there", []string{
			"dev", "--kafka-listen", taken, "--listen", "127.0.0.1:0",
			"--data-dir", t.TempDir(),
		}},
		{"taken directory", "another waterclock runs on", []string{
			"dev", "--kafka-listen", "127.0.0.1:0", "--listen",
			"127.0.0.1:0", "--data-dir", dir,
		}},
		{"other version", "written by another version", []string{
			"dev", "--kafka-listen", "127.0.0.1:0", "--listen",
			"127.0.0.1:0", "--data-dir", otherVersion(t),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := try(t, c.args...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q in it", err, c.want)
			}
			if err != nil && strings.Count(strings.TrimSpace(err.Error()), "\n") > 0 {
				t.Errorf("more than one line: %v", err)
			}
		})
	}
}

func otherVersion(t *testing.T) string {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "VERSION"), []byte("waterclock data 99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}
