package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// All mutants are built into the same binaries, and an environment variable
// says which of them is the one: to build and link one by one takes ten times
// as long as the tests. Each mutant is a copy of its function with the change
// in it, and the function begins by calling the copy, if it is its turn:
//
//	func (i *inputBarrier) reached() bool {
//		if mutantUnderTest == "barrier-end-minus-1" { return i.reached_mutant7() }
//		return i.at >= i.end
//	}
//
//	//line barrier-end-minus-1:1
//	func (i *inputBarrier) reached_mutant7() bool { return i.at >= i.end-1 }

// mutantVariable chooses the mutant; without it the product is as it is.
const mutantVariable = "MUTANT"

// edit is a piece of a file to be written otherwise.
type edit struct {
	from, to int
	text     string
}

// spliced are files with all mutants in them, by path; and a file more in each
// package.
func spliced(mutants []mutant, sites []site) (map[string][]byte, error) {
	edits, copies, ready := map[*file][]edit{}, map[*file]string{}, map[*ast.FuncDecl]bool{}
	out := map[string][]byte{}
	for i := range mutants {
		m, p := &mutants[i], &sites[i]
		call, names, err := p.call(fmt.Sprintf("_mutant%d", i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.id, err)
		}
		if !ready[p.function] {
			ready[p.function] = true
			edits[p.file] = append(edits[p.file], names...)
		}
		if call = "return " + call; p.function.Type.Results == nil {
			call = strings.TrimPrefix(call, "return ") + "; return"
		}
		at := p.file.offset(p.function.Body.Lbrace) + 1
		edits[p.file] = append(edits[p.file], edit{at, at, fmt.Sprintf("if mutantUnderTest == %q { %s }; ", m.id,
			call)})
		copies[p.file] += fmt.Sprintf("\n//line %s:1\n%s\n", m.id, p.copyOf(m, i))
		out[filepath.Join(p.dir, "which_mutant.go")] = fmt.Appendf(nil,
			"package %s\n\nimport \"os\"\n\nvar mutantUnderTest = os.Getenv(%q)\n",
			p.file.ast.Name.Name, mutantVariable)
	}
	for f, list := range edits {
		out[f.path] = append(f.edited(list), copies[f]...)
		if _, err := parser.ParseFile(token.NewFileSet(), f.path, out[f.path],
			parser.SkipObjectResolution); err != nil {
			return nil, fmt.Errorf("what a mutant makes is not Go: %w", err)
		}
	}
	return out, nil
}

// copyOf is the function of the ith mutant, under a name of its own.
func (p *site) copyOf(m *mutant, i int) string {
	is, name := m.is, p.file.offset(p.function.Name.End())
	if is == "-" {
		is = ""
	}
	b := p.file.bytes
	return string(b[p.file.offset(p.function.Pos()):name]) + "_mutant" + strconv.Itoa(i) + string(b[name:p.from]) + is +
		string(b[p.to:p.file.offset(p.function.End())])
}

// call spells a call of the function's copy with what the function was called
// with, and names those parameters that have no name.
func (p *site) call(suffix string) (call string, names []edit, err error) {
	fn := p.function
	name := fn.Name.Name + suffix
	if fn.Recv != nil {
		r := fn.Recv.List[0].Names
		if len(r) == 0 || r[0].Name == "_" {
			return "", nil, fmt.Errorf("%s has a receiver without a name", nameOf(fn))
		}
		name = r[0].Name + "." + name
	}
	var types, args []string
	if fn.Type.TypeParams != nil {
		for _, f := range fn.Type.TypeParams.List {
			for _, n := range f.Names {
				types = append(types, n.Name)
			}
		}
		name += "[" + strings.Join(types, ", ") + "]"
	}
	for _, f := range fn.Type.Params.List {
		given := f.Names
		if len(given) == 0 {
			at, arg := p.file.offset(f.Type.Pos()), fmt.Sprintf("mutantArg%d", len(args))
			names, given = append(names, edit{at, at, arg + " "}), []*ast.Ident{{Name: arg}}
		}
		for _, n := range given {
			arg := n.Name
			if arg == "_" {
				arg = fmt.Sprintf("mutantArg%d", len(args))
				names = append(names, edit{p.file.offset(n.Pos()), p.file.offset(n.End()), arg})
			}
			if _, variadic := f.Type.(*ast.Ellipsis); variadic {
				arg += "..."
			}
			args = append(args, arg)
		}
	}
	return name + "(" + strings.Join(args, ", ") + ")", names, nil
}

// edited is the file with edits made.
func (f *file) edited(list []edit) (out []byte) {
	slices.SortStableFunc(list, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	at := 0
	for _, e := range list {
		out = append(append(out, f.bytes[at:e.from]...), e.text...)
		at = e.to
	}
	return append(out, f.bytes[at:]...)
}

// writeOverlay writes what go build reads in place of the originals.
func writeOverlay(dir string, files map[string][]byte) (name string, err error) {
	replace := map[string]string{}
	for path, b := range files {
		source := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		err = errors.Join(err, os.WriteFile(source, b, 0o600))
		replace[path] = source
	}
	list, jsonErr := json.Marshal(map[string]map[string]string{"Replace": replace})
	name = filepath.Join(dir, "overlay.json")
	return name, errors.Join(err, jsonErr, os.WriteFile(name, list, 0o600))
}
