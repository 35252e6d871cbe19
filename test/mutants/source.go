package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
)

// changed is a source file with a mutant in it.
type changed struct {
	path  string // of the original
	line  int    // where the change is
	bytes []byte
}

// sources reads packages once.
type sources struct {
	root     string // of the module
	packages map[string][]*file
}

// file is one source file of a package.
type file struct {
	path  string
	bytes []byte
	set   *token.FileSet
	ast   *ast.File
}

func newSources(root string) *sources { return &sources{root: root, packages: map[string][]*file{}} }

// apply makes the mutant, or says why it does not apply.
func (s *sources) apply(m *mutant) (changed, error) {
	files, err := s.files(m.dir)
	if err != nil {
		return changed{}, fmt.Errorf("%s: %w", m.id, err)
	}
	f, from, to, err := function(files, m.function)
	if err != nil {
		return changed{}, fmt.Errorf("%s: package %s: %w", m.id, m.dir, err)
	}
	start, end, err := find(f.bytes[from:to], m.was)
	if err != nil {
		return changed{}, fmt.Errorf("%s: %s.%s: %w", m.id, m.dir, m.function, err)
	}
	is := m.is
	if is == "-" {
		is = ""
	}
	out := slices.Concat(f.bytes[:from+start], []byte(is), f.bytes[from+end:])
	if _, err := parser.ParseFile(token.NewFileSet(), f.path, out, parser.SkipObjectResolution); err != nil {
		return changed{}, fmt.Errorf("%s: what it makes is not Go: %w", m.id, err)
	}
	return changed{f.path, 1 + bytes.Count(f.bytes[:from+start], []byte("\n")), out}, nil
}

// files are the sources of a package as they are built without tags.
func (s *sources) files(dir string) ([]*file, error) {
	if list := s.packages[dir]; list != nil {
		return list, nil
	}
	p, err := build.ImportDir(filepath.Join(s.root, dir), 0)
	if err != nil {
		return nil, err
	}
	var list []*file
	for _, name := range p.GoFiles {
		f := &file{path: filepath.Join(p.Dir, name), set: token.NewFileSet()}
		if f.bytes, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.ast, err = parser.ParseFile(f.set, f.path, f.bytes, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	s.packages[dir] = list
	return list, nil
}

// function finds a declaration by its name, and where it begins and ends.
func function(files []*file, name string) (in *file, from, to int, err error) {
	for _, f := range files {
		for _, d := range f.ast.Decls {
			if !slices.Contains(namesOf(d), name) {
				continue
			}
			if in != nil {
				return nil, 0, 0, fmt.Errorf("%s is there twice", name)
			}
			in, from, to = f, f.set.Position(d.Pos()).Offset, f.set.Position(d.End()).Offset
		}
	}
	if in == nil {
		return nil, 0, 0, fmt.Errorf("there is no %s", name)
	}
	return in, from, to, nil
}

// namesOf is what a declaration may be called: a function by its name, a method
// by its type's and its own, constants and variables each.
func namesOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiver(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if v, ok := s.(*ast.ValueSpec); ok {
				for _, n := range v.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr: // generic
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// word is a token with its place.
type word struct {
	text       string
	start, end int
}

// find finds the one place where source says the same as snippet, but for
// spaces, line breaks and comments.
func find(source []byte, snippet string) (start, end int, err error) {
	in, what := words(source), words([]byte(snippet))
	if len(what) == 0 {
		return 0, 0, errors.New("an empty snippet")
	}
	n := 0
	for i := range in {
		if i+len(what) <= len(in) && slices.EqualFunc(in[i:i+len(what)], what, func(a, b word) bool { return a.text == b.text }) {
			start, end = in[i].start, in[i+len(what)-1].end
			n++
		}
	}
	if n != 1 {
		return 0, 0, fmt.Errorf("the snippet is there %d times, not once: %s", n, snippet)
	}
	return start, end, nil
}

// words are the tokens of a piece of Go. A line break that ends a statement is
// a semicolon, unless a bracket closes behind it: a snippet on one line has
// none there.
func words(source []byte) (out []word) {
	set := token.NewFileSet()
	f := set.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(f, source, func(token.Position, string) {}, 0)
	for {
		pos, tok, text := s.Scan()
		at := f.Offset(pos)
		last := len(out) - 1
		if tok == token.RBRACE || tok == token.RPAREN || tok == token.EOF {
			for last >= 0 && out[last].text == ";" {
				out, last = out[:last], last-1
			}
		}
		switch {
		case tok == token.EOF:
			return out
		case tok == token.SEMICOLON:
			text = ";"
		case text == "":
			text = tok.String()
		}
		out = append(out, word{text, at, at + len(text)})
	}
}
