package templates

import (
	"errors"
	"fmt"
	htmltemplate "html/template"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"
)

// Bounds of a directory.
const (
	MaxFile  = 64 << 10 // bytes of one file
	MaxFiles = 2000     // templates in all languages
)

// Suffix is the suffix of template file names. Other files are ignored.
const Suffix = ".tmpl"

// The blocks that a file may define for the message.
const (
	blockTitle    = "title"
	blockBody     = "body"
	blockHTML     = "html"
	blockDeepLink = "deep_link"
)

// Set has the templates of a directory. The zero value has none.
type Set struct {
	byID map[string]map[string]*file // by id, then by locale in lower case; "": the default
}

// file is one template in one language.
type file struct {
	locale string // as in the file name; "": the default
	has    map[string]bool
	text   *template.Template
	html   *htmltemplate.Template // nil if there is no block html
	pool   sync.Pool              // of *instance
}

var fileName = regexp.MustCompile(`^([A-Za-z0-9_-]{1,64})(?:\.([A-Za-z]{2,8}(?:-[A-Za-z0-9]{1,8})*))?\.tmpl$`)

// Load loads a directory. The error joins all errors, each with file and line.
func Load(dir string) (*Set, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the templates: %w", err)
	}
	s := &Set{byID: map[string]map[string]*file{}}
	var errs []error
	n := 0
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), Suffix) {
			continue
		}
		if n++; n > MaxFiles {
			return nil, fmt.Errorf("%s has over %d templates", dir, MaxFiles)
		}
		errs = append(errs, s.add(filepath.Join(dir, e.Name())))
	}
	for _, id := range s.IDs() {
		if s.byID[id][""] == nil {
			errs = append(errs, fmt.Errorf("%s: template %s has no file without a locale: write %s, for those whose "+
				"language it lacks", dir, id, id+Suffix))
		}
	}
	return s, errors.Join(errs...)
}

// IDs returns the ids of the templates, sorted.
func (s *Set) IDs() []string {
	ids := make([]string, 0, len(s.byID))
	for id := range s.byID {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

func (s *Set) add(path string) error {
	name := fileName.FindStringSubmatch(filepath.Base(path))
	if name == nil {
		return fmt.Errorf("%s: the name is not ID%s or ID.LOCALE%[2]s, such as reminder.de%[2]s; an ID is 1 to 64 "+
			"letters, digits, - and _", path, Suffix)
	}
	text, err := readFile(path)
	if err != nil {
		return err
	}
	f, err := compile(path, text)
	if err != nil {
		return err
	}
	id, locale := name[1], strings.ToLower(name[2])
	f.locale = name[2]
	if s.byID[id] == nil {
		s.byID[id] = map[string]*file{}
	}
	if s.byID[id][locale] != nil {
		return fmt.Errorf("%s: template %s has two files for locale %s", path, id, name[2])
	}
	s.byID[id][locale] = f
	return nil
}

func readFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > MaxFile {
		return "", fmt.Errorf("%s has over %d bytes", path, MaxFile)
	}
	return string(b), nil
}

// compile parses a file. Errors name file and line.
func compile(path, text string) (*file, error) {
	t, err := template.New(path).Option("missingkey=error").Funcs(functions(nil)).Parse(text)
	if err != nil {
		return nil, cleaned(err)
	}
	f := &file{text: t, has: map[string]bool{}}
	defined := map[string]bool{}
	for _, one := range t.Templates() {
		defined[one.Name()] = true
	}
	for _, name := range []string{blockTitle, blockBody, blockHTML, blockDeepLink} {
		f.has[name] = defined[name]
	}
	if !f.has[blockTitle] && !f.has[blockBody] {
		return nil, fmt.Errorf(`%s: defines neither title nor body: write {{ define "body" }}…{{ end }}`, path)
	}
	if err := checkTrees(t, defined); err != nil {
		return nil, err
	}
	if f.has[blockHTML] {
		if f.html, err = compileHTML(path, text); err != nil {
			return nil, err
		}
	}
	for _, one := range t.Templates() {
		addSteps(one.Root)
	}
	f.pool.New = func() any { return f.instance() }
	return f, nil
}

// compileHTML parses a file for block html, and checks that it can be escaped.
func compileHTML(path, text string) (*htmltemplate.Template, error) {
	t, err := htmltemplate.New(path).Option("missingkey=error").Funcs(functions(nil)).Parse(text)
	if err != nil {
		return nil, cleaned(err)
	}
	for _, one := range t.Templates() {
		if one.Tree != nil {
			addSteps(one.Tree.Root)
		}
	}
	trial, err := t.Clone() // an executed template cannot be cloned
	if err != nil {
		return nil, err
	}
	// An error about missing data does not matter, because escaping comes before it.
	err = trial.ExecuteTemplate(&output{most: maxHTML, steps: new(int)}, blockHTML, nil)
	if escape, ok := errors.AsType[*htmltemplate.Error](err); ok {
		return nil, cleaned(escape)
	}
	return t, nil
}

// cleaned returns a template's error without the prefixes of the package.
func cleaned(err error) error {
	text := err.Error()
	for _, prefix := range []string{"template: ", "html/template:", "html/template: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(strings.TrimSpace(text))
}

// checkTrees finds text outside of blocks, which would never be shown, and calls of undefined
// blocks.
func checkTrees(t *template.Template, defined map[string]bool) (err error) {
	for _, one := range t.Templates() {
		outside := one.Name() == t.Name()
		walk(one.Root, func(n parse.Node) {
			location, _ := one.ErrorContext(n)
			switch n := n.(type) {
			case *parse.TextNode:
				if outside && strings.TrimSpace(string(n.Text)) != "" {
					err = errors.Join(err,
						fmt.Errorf(`%s: text outside a block: write {{ define "body" }}…{{ end }}`+
							" around it", location))
				}
			case *parse.TemplateNode:
				if !defined[n.Name] {
					err = errors.Join(err, fmt.Errorf("%s: block %q is not defined in this file", location, n.Name))
				}
			}
		})
	}
	return err
}

// walk visits every node in a list, including nested lists.
func walk(list *parse.ListNode, visit func(parse.Node)) {
	for _, sub := range lists(list, visit) {
		walk(sub, visit)
	}
}

// lists visits the nodes of a list, and returns the lists inside them.
func lists(list *parse.ListNode, visit func(parse.Node)) (inner []*parse.ListNode) {
	if list == nil {
		return nil
	}
	for _, n := range list.Nodes {
		visit(n)
		switch n := n.(type) {
		case *parse.IfNode:
			inner = append(inner, n.List, n.ElseList)
		case *parse.RangeNode:
			inner = append(inner, n.List, n.ElseList)
		case *parse.WithNode:
			inner = append(inner, n.List, n.ElseList)
		}
	}
	return inner
}

// addSteps inserts an empty text before every node. Its execution is an empty write, which output
// counts. So nothing runs for long without being counted.
func addSteps(list *parse.ListNode) {
	for _, inner := range lists(list, func(parse.Node) {}) {
		addSteps(inner)
	}
	if list == nil {
		return
	}
	nodes := make([]parse.Node, 0, 2*len(list.Nodes)+1)
	for _, n := range list.Nodes {
		nodes = append(nodes, &parse.TextNode{NodeType: parse.NodeText, Pos: n.Position()}, n)
	}
	if len(nodes) == 0 {
		nodes = append(nodes, &parse.TextNode{NodeType: parse.NodeText, Pos: list.Pos})
	}
	list.Nodes = nodes
}
