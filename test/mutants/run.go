package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what became of a mutant.
type result struct {
	mutant *mutant
	by     string        // the test that killed it; "" if none did
	how    string        // failed, panicked or took too long
	took   time.Duration // from the start of that test's run
}

// runner builds tests and runs them.
type runner struct {
	root     string
	dir      string // for the overlay and the binaries
	overlay  string
	binaries map[string]string // by package
	normal   map[killer]time.Duration
}

// slowdown is how much longer than without a mutant a test may take.
const slowdown = 8

// leastLimit is the shortest time-out; a run that shares the machine can be slow.
const leastLimit = 20 * time.Second

// baseline builds all binaries and runs the killers without any mutant. One
// that fails would kill everything.
func (r *runner) baseline(ctx context.Context, killers []killer, report func(done, of int)) error {
	var errs []error
	for i, k := range killers {
		report(i, len(killers))
		if r.binaries[k.dir] == "" {
			if err := r.build(ctx, k.dir); err != nil {
				return err
			}
		}
		o, err := r.run(ctx, k, "", 10*time.Minute)
		if err != nil {
			return err
		}
		if o.how != "" {
			errs = append(errs, fmt.Errorf("%s %s without a mutant:\n%s", k, o.how, o.text[:min(len(o.text), 2000)]))
		}
		r.normal[k] = o.took
	}
	return errors.Join(errs...)
}

// try runs a mutant's tests until one fails.
func (r *runner) try(ctx context.Context, m *mutant) (result, error) {
	out := result{mutant: m}
	for _, k := range m.killers {
		o, err := r.run(ctx, k, m.id, max(leastLimit, slowdown*r.normal[k]))
		if err != nil {
			return out, fmt.Errorf("%s: %w", m.id, err)
		}
		if out.took = o.took; o.how != "" {
			out.by, out.how = k.dir+"."+o.test, o.how
			return out, nil
		}
	}
	return out, nil
}

// build makes the test binary of a package, with all mutants in it. One that
// does not compile is named in the error: its id stands for the file.
func (r *runner) build(ctx context.Context, dir string) error {
	binary := filepath.Join(r.dir, strings.ReplaceAll(dir, "/", "-")+".test")
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", r.overlay, "-o", binary, "./"+dir)
	cmd.Dir = r.root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the tests of %s, with mutants: %w\n%s", dir, err, text)
	}
	r.binaries[dir] = binary
	return nil
}

// outcome is what a run of tests said.
type outcome struct {
	how  string // "": all passed
	test string
	took time.Duration
	text []byte
}

// run runs tests as go test does, in their package's directory.
func (r *runner) run(ctx context.Context, k killer, mutant string, limit time.Duration) (o outcome, err error) {
	cctx, cancel := context.WithTimeout(ctx, limit+20*time.Second) // a test that cannot even time out
	defer cancel()
	cmd := exec.CommandContext(cctx, r.binaries[k.dir], "-test.run", k.run, "-test.failfast", "-test.timeout",
		limit.String(), "-test.paniconexit0")
	cmd.Dir = filepath.Join(r.root, k.dir)
	cmd.Env = append(os.Environ(), mutantVariable+"="+mutant)
	start := time.Now()
	o.text, err = cmd.CombinedOutput()
	o.took = time.Since(start)
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	exit := (*exec.ExitError)(nil)
	if err != nil && !errors.As(err, &exit) {
		return o, fmt.Errorf("run %s: %w", k, err)
	}
	return o, o.judge(k, err != nil, cctx.Err() != nil)
}

var (
	failed    = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)
	panicked  = regexp.MustCompile(`(?m)^(panic|fatal error): `)
	timedOut  = regexp.MustCompile(`(?m)^panic: test timed out after`)
	stillRuns = regexp.MustCompile(`(?m)^\s+(Test\S+) \(`)
)

// judge finds which test failed, and how.
func (o *outcome) judge(k killer, bad, hung bool) error {
	names := failed.FindAllSubmatch(o.text, -1)
	switch {
	case !bad && bytes.Contains(o.text, []byte("no tests to run")):
		return fmt.Errorf("no test matches %s", k)
	case !bad:
		return nil
	case hung || timedOut.Match(o.text):
		o.how, o.test = "took too long", k.run
		if at := stillRuns.FindSubmatch(o.text); at != nil {
			o.test = string(at[1])
		}
	case len(names) > 0:
		o.how, o.test = "failed", leaf(names)
	case panicked.Match(o.text):
		o.how, o.test = "panicked", k.run
	default:
		return fmt.Errorf("%s ended without a word:\n%s", k, o.text)
	}
	return nil
}

// leaf is the first test that failed, and of its subtests the first.
func leaf(names [][][]byte) string {
	name := string(names[0][1])
	for _, n := range names[1:] {
		if next := string(n[1]); strings.HasPrefix(next, name+"/") {
			name = next
		}
	}
	return name
}

// killersOf are all killers, each once, package by package.
func killersOf(list []mutant) (all []killer) {
	for _, m := range list {
		all = append(all, m.killers...)
	}
	slices.SortFunc(all, func(a, b killer) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(all)
}
