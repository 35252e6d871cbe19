package main

import (
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

// site is where a mutant changes the product.
type site struct {
	dir      string // the package's
	file     *file
	function *ast.FuncDecl
	from, to int // of the snippet, in the file
}

func newSources(root string) *sources { return &sources{root: root, packages: map[string][]*file{}} }

// find finds the place of a mutant, or says why there is none.
func (s *sources) find(m *mutant) (p site, err error) {
	files, err := s.files(m.dir)
	if err != nil {
		return p, fmt.Errorf("%s: %w", m.id, err)
	}
	p.dir = filepath.Join(s.root, m.dir)
	if p.file, p.function, err = function(files, m.function); err != nil {
		return p, fmt.Errorf("%s: package %s: %w", m.id, m.dir, err)
	}
	begin := p.file.offset(p.function.Pos())
	from, to, err := findSnippet(p.file.bytes[begin:p.file.offset(p.function.End())], m.was)
	if err != nil {
		return p, fmt.Errorf("%s: %s.%s: %w", m.id, m.dir, m.function, err)
	}
	p.from, p.to = begin+from, begin+to
	return p, nil
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

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

// line is where the snippet begins.
func (p *site) line() int {
	n := 1
	for _, c := range p.file.bytes[:p.from] {
		if c == '\n' {
			n++
		}
	}
	return n
}

// function finds a function by its name, a method by its type's and its own.
func function(files []*file, name string) (in *file, found *ast.FuncDecl, err error) {
	for _, f := range files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || nameOf(fn) != name {
				continue
			}
			if found != nil {
				return nil, nil, fmt.Errorf("%s is there twice", name)
			}
			in, found = f, fn
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("there is no %s", name)
	}
	return in, found, nil
}

func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	return receiver(fn.Recv.List[0].Type) + "." + fn.Name.Name
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

// findSnippet finds the one place where source says the same as snippet, but
// for spaces, line breaks and comments.
func findSnippet(source []byte, snippet string) (start, end int, err error) {
	in, what := words(source), words([]byte(snippet))
	if len(what) == 0 {
		return 0, 0, errors.New("an empty snippet")
	}
	n := 0
	for i := range in {
		if i+len(what) <= len(in) && slices.EqualFunc(in[i:i+len(what)], what,
			func(a, b word) bool { return a.text == b.text }) {
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
