package house

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	quoted   = regexp.MustCompile("`([^`]+)`")
	fileName = regexp.MustCompile(`^[\w/.]+\.(go|sh|txt)$`)
)

// TestFileMap: the file map of docs/ARCHITECTURE.md names directories and files that exist, and
// every package that other modules may import.
func TestFileMap(t *testing.T) {
	page, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "## File map\n")
	if !found {
		t.Fatal("docs/ARCHITECTURE.md has no file map")
	}
	var mapped []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		dirs := names(cells[1])
		mapped = append(mapped, dirs...)
		for _, dir := range dirs {
			if info, err := os.Stat(filepath.Join("../..", dir)); err != nil || !info.IsDir() {
				t.Errorf("%s is not a directory", dir)
			}
		}
		for _, file := range names(cells[3]) {
			if fileName.MatchString(file) && !slices.ContainsFunc(append(dirs, "."), func(dir string) bool {
				_, err := os.Stat(filepath.Join("../..", dir, file))
				return err == nil
			}) {
				t.Errorf("%s has no file %s", strings.Join(dirs, ", "), file)
			}
		}
	}
	for _, dir := range public(t) {
		if !slices.Contains(mapped, dir) {
			t.Errorf("package %s is not in the file map", dir)
		}
	}
}

var named = regexp.MustCompile("`([\\w.]+)`\\s+in\\s+`([\\w/]+\\.go)`")

// TestNamesInFiles: where docs/ARCHITECTURE.md says "`name` in `file`", the file has the name.
func TestNamesInFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	files := goFiles(t)
	found := named.FindAllSubmatch(page, -1)
	if len(found) < 5 {
		t.Fatalf("found %d names", len(found))
	}
	for _, m := range found {
		name, file := string(m[1]), string(m[2])
		word := regexp.MustCompile(`\b` + regexp.QuoteMeta(name) + `\b`)
		if !slices.ContainsFunc(files, func(path string) bool {
			text, err := os.ReadFile(path)
			return strings.HasSuffix(path, "/"+file) && err == nil && word.Match(text)
		}) {
			t.Errorf("%s has no %s", file, name)
		}
	}
}

// TestExamples: every package that other modules may import has a runnable example.
func TestExamples(t *testing.T) {
	for _, dir := range public(t) {
		files, err := filepath.Glob(filepath.Join("../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		program, example := false, false
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			program = program || bytes.Contains(text, []byte("\npackage main\n"))
			example = example || strings.HasSuffix(file, "_test.go") && bytes.Contains(text, []byte("\nfunc Example"))
		}
		if !program && !example {
			t.Errorf("package %s has no func Example", dir)
		}
	}
}

// names are the words in back quotes.
func names(text string) (out []string) {
	for _, m := range quoted.FindAllStringSubmatch(text, -1) {
		out = append(out, m[1])
	}
	return out
}

// public are the packages that other modules may import, without those for tests, of generated
// code and of embedded files.
func public(t *testing.T) (dirs []string) {
	for _, path := range goFiles(t) {
		dir, _ := filepath.Rel("../..", filepath.Dir(path))
		top, _, _ := strings.Cut(dir, "/")
		switch {
		case slices.Contains([]string{"internal", "test", "examples", "schemas", "bench", "clients", "."}, top),
			strings.Contains(dir, "testdata"), filepath.Base(dir) == "gen", strings.HasSuffix(dir, "test"),
			slices.Contains(dirs, dir):
		default:
			dirs = append(dirs, dir)
		}
	}
	return dirs
}
