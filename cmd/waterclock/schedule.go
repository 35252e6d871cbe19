package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// scheduleFlags are the fields of a register, including the time fields.
type scheduleFlags struct {
	commandFlags
	when timeFlags

	texts map[string]*string // flags that set exactly one field, by the name of the field
	bools map[string]*bool

	callback         callbackFlags
	data, escalation string
	tags, headers    []string
	waitForTheFiring bool
}

func newSchedule(a *app) *cobra.Command {
	f := &scheduleFlags{commandFlags: commandFlags{revision: true}}
	cmd := &cobra.Command{
		Use:   "schedule KEY (--in DURATION | --at TIME [--tz ZONE] | --every RULE)",
		Short: "Create or replace a trigger",
		Example: `  waterclock schedule hold-8c4 --in 7m --channel orders --data '{"holdId":"h_8c4"}'
  waterclock schedule pills --every 'FREQ=DAILY' --start 2026-11-20T09:00 --tz America/New_York --channel push --user u_81
  waterclock schedule demo --in 2s --wait`,
		Args: oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.waitForTheFiring && f.wait <= 0 {
				return usagef("--wait also waits for the decision: omit --decision-timeout")
			}
			fields, err := f.fields(a)
			if err != nil {
				return err
			}
			return a.schedule(cmd.Context(), f, wish{Key: args[0], Op: trigger.OpRegister, Fields: fields})
		},
	}
	f.bindAll(cmd)
	return cmd
}

func (f *scheduleFlags) bindAll(cmd *cobra.Command) {
	f.bind(cmd)
	f.when.bind(cmd)
	fs := cmd.Flags()
	f.bindFields(fs)
	fs.StringVar(&f.data, "data", "", "payload: `JSON`, @file, or - for standard input")
	f.callback.bind(fs)
	fs.StringVar(&f.escalation, "escalation", "",
		"`STEPS` until somebody reacts: push,5m:sms,10m:email, each this long after the step before")
	fs.StringArrayVar(&f.tags, "tag", nil, "label, `name=value`; may be repeated")
	fs.StringArrayVar(&f.headers, "header", nil, "header of the due event, `name=value`; may be repeated")
	fs.BoolVar(&f.waitForTheFiring, "wait", false, "wait until it fires and print that event")
}

// bindFields adds a flag for each field that has one in the contract's table.
func (f *scheduleFlags) bindFields(fs *pflag.FlagSet) {
	f.texts, f.bools = map[string]*string{}, map[string]*bool{}
	for _, field := range topics.RegisterFields() {
		switch {
		case field.Flag == "":
		case field.Bool:
			f.bools[field.Name] = fs.Bool(field.Flag, false, field.Help)
		default:
			f.texts[field.Name] = fs.String(field.Flag, "", field.Help)
		}
	}
}

// fields returns the fields of the register command.
func (f *scheduleFlags) fields(a *app) (map[string]any, error) {
	out, err := f.when.fields()
	if err != nil {
		return nil, err
	}
	if err := f.refuseEmpty(); err != nil {
		return nil, err
	}
	for name, value := range f.texts {
		put(out, name, *value)
	}
	for name, value := range f.bools {
		if *value {
			out[name] = true
		}
	}
	if err := f.callback.put(out); err != nil {
		return nil, err
	}
	if f.escalation != "" {
		steps, err := topics.ParseEscalation(f.escalation)
		if err != nil {
			return nil, usagef("--escalation: %v", err)
		}
		out["escalation"] = steps
	}
	if f.ifRevision != 0 {
		out["if_revision"] = int64(f.ifRevision)
	}
	if err := putPairs(out, "tags", "--tag", f.tags); err != nil {
		return nil, err
	}
	if err := putPairs(out, "headers", "--header", f.headers); err != nil {
		return nil, err
	}
	return out, f.putData(a, out)
}

// refuseEmpty refuses the first text flag of a field that was given without a value.
func (f *scheduleFlags) refuseEmpty() error {
	names := []string{"data", "escalation", "callback-url", "callback-timeout", "callback-retry", "callback-body"}
	for _, field := range topics.RegisterFields() {
		names = append(names, field.Flag)
	}
	for _, name := range names {
		if err := refuseEmpty(f.when.flags, name); err != nil {
			return err
		}
	}
	return nil
}

func putPairs(fields map[string]any, name, flag string, pairs []string) error {
	if len(pairs) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, p := range pairs {
		k, v, found := strings.Cut(p, "=")
		if !found || k == "" {
			return usagef("%s %s: write name=value", flag, p)
		}
		m[k] = v
	}
	fields[name] = m
	return nil
}

// putData sets the payload. JSON stays as it is, other bytes of a file become base64. Text on the
// command line must be JSON: if it is not, a quote was probably forgotten.
func (f *scheduleFlags) putData(a *app, fields map[string]any) error {
	if f.data == "" {
		return nil
	}
	content, inFile, err := a.readArgument(f.data)
	switch {
	case err != nil:
		return usagef("--data: %v", err)
	case json.Valid(content):
		fields["payload"] = json.RawMessage(content)
	case inFile:
		fields["payload_base64"] = base64.StdEncoding.EncodeToString(content)
	default:
		return usagef("--data is not JSON: quote text ('\"hello\"'), or name a file of other bytes with @file")
	}
	return nil
}

func (a *app) schedule(ctx context.Context, f *scheduleFlags, w wish) error {
	to, err := a.commander(ctx, f.wait)
	if err != nil {
		return err
	}
	defer to.Close()
	d, err := to.Do(ctx, w)
	if err != nil {
		return err
	}
	if !f.waitForTheFiring {
		return a.printDecision(d, &f.commandFlags)
	}
	switch {
	case !d.Decided:
		a.note("%s: the command is durable, but not decided yet; waiting for the decision", d.TriggerID)
	case d.over() && d.Result == string(trigger.Duplicate):
		a.note("%s: %s, and %s already; %s", d.TriggerID, d.Result, d.State, howAnew)
	case d.over(): // over HTTP: a repeat, or a trigger that was due at once
		a.note("%s: %s already", d.TriggerID, d.State)
	default:
		a.note("%s: %s, fires at %s", d.TriggerID, or(d.Result, "decided"), d.FireAt)
	}
	a.printNotes(d)
	e, err := to.AwaitFiring(ctx, d)
	if interrupted(ctx) {
		return failf("%s: stopped waiting; it stays scheduled, and `waterclock watch %[1]s` follows it",
			d.TriggerID)
	}
	if err != nil {
		return err
	}
	return a.printEvent(e)
}
