package house

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// longest is how many columns a line has at most; a tab counts for four.
const longest = 120

// rawLines are the lines of a file that a raw string stands in, or a part of
// one: such a string cannot be broken. Struct tags are raw strings.
func rawLines(src []byte) map[int]bool {
	files := token.NewFileSet()
	file := files.AddFile("", files.Base(), len(src))
	var s scanner.Scanner
	s.Init(file, src, nil, 0)
	raw := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		switch {
		case tok == token.EOF:
			return raw
		case tok == token.STRING && text[0] == '`':
			first := files.Position(pos).Line
			for n := range strings.Count(text, "\n") + 1 {
				raw[first+n] = true
			}
		}
	}
}

// TestLines: a line of Go can be read beside another one.
func TestLines(t *testing.T) {
	for _, path := range goFiles(t) {
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		raw := rawLines(src)
		for i, line := range strings.Split(string(src), "\n") {
			if raw[i+1] || strings.Contains(line, "//nolint:") {
				continue
			}
			if n := columns(line); n > longest && !strings.HasPrefix(line, "//go:") {
				t.Errorf("%s:%d has %d columns, the most is %d", path, i+1, n, longest)
			}
		}
	}
}

func columns(line string) int { return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t") }

// TestLinesOfConsole: nor has a line of the console's own scripts and styles more. What is vendored stays as it came.
func TestLinesOfConsole(t *testing.T) {
	const assets = "../../gateway/console/assets"
	read := 0
	err := filepath.WalkDir(assets, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "vendor":
			return filepath.SkipDir
		case d.IsDir() || !slices.Contains([]string{".js", ".css"}, filepath.Ext(path)):
			return nil
		}
		read++
		src, err := os.ReadFile(path)
		for i, line := range strings.Split(string(src), "\n") {
			if n := columns(line); n > longest {
				t.Errorf("%s:%d has %d columns, the most is %d", path, i+1, n, longest)
			}
		}
		return err
	})
	if err != nil || read < 15 {
		t.Errorf("read %d files, %v", read, err)
	}
}

// TestRawLines: which lines are let off.
func TestRawLines(t *testing.T) {
	src := "package p\n\nvar a = `x\ny`\nvar b = \"z\" // `\n"
	if got := rawLines([]byte(src)); len(got) != 2 || !got[3] || !got[4] {
		t.Errorf("%v", got)
	}
}
