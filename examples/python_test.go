package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/test/services"
)

const pythonGuide = "../docs/api/python.md"

// pythonPath is where Python finds the client of this source.
func pythonPath(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("../clients/python/src")
	if err != nil {
		t.Fatal(err)
	}
	return "PYTHONPATH=" + source
}

func python(t *testing.T, d *dev, program string) *exec.Cmd {
	t.Helper()
	cmd := d.command(t, services.Python(t, "venv"), "-c", program)
	cmd.Env = append(cmd.Env, pythonPath(t), "PYTHONDONTWRITEBYTECODE=1")
	return cmd
}

// TestPythonGuide runs the programs of the Python page and of the package's
// README.
func TestPythonGuide(t *testing.T) {
	page := read(t, pythonGuide)
	d := startDev(t, "--set", "channels.print.receipts=true")
	own := strings.NewReplacer("http://127.0.0.1:8080", d.url, "127.0.0.1:9092", d.kafka)
	t.Run("client", func(t *testing.T) {
		program := own.Replace(strings.Join(blocksOf(page, "python client"), "\n"))
		out, err := python(t, d, program).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(promised(program)) < 10 {
			t.Fatal("the page promises little")
		}
		requirePromised(t, program, string(out))
	})
	t.Run("worker", func(t *testing.T) {
		prints(t, d, "hello-1", pythonFile(t, own.Replace(oneBlock(t, page, "python worker"))))
	})
	t.Run("readme", func(t *testing.T) {
		program := own.Replace(oneBlock(t, read(t, "../clients/python/README.md"), "python"))
		prints(t, d, "hello-2", pythonFile(t, program))
	})
	t.Run("webhook", func(t *testing.T) {
		port := freePort(t)
		program := strings.ReplaceAll(oneBlock(t, page, "python webhook"), "9000", port)
		out := runReceiver(t, []string{pythonFile(t, program)}, port)
		checkReceiver(t, "http://127.0.0.1:"+port+"/")
		await(t, "the program prints what it took", func() bool {
			return strings.Contains(out.String(), `msg_1 {"triggerId":"pills","payload":"ä"}`)
		})
	})
}

// pythonFile is a file that runs a program as ./file does.
func pythonFile(t *testing.T, program string) string {
	t.Helper()
	dir := t.TempDir()
	file, run := filepath.Join(dir, "program.py"), filepath.Join(dir, "run")
	script := "#!/bin/sh\nexec env " + pythonPath(t) + " PYTHONDONTWRITEBYTECODE=1 " +
		services.Python(t, "venv") + " " + file + "\n"
	for name, text := range map[string]string{file: program, run: script} {
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return run
}

func oneBlock(t *testing.T, page, kind string) string {
	t.Helper()
	blocks := blocksOf(page, kind)
	if len(blocks) != 1 {
		t.Fatalf("the page has %d programs of %s", len(blocks), kind)
	}
	return blocks[0]
}
