package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// run is the whole command; an error is a survivor, or a row that is wrong.
func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ExitOnError)
	only := flags.String("only", "", "only mutants whose id, package or function matches this `regexp`")
	list := flags.Bool("list", false, "show what they change, and run nothing")
	wide := flags.String("breadth", "", "instead of the table, every operator of this `package`, such as trigger")
	out := flags.String("o", "", "write the result as Markdown to this `file`")
	_ = flags.Parse(args) // ExitOnError
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if *wide != "" {
		return runBreadth(ctx, root, *wide)
	}
	mutants, err := chosen(*only)
	if err != nil {
		return err
	}
	sites, err := findAll(newSources(root), mutants)
	if err != nil {
		return err
	}
	if *list {
		show(os.Stdout, root, mutants, sites)
		return nil
	}
	files, err := spliced(mutants, sites)
	if err != nil {
		return err
	}
	results, err := runAll(ctx, root, mutants, files)
	if *out != "" && len(results) > 0 {
		err = errors.Join(err, writeReport(*out, root, args, results, len(mutants)))
	}
	return errors.Join(err, survivors(results))
}

// moduleRoot is where go.mod stands.
func moduleRoot() (string, error) {
	b, err := exec.Command("go", "env", "GOMOD").Output()
	name := strings.TrimSpace(string(b))
	if err != nil || name == "" || name == os.DevNull {
		return "", fmt.Errorf("run it inside the module (%v)", err) //nolint:errorlint // it may be nil
	}
	return filepath.Dir(name), nil
}

// chosen are the mutants that -only means; an id means that one alone.
func chosen(only string) ([]mutant, error) {
	all, err := table()
	if err != nil || only == "" {
		return all, err
	}
	if i := slices.IndexFunc(all, func(m mutant) bool { return m.id == only }); i >= 0 {
		return all[i : i+1], nil
	}
	re, err := regexp.Compile(only)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(m mutant) bool { return !m.matches(re) })
	if len(all) == 0 {
		return nil, fmt.Errorf("no mutant matches %s", only)
	}
	return all, nil
}

// findAll finds the place of every mutant, so that a row that is wrong is told
// before anything runs.
func findAll(s *sources, mutants []mutant) ([]site, error) {
	var errs []error
	out := make([]site, len(mutants))
	for i := range mutants {
		var err error
		out[i], err = s.find(&mutants[i])
		errs = append(errs, err)
	}
	return out, errors.Join(errs...)
}

// runAll runs the tests without a mutant, then with each.
func runAll(ctx context.Context, root string, mutants []mutant, files map[string][]byte) (results []result, err error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	overlay, err := writeOverlay(dir, files)
	if err != nil {
		return nil, err
	}
	r := &runner{
		root: root, dir: dir, overlay: overlay, binaries: map[string]string{},
		normal: map[killer]time.Duration{},
	}
	p := newProgress()
	if err := r.baseline(ctx, killersOf(mutants), p.baseline); err != nil {
		return nil, err
	}
	for i := range mutants {
		p.begin(i, len(mutants), mutants[i].id)
		one, tryErr := r.try(ctx, &mutants[i])
		if ctx.Err() != nil {
			return results, ctx.Err()
		}
		if err = errors.Join(err, tryErr); tryErr != nil {
			p.say("%-36s ERROR %v", mutants[i].id, tryErr)
			continue
		}
		results = append(results, one)
		p.say("%s", one.line())
	}
	return results, err
}

// survivors is an error if there are any that no row explains.
func survivors(results []result) error {
	var ids []string
	for _, r := range results {
		if r.survived() {
			ids = append(ids, r.mutant.id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d survived: %s", len(ids), len(results), strings.Join(ids, ", "))
}

func (r *result) survived() bool { return r.by == "" && r.mutant.same == "" }
