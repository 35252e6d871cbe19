package pipeline

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

// TestSteps: every step says whether it may wait for Kafka; there are no others.
func TestSteps(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "steps.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && spec.Type != nil {
			if name, ok := spec.Type.(*ast.Ident); ok && name.Name == "Step" {
				for _, id := range spec.Names {
					declared = append(declared, id.Name)
				}
			}
		}
		return true
	})
	if len(declared) != len(waitsForKafka) {
		t.Errorf("%d steps are declared, waitsForKafka holds %d: %v", len(declared), len(waitsForKafka), declared)
	}
	var local []Step
	for s := range waitsForKafka {
		if s.Local() {
			local = append(local, s)
		}
	}
	slices.Sort(local)
	want := []Step{StepAdvance, StepApply, StepBegin, StepCommitted, StepEmit, stepOpenStore, StepStored}
	if slices.Sort(want); !slices.Equal(local, want) {
		t.Errorf("the watchdog ends the process at %q, want %q", local, want)
	}
	if Step("renamed").Local() {
		t.Error("a step that nobody knows ends the process")
	}
}
