package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// banned are words that once meant several things each: settle alone had eight
// definitions. docs/glossary.md has the words to use.
var banned = strings.Fields(`
	settle settles settled settling unsettled look looks looked looking tell tells told telling
	obey obeys obeyed perform performs performed bury buries buried remember remembers remembered
	place places placed pardon pardons pardoned lookout ailing distrust again`)

// retired has the banned words that no comment and no document needs either.
var retired = regexp.MustCompile(`(?i)\b(settl|unsettl|obey|pardon|lookout|ailing|distrust|bury|buri)[a-z]*\b`)

// TestRetiredWords: comments and documents do not have them. Records of measurements stay as they are.
func TestRetiredWords(t *testing.T) {
	read := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || path == "../../bench"):
			return filepath.SkipDir
		case d.IsDir() || filepath.Dir(path) == "../../test/house":
			return nil
		case filepath.Ext(path) != ".go" && filepath.Ext(path) != ".md":
			return nil
		}
		read++
		text, err := os.ReadFile(path)
		for i, line := range strings.Split(string(text), "\n") {
			if word := retired.FindString(line); word != "" {
				t.Errorf("%s:%d has %q", path, i+1, word)
			}
		}
		return err
	})
	if err != nil || read < 500 {
		t.Errorf("read %d files, %v", read, err)
	}
}

// notOurs are names that others gave, or that are on the wire: a field of a
// message keeps its name.
var notOurs = []string{"LookPath", "Told"}

// parts splits a name such as lookUpZone or state_decode into its words.
var parts = regexp.MustCompile(`[A-Z]+[a-z]*|[a-z]+`)

// bannedIn is the banned word in a name; "" if it has none.
func bannedIn(name string) string {
	if slices.Contains(notOurs, name) {
		return ""
	}
	for _, word := range parts.FindAllString(name, -1) {
		if word = strings.ToLower(word); slices.Contains(banned, word) {
			return word
		}
	}
	return ""
}

// goFiles are all Go files of the tree that people write.
func goFiles(t *testing.T) (paths []string) {
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, ".pb.go"):
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil || len(paths) < 500 {
		t.Fatalf("found %d files, %v", len(paths), err)
	}
	return paths
}

// TestWords: no name in the code, and no file's, has a banned word.
func TestWords(t *testing.T) {
	for _, path := range goFiles(t) {
		if word := bannedIn(strings.TrimSuffix(filepath.Base(path), ".go")); word != "" {
			t.Errorf("%s: a file's name has %q", path, word)
		}
		files := token.NewFileSet()
		f, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				if word := bannedIn(id.Name); word != "" {
					t.Errorf("%s: %s has %q", files.Position(id.Pos()), id.Name, word)
				}
			}
			return true
		})
	}
}

// TestBannedIn: the check itself finds words, and only words.
func TestBannedIn(t *testing.T) {
	for name, want := range map[string]string{
		"lookAround": "look", "isUnsettled": "unsettled", "TestTellEnding": "tell", "duePlace": "place",
		"again":   "again",
		"ToldAll": "told", "told": "told", "standby_lookout": "lookout",
		"replace": "", "placeholder": "", "Lookup": "", "against": "", "detail": "", "LookPath": "",
	} {
		if got := bannedIn(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
