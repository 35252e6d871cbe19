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
	longestLine  = 120 // characters of a line of Markdown, outside of code blocks
	mostTerms   = 40  // terms of the glossary
)

// unwrapped are documents with lines that may be longer: the first is made
// from a table, row by row; mutants.md is the output of a program.
var unwrapped = []string{"../docs/operations/settings.md", "../docs/mutants.md"}

// notYet are documents that have not been gone through. It should be empty.
var notYet = []string{
	"../CHANGELOG.md",
	"../bench/README.md",
	"../docs/decisions/0001-done-records-are-states.md",
	"../docs/decisions/0002-the-home-of-a-state-is-its-earliest-timer.md",
	"../docs/decisions/0003-clock-within-a-second-of-the-broker.md",
	"../docs/decisions/0004-forwarding-outside-the-turn.md",
	"../docs/decisions/0005-receipts-share-the-maps-of-progress.md",
	"../docs/decisions/0006-a-cuckoo-filter.md",
	"../docs/decisions/0007-a-replacement-after-fired-stays-in-the-life.md",
	"../docs/decisions/0008-internal-secret-from-the-state-topics-id.md",
	"../docs/decisions/0009-an-edited-recurrence-keeps-its-phase.md",
	"../docs/decisions/0010-due-topics-that-refuse-records.md",
	"../docs/decisions/0011-standbys-and-who-takes-over.md",
	"../docs/decisions/0012-a-refused-attempt-is-a-command-that-is-refused.md",
	"../docs/decisions/0013-a-replan-walks-states-where-they-lie.md",
	"../docs/decisions/0014-the-embedded-broker-has-a-journal.md",
	"../docs/decisions/0015-who-opens-a-partition-ends-what-kafka-has-left-open.md",
	"../docs/decisions/README.md",
}

// markdown are all Markdown files of the tree but the records of measurements.
func markdown(t *testing.T) map[string]string {
	out := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || path == "../bench/results" || path == "../bin"):
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

// TestCitations: a document cites nothing that a reader does not have.
func TestCitations(t *testing.T) {
	var (
		file  = regexp.MustCompile(`[A-Za-z0-9_./-]+\.md\b`)
		alien = regexp.MustCompile(`\b(CONTRACT|DESIGN|FAILURES|PERFORMANCE|LIBRARIES|CONVENTIONS|TIME (section|[0-9]))\b`)
	)
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
