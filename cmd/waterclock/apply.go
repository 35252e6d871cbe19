package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/trigger"
)

type applyFlags struct {
	files []string
	prune bool
	empty bool // --allow-empty
	tags  []string
}

func (f *applyFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringArrayVarP(&f.files, "file", "f", nil,
		"YAML or JSON `file`, a directory of them, or - for standard input; may be repeated")
	cmd.Flags().BoolVar(&f.prune, "prune", false, "cancel triggers with the label of --tag that no file declares")
	cmd.Flags().BoolVar(&f.empty, "allow-empty", false,
		"with --prune: allow files without triggers, which cancels all with the label")
	cmd.Flags().StringArrayVar(&f.tags, "tag", nil,
		"with --prune: label that all declared triggers carry, `name=value`; may be repeated")
}

const declarations = `A file is a list of triggers, or several documents of one each. A trigger has
an id and the fields of a register command:

  - id: pills
    recurrence: FREQ=DAILY
    start: 2026-11-20T09:00
    timezone: America/New_York
    channel: push
    user_id: u_81
    tags: {team: care}
`

func newApply(a *app) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use:     "apply -f FILE",
		Short:   "Make the triggers match files; --prune cancels those that no file declares",
		Long:    "Make the triggers match the files. Triggers that match already are not touched.\n\n" + declarations,
		Example: "  waterclock apply -f triggers.yaml\n  waterclock apply -f schedules/ --prune --tag team=care",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.apply(cmd.Context(), f) },
	}
	f.bind(cmd)
	return cmd
}

func newDiff(a *app) *cobra.Command {
	f := &applyFlags{}
	cmd := &cobra.Command{
		Use:   "diff -f FILE",
		Short: "Print what apply would do; exit code 1 if anything",
		Long: `Print what apply would do, and change nothing. The exit code is 0 if nothing
differs, 1 if something does, and 2 or more after an error.

` + declarations,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.diff(cmd.Context(), f) },
	}
	f.bind(cmd)
	return cmd
}

// step is what apply must do for one trigger.
type step struct {
	Key string `json:"trigger_id"`
	// Created, changed, unchanged or pruned; for a diff: create, change or prune.
	Result string        `json:"result"`
	Fields []fieldChange `json:"fields,omitempty"`
	Rev    int64         `json:"revision,omitempty"`
	FireAt string        `json:"fire_at,omitempty"`
	Error  string        `json:"error,omitempty"`
	// The command is durable, but the engine has not decided it yet.
	Pending bool `json:"undecided,omitempty"`

	wish wish
}

// decisionWithin bounds how long apply waits for the decision on each trigger.
const decisionWithin = 5 * time.Second

