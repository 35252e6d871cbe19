package main

import (
	"context"
	_ "embed"
	"fmt"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// The table is for depth: each row is chosen. Breadth is every operator of a package, changed
// as github.com/go-gremlins/gremlins does. Gremlins builds the tests for each; here all are
// in one binary, as those of the table are, which takes a twentieth of the time.

// swaps are what an operator becomes. The kinds are gremlins'.
var swaps = []struct {
	kind string
	of   map[token.Token]token.Token
}{
	{"boundary", map[token.Token]token.Token{
		token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	}},
	{"negation", map[token.Token]token.Token{
		token.EQL: token.NEQ, token.NEQ: token.EQL, token.LSS: token.GEQ, token.LEQ: token.GTR, token.GTR: token.LEQ,
		token.GEQ: token.LSS,
	}},
	{"arithmetic", map[token.Token]token.Token{
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	}},
	{"logical", map[token.Token]token.Token{token.LAND: token.LOR, token.LOR: token.LAND}},
	{"increment", map[token.Token]token.Token{token.INC: token.DEC, token.DEC: token.INC}},
}

// breadth are all mutants of a package's operators. All of its tests are to kill them.
func breadth(s *sources, dir string) (mutants []mutant, sites []site, err error) {
	files, err := s.files(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range files {
		for _, d := range f.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			p := site{dir: filepath.Join(s.root, dir), file: f, function: fn}
			if _, _, err := p.call(""); err != nil {
				continue // it cannot call its copy
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch is := n.(type) {
				case *ast.BinaryExpr:
					p.swap(dir, n, is.OpPos, is.Op, &mutants, &sites)
				case *ast.IncDecStmt:
					p.swap(dir, n, is.TokPos, is.Tok, &mutants, &sites)
				}
				return true
			})
		}
	}
	return mutants, sites, nil
}

// swap adds the mutants of one operator.
func (p site) swap(dir string, n ast.Node, at token.Pos, op token.Token, mutants *[]mutant, sites *[]site) {
	p.from, p.to = p.file.offset(n.Pos()), p.file.offset(n.End())
	was, k := string(p.file.bytes[p.from:p.to]), p.file.offset(at)-p.from
	where := p.file.set.Position(at)
	for _, swap := range swaps {
		other, ok := swap.of[op]
		if !ok {
			continue
		}
		*mutants = append(*mutants, mutant{
			id:  fmt.Sprintf("%s-%d-%d-%s", filepath.Base(p.file.path), where.Line, where.Column, swap.kind),
			dir: dir, function: nameOf(p.function), harm: swap.kind,
			was: was, is: was[:k] + other.String() + was[k+len(op.String()):],
			killers: []killer{{dir, "."}},
		})
		*sites = append(*sites, p)
	}
}

// same are the mutants of breadth that nobody can tell from the original, and why.
//
//go:embed breadth.txt
var sameText string

// sameKey names a mutant of breadth, so that it outlives other lines.
func sameKey(m *mutant) string {
	return strings.Join([]string{m.dir, m.function, m.harm, strings.Join(strings.Fields(m.was), " ")}, " ")
}

// explained reads breadth.txt: by sameKey, why.
func explained(text string) (map[string]string, error) {
	out, key := map[string]string{}, ""
	for n, line := range joined(text) {
		word, rest, _ := strings.Cut(line, " ")
		switch rest = strings.TrimSpace(rest); {
		case line == "" || line[0] == '#':
		case word == "in" && key == "":
			key = rest
		case word == "was" && key != "":
			key += " " + rest
		case word == "same" && key != "" && rest != "":
			out[key], key = rest, ""
		default:
			return nil, fmt.Errorf("breadth.txt, line %d: what is %q?", n+1, line)
		}
	}
	return out, nil
}

// runBreadth prints what no test kills of a package, and nobody has explained.
func runBreadth(ctx context.Context, root, dir string) error {
	why, err := explained(sameText)
	if err != nil {
		return err
	}
	mutants, sites, err := breadth(newSources(root), dir)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	r := &runner{root: root, dir: tmp, binaries: map[string]string{}, normal: map[killer]time.Duration{}}
	if mutants, err = r.buildThose(ctx, dir, mutants, sites); err != nil {
		return err
	}
	p := newProgress()
	if err := r.baseline(ctx, killersOf(mutants), p.baseline); err != nil {
		return err
	}
	same, survived := 0, 0
	for i := range mutants {
		m := &mutants[i]
		if why[sameKey(m)] != "" {
			same++
			continue
		}
		p.begin(i, len(mutants), m.id)
		one, err := r.try(ctx, m)
		if err != nil {
			return err
		}
		if one.survived() {
			survived++
			p.say("%s %s SURVIVED: %s", m.id, m.function, m.is)
		}
	}
	p.say("%s: %d mutants, %d killed, %d the same as the original, %d survived", dir, len(mutants),
		len(mutants)-same-survived, same, survived)
	if survived > 0 {
		return fmt.Errorf("%d of %d survived", survived, len(mutants))
	}
	return nil
}

// notGo is a line of the compiler's about a mutant: its id stands for the file.
var notGo = regexp.MustCompile(`(?m)^([\w.]+\.go-\d+-\d+-[a-z]+):\d+`)

// buildThose builds the mutants that are Go: a - between strings is not.
func (r *runner) buildThose(ctx context.Context, dir string, all []mutant, sites []site) ([]mutant, error) {
	for {
		files, err := spliced(all, sites)
		if err != nil {
			return nil, err
		}
		if r.overlay, err = writeOverlay(r.dir, files); err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-gcflags=-e", "-overlay", r.overlay, "./"+dir)
		cmd.Dir = r.root
		text, err := cmd.CombinedOutput()
		if err == nil {
			return all, nil
		}
		bad := map[string]bool{}
		for _, m := range notGo.FindAllSubmatch(text, -1) {
			bad[string(m[1])] = true
		}
		if len(bad) == 0 {
			return nil, fmt.Errorf("build %s with mutants: %w\n%s", dir, err, text)
		}
		good := func(i int) bool { return !bad[all[i].id] }
		all, sites = kept(all, good), kept(sites, good)
	}
}

func kept[T any](all []T, keep func(i int) bool) (out []T) {
	for i := range all {
		if keep(i) {
			out = append(out, all[i])
		}
	}
	return out
}
