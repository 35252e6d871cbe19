package problem_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// codesIn are the values of the constants Code… of a Go file.
func codesIn(t *testing.T, path string) (codes []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Code") || len(spec.Values) == 0 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok && lit.Kind == token.STRING {
			code, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	if len(codes) == 0 {
		t.Fatalf("%s has no codes", path)
	}
	return codes
}

// TestCodesAreDocumented: each code that a caller may get is in a table of the
// documents, from which the clients' tests take them.
func TestCodesAreDocumented(t *testing.T) {
	for page, source := range map[string]string{
		"../../docs/formats/rejected.md": "../../trigger/errors.go",
		"../../docs/api.md":              "problem.go",
	} {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codesIn(t, source) {
			if !strings.Contains(string(b), "| `"+code+"`") && !strings.Contains(string(b), ", `"+code+"` |") {
				t.Errorf("%s has no row of code %s", page, code)
			}
		}
	}
}
