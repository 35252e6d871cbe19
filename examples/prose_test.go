package examples

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	longestLine = 120 // characters of a line of Markdown, outside of code blocks
	mostTerms   = 40  // terms of the glossary
)

// unwrapped are documents with lines that may be longer: the first is made
// from a table, row by row; mutants.md is the output of a program.
var unwrapped = []string{"../docs/operations/settings.md", "../docs/mutants.md"}

// notYet are documents that have not been gone through. It should be empty.
var notYet = []string{}

// markdown are all Markdown files of the tree but the records of measurements.
func markdown(t *testing.T) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || path == "../bench/results" ||
			path == "../bin"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md" && path != "../bench/HISTORY.md":
			out[path] = read(t, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 40 {
		t.Fatalf("only %d documents found", len(out))
	}
	return out
}

// prose gives every line of a text that is not in a code block.
func prose(text string) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		code := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				code = !code
			} else if !code && !yield(i+1, line) {
				return
			}
		}
	}
}

// TestLinesOfDocuments: a line can be read in a terminal and in a diff.
func TestLinesOfDocuments(t *testing.T) {
	for path, text := range markdown(t) {
		if slices.Contains(unwrapped, path) || slices.Contains(notYet, path) {
			continue
		}
		for n, line := range prose(text) {
			if length := utf8.RuneCountInString(line); length > longestLine {
				t.Errorf("%s:%d has %d characters, the most is %d", path, n, length, longestLine)
			}
		}
	}
}

// alien are citations of documents that a reader does not have.
var alien = regexp.MustCompile(`\b(CONTRACT|DESIGN|FAILURES|PERFORMANCE|LIBRARIES|CONVENTIONS|TIME (section|[0-9]))\b`)

// TestCitationsOfComments: comments cite nothing that a reader does not have.
func TestCitationsOfComments(t *testing.T) {
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || filepath.Base(path) == "prose_test.go" {
			return err
		}
		for n, line := range strings.Split(read(t, path), "\n") {
			if _, comment, found := strings.Cut(line, "//"); found && alien.MatchString(comment) {
				t.Errorf("%s:%d cites %s, which is not in the repository", path, n+1, alien.FindString(comment))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCitations: a document cites nothing that a reader does not have.
func TestCitations(t *testing.T) {
	file := regexp.MustCompile(`[A-Za-z0-9_./-]+\.md\b`)
	for path, text := range markdown(t) {
		if slices.Contains(notYet, path) {
			continue
		}
		for n, line := range prose(text) {
			if found := alien.FindString(line); found != "" {
				t.Errorf("%s:%d cites %s, which is not in the repository", path, n, found)
			}
			for _, name := range file.FindAllString(line, -1) {
				if !slices.ContainsFunc([]string{filepath.Dir(path), "..", "../docs"}, func(dir string) bool {
					_, err := os.Stat(filepath.Join(dir, name))
					return err == nil
				}) {
					t.Errorf("%s:%d cites %s, which is not in the repository", path, n, name)
				}
			}
		}
	}
}

// TestGlossary: there is one dictionary, in order, and it is short.
func TestGlossary(t *testing.T) {
	var terms []string
	for _, line := range prose(read(t, "../docs/glossary.md")) {
		if rest, isTerm := strings.CutPrefix(line, "**"); isTerm {
			term, _, _ := strings.Cut(rest, "**")
			terms = append(terms, strings.ToLower(term))
		}
	}
	if len(terms) < 20 || len(terms) > mostTerms {
		t.Errorf("the glossary has %d terms, the most is %d", len(terms), mostTerms)
	}
	if !slices.IsSorted(terms) {
		t.Errorf("the terms are not in order: %q", terms)
	}
}
