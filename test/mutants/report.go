package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// line is a result for a terminal.
func (r *result) line() string {
	switch {
	case r.mutant.same != "":
		return fmt.Sprintf("%-36s same: %s", r.mutant.id, r.mutant.same)
	case r.by == "":
		return fmt.Sprintf("%-36s SURVIVED", r.mutant.id)
	}
	return fmt.Sprintf("%-36s killed by %s, which %s (%.1f s)", r.mutant.id, r.by, r.how, r.took.Seconds())
}

// show prints mutants as changes.
func show(w io.Writer, root string, mutants []mutant, sites []site) {
	for i, m := range mutants {
		path, _ := filepath.Rel(root, sites[i].file.path)
		fmt.Fprintf(w, "%s  %s:%d %s\n  %s\n  - %s\n  + %s\n", m.id, path, sites[i].line(), m.function, m.harm, m.was,
			m.is)
		for _, k := range m.killers {
			fmt.Fprintf(w, "  go test ./%s -run '%s'\n", k.dir, k.run)
		}
		if m.same != "" {
			fmt.Fprintf(w, "  same: %s\n", m.same)
		}
		fmt.Fprintln(w)
	}
}

// progress says how far the run is, on a terminal in one line.
type progress struct{ live bool }

func newProgress() *progress {
	info, err := os.Stderr.Stat()
	return &progress{live: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p *progress) baseline(done, of int) { p.now("without a mutant: %d of %d", done, of) }

func (p *progress) begin(done, of int, id string) { p.now("%d of %d: %s", done, of, id) }

func (p *progress) now(format string, args ...any) {
	if p.live {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

func (p *progress) say(format string, args ...any) {
	p.now("")
	fmt.Printf(format+"\n", args...)
}

// writeReport writes the table of results; of is how many there should be.
func writeReport(name, root string, args []string, results []result, of int) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	writeHead(f, root, args, results, of)
	dir := ""
	for i := range results {
		if r := &results[i]; r.mutant.dir != dir {
			dir = r.mutant.dir
			fmt.Fprintf(f,
				"\n## %s\n\n| mutant | in | was → is | what a user would see | killed by |\n|---|---|---|---|---|\n",
				dir)
		}
		results[i].write(f)
	}
	return f.Close()
}

func writeHead(w io.Writer, root string, args []string, results []result, of int) {
	killed, same := 0, 0
	for i := range results {
		switch {
		case results[i].mutant.same != "":
			same++
		case results[i].by != "":
			killed++
		}
	}
	fmt.Fprintf(w,
		"# Mutants\n\nMade by `make mutants`; change the rows in [test/mutants/table](../test/mutants/table), not "+
			"here.\n\n")
	fmt.Fprintf(w, "Each row is one change of the product that would hurt somebody, and the test that fails with it. "+
		"Repeat one with `go run ./test/mutants -only ID`; how it works stands in `test/mutants/doc.go`.\n\n")
	fmt.Fprintf(w,
		"| | |\n|---|---|\n| commit | %s |\n| date | %s |\n| command | `%s` |\n| machine | %d CPUs, %s, %s/%s |\n| "+
			"mutants | %d: %d killed, %d the same as the original, %d survived, %d not run |\n",
		commit(root), time.Now().UTC().Format(time.DateOnly),
		strings.Join(append([]string{"go run ./test/mutants"}, args...), " "),
		runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH, of, killed, same, len(results)-killed-same,
		of-len(results))
}

// commit is what was tested.
func commit(root string) string {
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		b, _ := cmd.Output() // without git: nothing
		return strings.TrimSpace(string(b))
	}
	at := git("rev-parse", "--short=12", "HEAD")
	if at == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no") != "" {
		at += ", changed"
	}
	return at
}

func (r *result) write(w io.Writer) {
	by := "**nothing**"
	switch {
	case r.mutant.same != "":
		by = "the same: " + cell(r.mutant.same)
	case r.by != "":
		by = fmt.Sprintf("%s, %.1f s", code(r.by), r.took.Seconds())
		if r.how != "failed" {
			by += ", which " + r.how
		}
	}
	is := code(r.mutant.is)
	if r.mutant.is == "-" {
		is = "nothing"
	}
	fmt.Fprintf(w, "| %s | %s | %s → %s | %s | %s |\n", r.mutant.id, code(r.mutant.function), code(r.mutant.was), is,
		cell(r.mutant.harm), by)
}

// code is a piece of Go in a cell of a table.
func code(s string) string { return "`` " + cell(s) + " ``" }

// cell keeps a text within its cell.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
