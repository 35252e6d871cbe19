package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTable: every mutant applies to the product as it is, and its tests are
// there. A row that this finds is to be brought up to date, not removed.
func TestTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	all, err := table()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 60 {
		t.Errorf("%d mutants; there were more", len(all))
	}
	s := newSources(root)
	for i := range all {
		c, err := s.apply(&all[i])
		if err != nil {
			t.Error(err)
		} else if original, _ := os.ReadFile(c.path); string(original) == string(c.bytes) {
			t.Errorf("%s changes nothing", all[i].id)
		}
	}
	tests := map[string][]string{}
	for _, k := range killersOf(all) {
		if tests[k.dir] == nil {
			tests[k.dir] = testsOf(t, filepath.Join(root, k.dir))
		}
		top, _, _ := strings.Cut(k.run, "/")
		if re := regexp.MustCompile(top); !anyMatch(re, tests[k.dir]) {
			t.Errorf("no test is called %s", k)
		}
	}
}

func anyMatch(re *regexp.Regexp, names []string) bool {
	for _, n := range names {
		if re.MatchString(n) {
			return true
		}
	}
	return false
}

// testsOf are the tests of a package.
func testsOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

func TestFind(t *testing.T) {
	source := []byte("func f(a, b int) int {\n\tif a > b { // a comment\n\t\treturn a\n\t}\n\tfor i := 0; i < b; i++ {\n\t\ta++\n\t\tb--\n\t}\n\treturn b\n}")
	for _, c := range []struct{ name, snippet, want string }{
		{"one token", "a > b", "a > b"},
		{"a block on one line", "if a > b { return a }", "if a > b { // a comment\n\t\treturn a\n\t}"},
		{"two statements", "a++; b--", "a++\n\t\tb--"},
		{"a head with semicolons", "for i := 0; i < b; i++ {", "for i := 0; i < b; i++ {"},
		{"spaces do not count", "a>b", "a > b"},
		{"twice", "return", ""},
		{"not there", "a < b", ""},
		{"part of a name", "eturn b", ""},
	} {
		start, end, err := find(source, c.snippet)
		if got := string(source[start:end]); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

func TestParse(t *testing.T) {
	good := "[a-b]\nin p T.f\nwas x\n  y\nis -\nharm It hurts.\nkill p TestA\nkill q TestB/c d\n"
	list, err := parse("# for people\n\n" + good)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	m := list[0]
	if m.id != "a-b" || m.dir != "p" || m.function != "T.f" || m.was != "x y" || m.is != "-" || len(m.killers) != 2 || m.killers[1].run != "TestB/c d" {
		t.Errorf("%+v", m)
	}
	for name, text := range map[string]string{
		"no id":            "in p f",
		"an unknown word":  good + "foo bar",
		"a word twice":     good + "was z",
		"nothing behind":   "[a]\nwas",
		"no harm":          strings.Replace(good, "harm It hurts.\n", "", 1),
		"nobody kills it":  "[a]\nin p f\nwas x\nis y\nharm z",
		"killed and alike": good + "same why",
		"a bad regexp":     strings.Replace(good, "TestA", "Test(", 1),
	} {
		if _, err := parse(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestJudge: only what a test has found counts as killed.
func TestJudge(t *testing.T) {
	k := killer{"p", "TestA"}
	for _, c := range []struct {
		name, text string
		bad        bool
		how, test  string
		err        bool
	}{
		{"all passed", "PASS\n", false, "", "", false},
		{"nothing ran", "testing: warning: no tests to run\nPASS\n", false, "", "", true},
		{"a test failed", "--- FAIL: TestA (0.01s)\n    a_test.go:1: x\nFAIL\n", true, "failed", "TestA", false},
		{"a subtest failed", "--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/x (0s)\n        --- FAIL: TestA/x/y (0s)\nFAIL\n", true, "failed", "TestA/x/y", false},
		{"a goroutine panicked", "panic: no\n\ngoroutine 7 [running]:\n", true, "panicked", "TestA", false},
		{"it never ended", "panic: test timed out after 1s\n\trunning tests:\n\t\tTestA/x (1s)\n", true, "took too long", "TestA/x", false},
		{"it ended without a word", "signal: killed\n", true, "", "", true},
	} {
		o := outcome{text: []byte(c.text)}
		if err := o.judge(k, c.bad, false); o.how != c.how || o.test != c.test || (err != nil) != c.err {
			t.Errorf("%s: %q %q %v", c.name, o.how, o.test, err)
		}
	}
}
