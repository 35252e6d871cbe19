package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const tasks = "../docs/api/tasks.md"

// TestTasks runs the page of tasks in each of its languages, all blocks of one
// as one program, and looks for what its lines promise, in order. DocsTest of clients/java runs those of Java.
func TestTasks(t *testing.T) {
	d := startDev(t)
	page := read(t, tasks)
	for _, language := range []struct {
		kind string
		run  func(t *testing.T, d *dev, program string) *exec.Cmd
	}{
		{"sh curl", shell}, {"sh cli", shell}, {"go", goProgram}, {"python", python},
	} {
		t.Run(language.kind, func(t *testing.T) {
			blocks := blocksOf(page, language.kind)
			if len(blocks) < 5 {
				t.Fatalf("only %d blocks", len(blocks))
			}
			// All languages meet the same server: each has names of its own.
			own := strings.NewReplacer("hold-8c4", "hold-"+language.kind[len(language.kind)-2:], "pills-u81",
				"pills-"+language.kind[len(language.kind)-2:],
				"u_81", "u_"+language.kind[len(language.kind)-2:], "http://127.0.0.1:8080", d.url)
			out, err := language.run(t, d, own.Replace(strings.Join(blocks, "\n"))).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			requirePromised(t, own.Replace(strings.Join(blocks, "\n")), string(out))
		})
	}
}

// TestTasksAreWhole: every task of the page is told in every language.
func TestTasksAreWhole(t *testing.T) {
	sections := strings.Split(read(t, tasks), "\n## ")[2:]
	if len(sections) != 5 {
		t.Fatalf("%d tasks", len(sections))
	}
	for _, s := range sections {
		title, _, _ := strings.Cut(s, "\n")
		for _, kind := range []string{"sh curl", "sh cli", "go", "python", "java"} {
			if blocks := blocksOf(s, kind); len(blocks) != 1 || len(promised(blocks[0])) == 0 {
				t.Errorf("%s: %d blocks of %s, or one that promises nothing", title, len(blocks), kind)
			}
		}
	}
}

func blocksOf(page, kind string) (blocks []string) {
	for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// promised are the texts behind #= and //=.
func promised(program string) (want []string) {
	for _, m := range regexp.MustCompile(`(?m) (?:#|//)= (.*)$`).FindAllStringSubmatch(program, -1) {
		want = append(want, m[1])
	}
	return want
}

// requirePromised looks in the output for what the program promises, in order.
func requirePromised(t *testing.T, program, out string) {
	t.Helper()
	rest := out
	for _, want := range promised(program) {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not in what is left of the output:\n%s\nall of it:\n%s", want, rest, out)
		}
		rest = after
	}
}

// runGuide runs the blocks "sh run" of a page as one program, in a directory and against a
// server. n is how many blocks there are.
func runGuide(t *testing.T, d *dev, dir, page string, n int) {
	t.Helper()
	blocks := blocksOf(read(t, page), "sh run")
	if len(blocks) != n {
		t.Fatalf("%d blocks", len(blocks))
	}
	program := strings.ReplaceAll(strings.Join(blocks, "\n"), "http://127.0.0.1:8080", d.url)
	cmd := shell(t, d, program)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	requirePromised(t, program, string(text))
}

func shell(t *testing.T, d *dev, program string) *exec.Cmd {
	return d.command(t, "sh", "-ec", program)
}

// goProgram is the blocks of Go, and the brace that ends main.
func goProgram(t *testing.T, d *dev, program string) *exec.Cmd {
	return d.command(t, goBinary(t, program+"}\n"))
}

// goBinary compiles a program of a page. It uses the clients of this tree.
func goBinary(t *testing.T, program string) (bin string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(t.TempDir(), "program")
	build(t, bin, file)
	return bin
}
