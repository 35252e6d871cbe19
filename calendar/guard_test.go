package calendar

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyElseResolvesLocalTime holds the whole repository to what
// Zone says: outside zone.go no product code may call AddDate or ParseInLocation, load
// a zone from the host, or build a time.Date in anything but time.UTC. Free are
// packages that only tests use (…test), the simulator, whose clients ask for dates
// as users do, and the history checker, whose oracle must not be ours.
func TestNobodyElseResolvesLocalTime(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch n := d.Name(); {
			case n == "testdata", n == "node_modules", strings.HasSuffix(n, "test"), strings.HasPrefix(n, ".") &&
				n != "..",
				path == filepath.Join("..", "internal", "check"), path == filepath.Join("..", "internal", "sim"):
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			path == filepath.Join("..", "calendar", "zone.go") {
			return nil
		}
		files++
		for _, v := range localTimeCalls(t, path) {
			t.Errorf("%s; ask package calendar", v)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 20 {
		t.Errorf("only %d files looked at", files)
	}
}

// TestGuardSees makes sure that the check can fail.
func TestGuardSees(t *testing.T) {
	got := localTimeCalls(t, filepath.Join("testdata", "localtime.go.txt"))
	if len(got) != 5 {
		t.Errorf("%d calls found, want 5: %v", len(got), got)
	}
}

func localTimeCalls(t *testing.T, path string) (found []string) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil // somebody is in the middle of writing it; the compiler will tell
	}
	ast.Inspect(f, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		pkg, _ := sel.X.(*ast.Ident)
		isTime := pkg != nil && pkg.Name == "time"
		switch {
		case sel.Sel.Name == "AddDate",
			isTime && (sel.Sel.Name == "ParseInLocation" || sel.Sel.Name == "LoadLocation"),
			isTime && sel.Sel.Name == "Date" && !isUTC(call.Args[len(call.Args)-1]):
			found = append(found, fset.Position(call.Pos()).String()+": "+sel.Sel.Name)
		}
		return true
	})
	return found
}

func isUTC(e ast.Expr) bool {
	sel, ok := e.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "UTC"
}