// plan reads the files and the existing triggers, and returns the steps: first the triggers of
// the files in order, then those to prune. The caller closes the commander.
func (a *app) plan(ctx context.Context, f *applyFlags) ([]step, commander, error) {
	tags, err := f.labels()
	if err != nil {
		return nil, nil, err
	}
	c, err := a.config(false)
	if err != nil {
		return nil, nil, err
	}
	want, err := a.readDeclared(c, f.files)
	if err != nil {
		return nil, nil, err
	}
	if f.prune && len(want) == 0 && !f.empty { // more likely a mistyped path than the user's intent
		return nil, nil, usagef("%s declares no triggers, so --prune would cancel all with the label: "+
			"to do that, add --allow-empty", strings.Join(f.files, ", "))
	}
	keys := make([]string, len(want))
	for i, d := range want {
		keys[i] = d.Key
		if !hasTags(d.Spec, tags) {
			return nil, nil, usagef("%s: trigger %s lacks the label of --tag, so a later --prune would not find it",
				d.Position,
				d.Key)
		}
	}
	survey, to, err := a.surveyor(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	have, err := survey(ctx, keys, tags)
	if err != nil {
		to.Close()
		return nil, nil, err
	}
	return stepsOf(want, have, f.prune), to, nil
}

// labels returns the pairs of --tag, or nil without --prune.
func (f *applyFlags) labels() (map[string]string, error) {
	fields := map[string]any{}
	if err := putPairs(fields, "tags", "--tag", f.tags); err != nil {
		return nil, err
	}
	tags, _ := fields["tags"].(map[string]string)
	switch {
	case f.prune && len(tags) == 0:
		return nil, usagef("--prune needs --tag name=value: it cancels the triggers with this label that no file " +
			"declares")
	case !f.prune && f.empty:
		return nil, usagef("--allow-empty has no effect without --prune")
	case !f.prune && len(tags) > 0:
		return nil, usagef("--tag has no effect without --prune")
	}
	return tags, nil
}

func stepsOf(want []declared, have map[string]*standing, prune bool) (all []step) {
	declaredKeys := map[string]bool{}
	for _, d := range want {
		declaredKeys[d.Key] = true
		s := step{Key: d.Key, wish: wish{Key: d.Key, Op: trigger.OpRegister, Fields: d.Fields}}
		switch is := have[d.Key]; {
		case is.gone():
			s.Result = "create"
		case is.Status.Finished() && !whenDiffers(is.Spec, d.Spec):
			s.Result, s.Rev = "", is.Revision // it has fired, and its content may no longer be stored
		default:
			s.Rev, s.Fields = is.Revision, compareSpecs(is.Spec, d.Spec)
			if len(s.Fields) > 0 {
				s.Result = "change"
			}
		}
		all = append(all, s)
	}
	for _, key := range slices.Sorted(maps.Keys(have)) {
		if prune && !declaredKeys[key] {
			all = append(all, step{
				Key: key, Result: "prune", Rev: have[key].Revision,
				wish: wish{Key: key, Op: trigger.OpCancel, Fields: map[string]any{}},
			})
		}
	}
	return all
}

// whenDiffers compares only the time fields.
func whenDiffers(have, want *trigger.Spec) bool {
	h, w := &trigger.Spec{When: have.When}, &trigger.Spec{When: want.When}
	return len(compareSpecs(h, w)) > 0
}

var done = map[string]string{"create": "created", "change": "changed", "prune": "pruned", "": "unchanged"}

// apply runs the steps. It continues after a refusal, and joins the refusals into one error.
func (a *app) apply(ctx context.Context, f *applyFlags) error {
	steps, to, err := a.plan(ctx, f)
	if err != nil {
		return err
	}
	defer to.Close()
	bar := a.progress("applying", int64(len(steps)))
	var failed []error
	for i := range steps {
		if err := steps[i].do(ctx, to); err != nil {
			failed = append(failed, err)
		}
		if ctx.Err() != nil {
			break
		}
		bar.done(int64(i + 1))
	}
	bar.end()
	items := anyOf(steps)
	err = a.out.list(items, []string{"trigger", "result", "revision", "fires at", ""}, func(i int) []string {
		s := steps[i]
		return []string{s.Key, s.Result, number64(s.Rev), s.FireAt, s.note()}
	})
	return errors.Join(append(failed, err, ctx.Err())...)
}

func (s *step) do(ctx context.Context, to commander) error {
	op := s.Result
	s.Result = done[op]
	if op == "" {
		return nil
	}
	d, err := to.Do(ctx, s.wish)
	if err != nil {
		s.Result, s.Error = "failed", err.Error()
		return &failure{Exit: exitOf(err), Msg: s.Key, Err: err}
	}
	if s.Pending = !d.Decided; s.Pending {
		return nil
	}
	if op == "change" && (d.Result == string(trigger.Duplicate) || d.Revision == s.Rev) {
		s.Result = done[""]
	}
	s.Rev, s.FireAt = cmp.Or(d.Revision, s.Rev), d.FireAt
	return nil
}

func (s *step) note() string {
	switch {
	case s.Error != "":
		return s.Error
	case s.Pending:
		return "durable, but not decided yet: is an engine running?"
	}
	names := ""
	for _, f := range s.Fields {
		names += " " + f.Field
	}
	return names
}

func number64(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// errDifferent ends a diff that found differences with exit code 1, like diff(1).
var errDifferent = &failure{Exit: exitFailed, Msg: "the files differ from the triggers"}

func (a *app) diff(ctx context.Context, f *applyFlags) error {
	steps, to, err := a.plan(ctx, f)
	if err != nil {
		return notDifferent(err)
	}
	to.Close()
	steps = slices.DeleteFunc(steps, func(s step) bool { return s.Result == "" })
	if len(steps) == 0 && a.out.format == "table" {
		a.note("nothing differs")
		return nil
	}
	if err := a.printDiff(steps); err != nil || len(steps) == 0 {
		return notDifferent(err)
	}
	return errDifferent
}

// notDifferent raises the exit code of an error that would say that something differs.
func notDifferent(err error) error {
	if err != nil && exitOf(err) == exitFailed {
		return &failure{Exit: exitUsage, Err: err}
	}
	return err
}

// printDiff prints one row per field, or in JSON one item per trigger.
func (a *app) printDiff(steps []step) error {
	var items []any
	var rows [][]string
	for _, s := range steps {
		if a.out.format != "table" || len(s.Fields) == 0 {
			items, rows = append(items, s), append(rows, []string{s.Result, s.Key, "", "", ""})
			continue
		}
		for _, c := range s.Fields {
			items, rows = append(items, c), append(rows, []string{s.Result, s.Key, c.Field, c.Have, c.Want})
		}
	}
	return a.out.list(items, []string{"change", "trigger", "field", "have", "want"},
		func(i int) []string { return rows[i] })
}
