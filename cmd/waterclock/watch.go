package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func newWatch(a *app) *cobra.Command {
	f := &watchFlags{}
	cmd := &cobra.Command{
		Use:   "watch KEY",
		Short: "Follow a trigger's events until it has ended",
		Args:  oneKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.watch(cmd.Context(), newAPI(c), args[0], f)
		},
	}
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait for a trigger that does not exist yet")
	cmd.Flags().BoolVar(&f.forever, "forever", false,
		"continue when the trigger has ended: a new register may start a new life")
	return cmd
}

type watchFlags struct{ wait, forever bool }

// overAfter is how long a trigger must be quiet before watch asks whether it has ended. Receipts
// may arrive after the last firing.
const overAfter = 2 * time.Second

// watch prints past events and then new ones. A key that does not exist is more likely mistyped
// than not registered yet, so watch waits for it only with --wait.
func (a *app) watch(ctx context.Context, from *api, key string, f *watchFlags) error {
	if !f.wait {
		if err := from.get(ctx, triggerPath(key), new(map[string]any)); exitOf(err) == exitNotFound {
			return &failure{Exit: exitNotFound, Msg: a.unknownKey(ctx, from, key, err).Error() +
				" (--wait waits for it)"}
		} // the stream below reports any other error
	}
	var failed error
	var over, erased atomic.Bool
	following, end := context.WithCancel(ctx)
	defer end()
	var quiet *time.Timer
	quiet = time.AfterFunc(never, func() {
		if f.forever {
			return
		}
		state, err := stateOf(following, from, key)
		if exitOf(err) == exitNotFound {
			if f.wait && !erased.Load() {
				return // it was forgotten, and a new register may come
			}
			state, err = trigger.Erased, nil
		}
		switch {
		case err != nil:
			quiet.Reset(overAfter) // a partition that moves does not answer for a moment
		case state.Finished():
			a.note("%s is %s and has ended (--forever continues)", key, state)
			over.Store(true)
			end()
		}
	})
	defer quiet.Stop()
	follow := from.follow
	if !f.wait {
		follow = from.stream
	}
	// The answer begins when the history was read, so from then on it is quiet.
	began := func() { quiet.Reset(overAfter) }
	err := follow(following, followPath(key), began, func(e *topics.Event) bool {
		began()
		erased.Store(trigger.FactType(e.Type) == trigger.ErasedFact)
		failed = a.out.item(e, func() string { return eventLine(e) })
		return failed != nil
	})
	if interrupted(ctx) || over.Load() {
		return nil
	}
	if failed != nil {
		return failed
	}
	return err
}

// never is long enough for a timer that is to be set later.
const never = 1<<63 - 1

// stateOf returns the state of a trigger.
func stateOf(ctx context.Context, from *api, key string) (trigger.Status, error) {
	var t struct{ State string }
	err := from.get(ctx, triggerPath(key), &t)
	state, _ := trigger.ParseStatus(t.State)
	return state, err
}

// eventLine describes an event for a person: time, type, trigger, and notable details.
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
	add("late=%s", lateBy(e, "ms"))
	add("reason=%s", e.Reason)
	add("(%s)", e.Detail)
	return strings.Join(parts, "  ")
}

// lateBy formats the lateness of an event. A later attempt was due at the end of its retry wait.
func lateBy(e *topics.Event, ms string) string {
	switch {
	case e.LatenessMS == nil:
		return ""
	case e.Attempt > 1:
		return fmt.Sprintf("%d%s after its retry was due", *e.LatenessMS, ms)
	}
	return fmt.Sprintf("%d%s", *e.LatenessMS, ms)
}

// printEvent prints one event as a result.
func (a *app) printEvent(e *topics.Event) error {
	return a.out.record(e, [][2]string{
		{"event", e.Type},
		{"trigger", e.Trigger},
		{"occurred at", e.OccurredAt},
		{"scheduled at", e.ScheduledAt},
		{"local time", e.LocalTime},
		{"late by", lateBy(e, " ms")},
		{"occurrence", e.Occurrence},
		{"channel", e.Channel},
		{"state", e.State},
		{"due topic", e.DueTopic},
	})
}
