package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
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
	sites, err := findAll(newSources(root), all)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spliced(all, sites); err != nil {
		t.Error(err)
	}
	for i := range all {
		if was := string(sites[i].file.bytes[sites[i].from:sites[i].to]); was == all[i].is {
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

// TestBreadthTable: what breadth.txt explains is there.
func TestBreadthTable(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	why, err := explained(sameText)
	if err != nil || len(why) == 0 {
		t.Fatal(len(why), err)
	}
	s, found, read := newSources(root), map[string]bool{}, map[string]bool{}
	for key := range why {
		dir, _, _ := strings.Cut(key, " ")
		if read[dir] {
			continue
		}
		read[dir] = true
		all, sites, err := breadth(s, dir)
		if err != nil {
			t.Fatal(err)
		}
		for i := range all {
			found[sameKey(&all[i])] = true
			if was := string(sites[i].file.bytes[sites[i].from:sites[i].to]); was != all[i].was || was == all[i].is {
				t.Errorf("%s: %q becomes %q", all[i].id, was, all[i].is)
			}
		}
	}
	for key := range why {
		if !found[key] {
			t.Errorf("breadth.txt explains what is not there: %s", key)
		}
	}
}

// TestBreadth: every operator of a function, each once for every kind that it has.
func TestBreadth(t *testing.T) {
	f := &file{path: "x.go", set: token.NewFileSet(), bytes: []byte(
		"package x\nfunc f(a, b int) bool {\n\tb++\n\treturn a < b-1 && a != 0\n}\nfunc (T) g() bool { return 1 < 2 }")}
	var err error
	if f.ast, err = parser.ParseFile(f.set, f.path, f.bytes, parser.SkipObjectResolution); err != nil {
		t.Fatal(err)
	}
	all, _, err := breadth(&sources{packages: map[string][]*file{"x": {f}}}, "x")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, m.id+" "+m.is)
	}
	want := []string{
		"x.go-3-3-increment b--", "x.go-4-17-logical a < b-1 || a != 0", "x.go-4-11-boundary a <= b-1",
		"x.go-4-11-negation a >= b-1", "x.go-4-14-arithmetic b+1", "x.go-4-22-negation a == 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
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
	source := []byte("func f(a, b int) int {\n\tif a > b { // a comment\n\t\treturn a\n\t}\n\tfor i := 0; i < b; " +
		"i++ {\n\t\ta++\n\t\tb--\n\t}\n\treturn b\n}")
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
		start, end, err := findSnippet(source, c.snippet)
		if got := string(source[start:end]); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
}

// TestSplice: a function calls the copy whose turn it is, with what it was
// called with.
func TestSplice(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{
			"a method", "func (x *T) f(a int, b, c string) (n int, err error) {\n\treturn 1, nil\n}",
			"func (x *T) f(a int, b, c string) (n int, err error) {if mutantUnderTest == \"id\" { return " +
				"x.f_mutant0(a, b, c) }; \n\treturn 1, nil\n}\n//line id:1\nfunc (x *T) f_mutant0(a int, b, c " +
				"string) (n int, err error) {\n\treturn 2, nil\n}\n",
		},
		{
			"nothing comes back", "func f(a int, _ string, more ...int) { g(1) }",
			"func f(a int, mutantArg1 string, more ...int) {if mutantUnderTest == \"id\" { f_mutant0(a, " +
				"mutantArg1, more...); return };  g(1) }\n//line id:1\nfunc f_mutant0(a int, _ string, more " +
				"...int) { g(2) }\n",
		},
		{
			"arguments without a name", "func f(int, *T) { g(1) }",
			"func f(mutantArg0 int, mutantArg1 *T) {if mutantUnderTest == \"id\" { f_mutant0(mutantArg0, " +
				"mutantArg1); return };  g(1) }\n//line id:1\nfunc f_mutant0(int, *T) { g(2) }\n",
		},
		{
			"generic", "func f[K comparable, V any](m map[K]V) int { return 1 }",
			"func f[K comparable, V any](m map[K]V) int {if mutantUnderTest == \"id\" { return f_mutant0[K, V](m) " +
				"};  return 1 }\n//line id:1\nfunc f_mutant0[K comparable, V any](m map[K]V) int { return 2 }\n",
		},
	} {
		f := &file{path: "x.go", bytes: []byte("package x\n" + c.source), set: token.NewFileSet()}
		var err error
		if f.ast, err = parser.ParseFile(f.set, f.path, f.bytes, parser.SkipObjectResolution); err != nil {
			t.Fatal(err)
		}
		fn := f.ast.Decls[0].(*ast.FuncDecl)
		at := strings.Index(string(f.bytes), "1")
		out, err := spliced([]mutant{{id: "id", is: "2"}}, []site{{dir: "d", file: f, function: fn, from: at, to: at +
			1}})
		if got := string(out["x.go"]); err != nil || got != "package x\n"+c.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", c.name, err, got, c.want)
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
	if m.id != "a-b" || m.dir != "p" || m.function != "T.f" || m.was != "x y" || m.is != "-" || len(m.killers) != 2 ||
		m.killers[1].run != "TestB/c d" {
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
		{
			"a subtest failed",
			"--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/x (0s)\n        --- FAIL: TestA/x/y (0s)\nFAIL\n", true,
			"failed", "TestA/x/y", false,
		},
		{"a goroutine panicked", "panic: no\n\ngoroutine 7 [running]:\n", true, "panicked", "TestA", false},
		{
			"it never ended", "panic: test timed out after 1s\n\trunning tests:\n\t\tTestA/x (1s)\n", true,
			"took too long", "TestA/x", false,
		},
		{"it ended without a word", "signal: killed\n", true, "", "", true},
	} {
		o := outcome{text: []byte(c.text)}
		if err := o.judge(k, c.bad, false); o.how != c.how || o.test != c.test || (err != nil) != c.err {
			t.Errorf("%s: %q %q %v", c.name, o.how, o.test, err)
		}
	}
}
