package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// wish is one command for one trigger. Fields holds the contract's fields other than op.
type wish struct {
	Key    string
	Op     trigger.Op
	Fields map[string]any
}

// decision is how the engine decided a command. It is the same over Kafka and over HTTP, except
// for Result, Reason and Source: only the event has them, and HTTP does not return them.
type decision struct {
	TriggerID string `json:"trigger_id"`
	Op        string `json:"op"`
	Decided   bool   `json:"decided"` // false: the command is durable, but the engine has not decided it yet
	// The type of the event, such as trigger.registered, if the event is known.
	Result   string `json:"result,omitempty"`
	State    string `json:"state,omitempty"`
	Revision int64  `json:"revision,omitempty"`
	// The next firing, even if an occurrence was skipped; after the end of a trigger, its last
	// firing.
	FireAt    string `json:"fire_at,omitempty"`
	LocalTime string `json:"local_time,omitempty"`
	Reason    string `json:"reason,omitempty"`
	Source    string `json:"source,omitempty"` // topic/partition/offset of the command

	Notes []string `json:"notes,omitempty"` // what may surprise the user

	leftOut string    // the occurrence that a skip left out
	asked   time.Time // when the command was sent
}

// resultAccepted is the result of a command that is durable but not decided yet.
const resultAccepted = "command.accepted"

// commander sends commands to the engine and returns its decisions.
//
// Do's error carries the exit code. It is nil for a command that is durable but undecided.
//
// AwaitFiring follows a register by Do of the same key. If that is undecided, it waits for the
// decision first. It returns the event of the next firing. If the trigger has ended, it returns the
// event of the last firing.
type commander interface {
	Do(ctx context.Context, w wish) (decision, error)
	AwaitFiring(ctx context.Context, d decision) (*topics.Event, error)
	Close()
}

// commander returns a commander over Kafka, unless the user named the API with a stronger source
// than the brokers: a flag beats the environment, which beats the file.
func (a *app) commander(ctx context.Context, wait time.Duration) (commander, error) {
	c, err := a.config(false)
	if err != nil {
		return nil, err
	}
	if asksAPI(c) {
		return &httpCommander{api: newAPI(c), goOn: wait <= 0}, nil
	}
	return newKafkaCommander(ctx, a, c, wait)
}

func rank(s config.Source) int {
	return map[string]int{"default": 0, "file": 1, "env": 2, "flag": 3}[s.Kind]
}

// decide fills in the decision from the event and the state. It returns an error if the engine
// refused the command.
func (d *decision) decide(op trigger.Op, o answer) error {
	d.Decided, d.Result = true, ""
	if e := o.event; e != nil {
		d.Result, d.State, d.Revision, d.FireAt, d.LocalTime, d.Reason = e.Type, e.State, e.Revision, e.ScheduledAt,
			e.LocalTime, e.Reason
		switch trigger.FactType(e.Type) {
		case trigger.Rejected:
			return refused(e.Reason, e.Detail)
		case trigger.CancelTooLate:
			return tooLate(e)
		case trigger.Skipped: // the event names the occurrence that will not fire
			d.leftOut, d.FireAt, d.LocalTime = e.ScheduledAt, "", ""
		}
	}
	if o.state != nil {
		d.fromState(op, o.state)
	}
	return nil
}

// fromState fills in what the API would answer for the same state. For a register that is the
// nominal instant. For other commands it is the next firing, or else the last.
func (d *decision) fromState(op trigger.Op, st *trigger.State) {
	d.State, d.Revision, d.LocalTime = st.Status.String(), st.Revision, st.Series.Local
	at := st.Nominal()
	if next := st.NextFire(); op != trigger.OpRegister && next != 0 {
		if next < at { // a snooze comes first, and the local time is that of the series
			d.LocalTime = ""
		}
		at = next
	}
	if d.FireAt = ""; at != 0 {
		d.FireAt = at.String()
	}
}

// tooLate explains a cancel that changed nothing.
func tooLate(e *topics.Event) error {
	if e.Reason == "unknown" {
		return &failure{Exit: exitNotFound, Msg: "there is no such trigger"}
	}
	msg := "too late to cancel: it has fired"
	if e.DueTopic != "" && e.DuePartition != nil {
		msg += fmt.Sprintf(": %s is on %s, partition %d", e.Occurrence, e.DueTopic, *e.DuePartition)
	}
	return &failure{Exit: exitConflict, Msg: msg}
}

// over reports whether nothing more will fire. Then AwaitFiring finds a firing in the past.
func (d *decision) over() bool {
	return d.State != "" && d.State != trigger.Pending.String() && d.State != trigger.Paused.String()
}

// noMore is the error of a wait for a trigger that has ended and whose firing event was not
// found.
func (d *decision) noMore() error {
	is := "is " + d.State + " and will not fire"
	switch {
	case d.State == trigger.InFlight.String():
		is = "is in flight: it went out and waits for its receipt; without one it goes out again"
	case d.State == trigger.Fired.String() && d.FireAt != "":
		is = "has fired already, at " + d.FireAt + ", and will not again"
	}
	return &failure{Exit: exitConflict, Msg: fmt.Sprintf("%s: %s; %s", d.TriggerID, is, howAnew)}
}

// earlier reports whether an event belongs to an occurrence before the one in the decision. A
// series that existed before the command may have fired before. What it fired then may go out
// again: as a retry, as a further step, or because it was postponed.
func (d *decision) earlier(e *topics.Event) bool {
	t := trigger.FactType(e.Type)
	if t != trigger.OccurrenceFired && t != trigger.OccurrenceExpired {
		return false
	}
	if t == trigger.OccurrenceFired && isRepeat(e) {
		return true
	}
	at, err1 := time.Parse(time.RFC3339, e.OccurredAt)
	due, err2 := time.Parse(time.RFC3339, d.FireAt)
	return errors.Join(err1, err2) == nil && at.Before(due.Add(-clocksDiffer))
}

