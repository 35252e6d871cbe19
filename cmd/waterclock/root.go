package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/near"
)

// Headings of the help page.
const (
	groupRun      = "Run"
	groupTriggers = "Triggers"
	groupInspect  = "Inspect"
	groupOperate  = "Operate"
)

// verbs lists the top-level commands, in the order of the help page.
var verbs = []struct {
	group string
	make  func(*app) *cobra.Command
}{
	{groupRun, newDev},
	{groupRun, newServe},
	{groupTriggers, newSchedule},
	{groupTriggers, newReschedule},
	{groupTriggers, newCancel},
	{groupTriggers, newSnooze},
	{groupTriggers, newSkip},
	{groupTriggers, newPause},
	{groupTriggers, newResume},
	{groupTriggers, newRunNow},
	{groupTriggers, newRezone},
	{groupTriggers, newAck},
	{groupTriggers, newErase},
	{groupTriggers, newRedrive},
	{groupTriggers, newApply},
	{groupTriggers, newDiff},
	{groupInspect, newGet},
	{groupInspect, newReveal},
	{groupInspect, newList},
	{groupInspect, newWatch},
	{groupInspect, newSearch},
	{groupInspect, newExplain},
	{groupInspect, newOccurrences},
	{groupInspect, newPreview},
	{groupInspect, newEvents},
	{groupInspect, newDue},
	{groupInspect, newWatermark},
	{groupInspect, newReport},
	{groupOperate, newTopics},
	{groupOperate, newDoctor},
	{groupOperate, newBackup},
	{groupOperate, newDeadLetters},
	{groupOperate, newCalendar},
	{groupOperate, newRejected},
	{groupOperate, newAudit},
	{groupOperate, newWhoami},
	{groupOperate, newLateness},
	{groupOperate, newLive},
	{groupOperate, newForecast},
	{groupOperate, newChannels},
	{groupOperate, newEndpoints},
	{groupOperate, newPreferences},
	{groupOperate, newNotifications},
	{groupOperate, newReconcile},
	{groupOperate, newTemplates},
	{groupOperate, newTZData},
	{groupOperate, newHistory},
	{groupOperate, newBench},
	{groupOperate, newSim},
	{groupOperate, newConfig},
	{groupOperate, newVersion},
	{groupOperate, newMan},
}

// run is main without the process. It returns the exit code.
func run(ctx context.Context, args []string, io stdio) int {
	a := newApp(io)
	root := newRoot(a)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !a.started { // cobra refused the command line before a verb ran
		err = &failure{Exit: exitUsage, Err: err}
	}
	if errors.Is(err, context.Canceled) && interrupted(ctx) {
		err = &failure{Exit: exitOf(err), Msg: "interrupted"}
	}
	if err != nil {
		fmt.Fprintln(io.err, "waterclock:", cleanLines(err.Error()))
	}
	return exitOf(err)
}

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   "waterclock",
		Short: "Timers, reminders and schedules on Kafka: exactly one due event for each occurrence",
		Long: `Timers, reminders and schedules on Kafka: exactly one due event for each occurrence.

Exit codes: 0 done; 1 failed; 2 the command, a flag or a setting is wrong: fix it and
run again; 3 not found; 4 conflict: another revision, a trigger that has already fired,
or topics whose settings do not fit; 5 data is lost, or would be.`,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			a.started = true
			return a.out.prepare()
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(flagError)
	root.SetIn(a.io.in)
	root.SetOut(a.io.out)
	root.SetErr(a.io.err)
	a.bindGlobal(root)
	for _, v := range verbs {
		cmd := v.make(a)
		cmd.GroupID = v.group
		if strings.Contains(cmd.Use, "KEY") && v.group != groupOperate {
			cmd.ValidArgsFunction = a.completeKey
		}
		if !root.ContainsGroup(v.group) {
			root.AddGroup(&cobra.Group{ID: v.group, Title: v.group + ":"})
		}
		root.AddCommand(cmd)
	}
	strictHelp(root)
	return root
}

// strictHelp makes cobra's help and completion commands refuse unknown arguments, as our own
// subcommands do.
func strictHelp(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "completion":
			cmd.Args, cmd.RunE = onlyVerbs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			cmd.Run, cmd.RunE = nil, helpAbout
		}
	}
}

// helpAbout prints the help of a verb or of a subcommand.
func helpAbout(cmd *cobra.Command, names []string) error {
	about := cmd.Root()
	for _, name := range names {
		i := slices.IndexFunc(about.Commands(), func(c *cobra.Command) bool {
			return c.Name() == name ||
				c.HasAlias(name)
		})
		if i < 0 {
			return onlyVerbs(about, []string{name})
		}
		about = about.Commands()[i]
	}
	about.InitDefaultHelpFlag()
	about.InitDefaultVersionFlag()
	return about.Help()
}

// parent returns a verb that only has subcommands.
func parent(use, short string, below ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  onlyVerbs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(below...)
	return cmd
}

// onlyVerbs refuses an unknown subcommand.
func onlyVerbs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, below := range cmd.Commands() {
		known = append(known, below.Name())
	}
	return usagef("there is no %s %s%s", cmd.CommandPath(), args[0], near.Hint(args[0], known))
}
