package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// Every code of the contract has an entry in exits.
func TestEveryCodeHasAnExit(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../trigger/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if _, known := exits[trigger.Code(code)]; err != nil || !known {
			t.Errorf("%s has no exit code: %v", code, err)
		}
		codes++
		return true
	})
	if codes == 0 || codes != len(exits) {
		t.Errorf("%d codes in trigger/errors.go, %d in the table", codes, len(exits))
	}
}

// docs/cli.md lists every code in the row of its exit code.
func TestExitCodesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "The codes of refusals")
	for code, exit := range exits {
		documented := false
		for _, line := range strings.Split(table, "\n") {
			row, isRow := strings.CutPrefix(line, "| "+strconv.Itoa(exit)+" |")
			documented = documented || isRow && strings.Contains(row, "`"+string(code)+"`")
		}
		if !documented {
			t.Errorf("%s is not in a row of %d", code, exit)
		}
	}
}