// isRepeat reports whether an occurrence.fired is not the first of its occurrence.
func isRepeat(e *topics.Event) bool {
	return e.Attempt > 1 || e.Step != nil && *e.Step > 0 || e.FirstFired != "" && e.FirstFired != e.OccurredAt
}

// clocksDiffer bounds how far the brokers' clocks may differ. An event about an instant may have
// a timestamp this much before it.
const clocksDiffer = 2 * time.Second

const howAnew = "to schedule it again, change a field or give a new --idempotency-key"

// firing reports whether an event ends the wait for a firing. It returns an error if the trigger
// will not fire.
func firing(e *topics.Event) (done bool, err error) {
	switch trigger.FactType(e.Type) {
	case trigger.OccurrenceFired:
		return true, nil
	case trigger.CancelledFact, trigger.ErasedFact, trigger.OccurrenceExpired, trigger.FailedFact, trigger.Completed:
		return true, &failure{Exit: exitConflict, Msg: fmt.Sprintf("%s did not fire: %s", e.Trigger, e.Type)}
	}
	return false, nil
}

// revision is a flag with a trigger's revision. 0 is that of a write which is not decided: as a condition it would
// be none.
type revision int64

func (r *revision) String() string { return strconv.FormatInt(int64(*r), 10) }

func (r *revision) Type() string { return "n" }

func (r *revision) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return errors.New("a revision is a number from 1 on")
	}
	*r = revision(n)
	return nil
}

// commandFlags are the flags of every verb that writes a command.
type commandFlags struct {
	wait       time.Duration
	ifRevision revision
	revision   bool // the verb has --if-revision
	note       string
}

func (f *commandFlags) bind(cmd *cobra.Command) {
	cmd.Flags().DurationVar(&f.wait, "decision-timeout", 5*time.Second,
		"how long to wait for the engine's decision, over HTTP 2s at most; 0 does not wait")
	if f.revision {
		cmd.Flags().Var(&f.ifRevision, "if-revision", "only if the trigger's revision is still `n`")
	}
}

// verb builds a cobra command that sends the same command for each KEY.
func (a *app) verb(op trigger.Op, use, short string, f *commandFlags,
	fields func() (map[string]any, error),
) *cobra.Command {
	cmd := &cobra.Command{
		Use:   use + " KEY...",
		Short: short,
		Args:  keysArg,
		RunE: func(cmd *cobra.Command, keys []string) error {
			body := map[string]any{}
			var err error
			if fields != nil {
				if body, err = fields(); err != nil {
					return err
				}
			}
			if f.ifRevision != 0 {
				body["if_revision"] = int64(f.ifRevision)
			}
			put(body, "note", f.note)
			return a.doAll(cmd.Context(), f, op, keys, body)
		},
	}
	f.bind(cmd)
	cmd.Flags().StringVar(&f.note, "note", "", "`reason`, which the event has as its detail")
	return cmd
}

// keysArg requires at least one argument, each a valid trigger key.
func keysArg(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usagef("%s needs the KEY of a trigger", cmd.CommandPath())
	}
	for _, key := range args {
		if _, err := trigger.ParseKey([]byte(key)); err != nil {
			return usagef("%q is not a trigger key: %v", key, err)
		}
	}
	return nil
}

// oneKey requires exactly one argument, a valid trigger key.
func oneKey(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return usagef("%s takes one KEY, not %d", cmd.CommandPath(), len(args))
	}
	return keysArg(cmd, args)
}

// doAll sends the same command for each key. It continues after a refusal, and joins the refusals
// into one error.
func (a *app) doAll(ctx context.Context, f *commandFlags, op trigger.Op, keys []string, fields map[string]any) error {
	to, err := a.commander(ctx, f.wait)
	if err != nil {
		return err
	}
	defer to.Close()
	var failed []error
	for _, key := range keys {
		d, err := to.Do(ctx, wish{Key: key, Op: op, Fields: fields})
		if err != nil {
			failed = append(failed, &failure{Exit: exitOf(err), Msg: key, Err: err})
			continue
		}
		if err := a.printDecision(d, f); err != nil {
			return err
		}
	}
	return errors.Join(failed...)
}

// printDecision prints one decision. If there is none yet, it explains what that means.
func (a *app) printDecision(d decision, f *commandFlags) error {
	if !d.Decided && f.wait > 0 {
		a.note("%s: the command is durable, but the engine has not decided within %s: is one running?", d.TriggerID,
			f.wait)
	}
	if d.Decided && d.Op == trigger.OpAck.String() && d.Source != "" && d.Result == "" {
		a.note("%s: nothing was in flight, so there was nothing to stop", d.TriggerID)
	}
	a.printNotes(d)
	revision := ""
	if d.Revision > 0 {
		revision = strconv.FormatInt(d.Revision, 10)
	}
	fires := "fires at"
	if over(d.State) {
		fires = "was due at"
	}
	return a.out.record(d, [][2]string{
		{"trigger", d.TriggerID},
		{"result", or(d.Result, "decided")},
		{"state", d.State},
		{"revision", revision},
		{"left out", d.leftOut},
		{fires, d.FireAt},
		{"local time", d.LocalTime},
		{"reason", d.Reason},
	})
}

// printNotes prints what may surprise the user.
func (a *app) printNotes(d decision) {
	for _, note := range d.Notes {
		a.note("%s: %s", d.TriggerID, note)
	}
}

// over reports whether a trigger of this state fires no more.
func over(state string) bool {
	s, _ := trigger.ParseStatus(state)
	return s.Finished()
}
