package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/topics"
)

func newWatch(a *app) *cobra.Command {
	wait := false
	cmd := &cobra.Command{
		Use:   "watch KEY",
		Short: "Follow what happens to a trigger",
		Args:  oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.watch(cmd.Context(), newAPI(c), args[0], wait)
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for a trigger that is not there yet")
	return cmd
}

// watch prints what happened and then what happens. A key that is not there is
// likelier mistyped than early.
func (a *app) watch(ctx context.Context, from *api, key string, wait bool) error {
	if !wait {
		if err := from.get(ctx, triggerPath(key), new(map[string]any)); exitOf(err) == exitNotFound {
			return &failure{Exit: exitNotFound, Msg: a.unknownKey(ctx, from, key, err).Error() + " (--wait waits for it)"}
		} // whatever else is wrong, following says
	}
	var failed error
	err := from.follow(ctx, triggerPath(key)+"/events?follow=1", func(e *topics.Event) bool {
		failed = a.out.item(e, func() string { return eventLine(e) })
		return failed != nil
	})
	if interrupted(ctx) {
		return nil
	}
	if failed != nil {
		return failed
	}
	return err
}

// eventLine is an event for a person: when, what, whose, and what is notable.
func eventLine(e *topics.Event) string {
	parts := []string{e.OccurredAt, fmt.Sprintf("%-22s", e.Type), e.Trigger}
	add := func(format, value string) {
		if value != "" {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add("%s", e.State)
	if e.Revision > 0 {
		parts = append(parts, fmt.Sprintf("rev=%d", e.Revision))
	}
	add("at=%s", e.ScheduledAt)
	add("occurrence=%s", e.Occurrence)
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt=%d", e.Attempt))
	}
	if e.LatenessMS != nil {
		parts = append(parts, fmt.Sprintf("late=%dms", *e.LatenessMS))
	}
	add("reason=%s", e.Reason)
	add("(%s)", e.Detail)
	return strings.Join(parts, "  ")
}

// printEvent prints one event as a result.
func (a *app) printEvent(e *topics.Event) error {
	late := ""
	if e.LatenessMS != nil {
		late = fmt.Sprintf("%d ms", *e.LatenessMS)
	}
	return a.out.record(e, [][2]string{{"event", e.Type}, {"trigger", e.Trigger}, {"occurred at", e.OccurredAt},
		{"scheduled at", e.ScheduledAt}, {"local time", e.LocalTime}, {"late by", late}, {"occurrence", e.Occurrence},
		{"channel", e.Channel}, {"state", e.State}, {"due topic", e.DueTopic}})
}
