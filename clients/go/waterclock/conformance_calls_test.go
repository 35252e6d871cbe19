package waterclock_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/internal/conformance"
	"github.com/waterclock/waterclock/clients/go/producer"
	"github.com/waterclock/waterclock/clients/go/waterclock"
)

func argsOf(t *testing.T, call string, raw json.RawMessage) *args {
	t.Helper()
	a := &args{raw: raw}
	if call != "preview" {
		conformance.Strict(t, raw, a)
	}
	return a
}

func (a *args) options() (opts []waterclock.Option) {
	if a.IfRevision != 0 {
		opts = append(opts, waterclock.IfRevision(a.IfRevision))
	}
	if a.IfAbsent {
		opts = append(opts, waterclock.IfAbsent())
	}
	if a.IdempotencyKey != "" {
		opts = append(opts, waterclock.IdempotencyKey(a.IdempotencyKey))
	}
	if a.Note != "" {
		opts = append(opts, waterclock.Note(a.Note))
	}
	if a.Async {
		opts = append(opts, waterclock.Async())
	}
	for _, h := range a.RecordHeaders {
		opts = append(opts, waterclock.RecordHeader(h[0], h[1]))
	}
	return opts
}

// registerFields are the JSON names of Register's fields.
var registerFields = fieldNames(reflect.TypeFor[waterclock.Register]())

func fieldNames(t reflect.Type) map[string]bool {
	names := map[string]bool{"payload": true}
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			maps.Copy(names, fieldNames(f.Type))
		} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "-" {
			names[name] = true
		}
	}
	return names
}

// register returns the Register that a user would write. Fields that it does not have become
// Extra.
func register(t *testing.T, raw json.RawMessage) waterclock.Register {
	t.Helper()
	var r waterclock.Register
	var all map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(raw, &all), json.Unmarshal(raw, &r)); err != nil {
		t.Fatal(err)
	}
	for name, v := range all {
		if !registerFields[name] {
			if r.Extra == nil {
				r.Extra = map[string]any{}
			}
			r.Extra[name] = v
		}
	}
	if p, ok := all["payload"]; ok {
		r.Payload = p
	}
	return r
}

// result is the return value of a call, under the names of the README.
type result map[string]any

// call calls one method.
func call(ctx context.Context, t *testing.T, c *waterclock.Client, name string, a *args) (any, error) {
	t.Helper()
	switch name {
	case "schedule":
		return c.Schedule(ctx, a.ID, register(t, a.Trigger), a.options()...)
	case "get":
		return c.Get(ctx, a.ID)
	case "list":
		return c.List(ctx, a.filter())
	case "list_all":
		return collect(c.All(ctx, a.filter()), 0)
	case "cancel":
		return c.Cancel(ctx, a.ID, a.options()...)
	case "reschedule":
		return c.Reschedule(ctx, a.ID, a.Time, a.options()...)
	case "update":
		return c.Update(ctx, a.ID, a.Patch, a.options()...)
	case "snooze":
		return c.Snooze(ctx, a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, a.options()...)
	case "skip":
		return c.Skip(ctx, a.ID, a.Occurrence, a.options()...)
	case "ack":
		return c.Ack(ctx, a.ID, a.Occurrence, a.options()...)
	case "pause":
		return c.Pause(ctx, a.ID, a.Note, a.options()...)
	case "resume":
		return c.Resume(ctx, a.ID, a.Note, a.options()...)
	case "run":
		return c.Run(ctx, a.ID, a.options()...)
	case "rezone":
		return c.Rezone(ctx, a.ID, a.Timezone, a.options()...)
	case "erase":
		return c.Erase(ctx, a.ID, a.options()...)
	case "redrive":
		return c.Redrive(ctx, a.ID, waterclock.Redrive{CeID: a.CeID, Rate: a.Rate, IncludeExpired: a.IncludeExpired})
	case "redrive_all":
		return redriveAll(ctx, c, a)
	}
	return readCall(ctx, t, c, name, a)
}

func readCall(ctx context.Context, t *testing.T, c *waterclock.Client, name string, a *args) (any, error) {
	t.Helper()
	switch name {
	case "events":
		return c.Events(ctx, a.ID, a.Cursor, a.Limit)
	case "events_all":
		return collect(c.AllEvents(ctx, a.ID, a.Limit), 0)
	case "follow":
		return collect(c.Follow(ctx, a.ID), a.Take)
	case "occurrences":
		return listed(c.Occurrences(ctx, a.ID, a.N))
	case "preview":
		var p waterclock.Preview
		conformance.Strict(t, a.raw, &p)
		list, err := c.Preview(ctx, p)
		return result{"occurrences": list}, err
	case "upcoming":
		bucket, err := time.ParseDuration(a.Bucket)
		if err != nil {
			t.Fatal(err)
		}
		return listed(c.Upcoming(ctx, bucket, a.N))
	case "partitions":
		return listed(c.Partitions(ctx))
	case "channels":
		return listed(c.Channels(ctx))
	case "endpoints":
		return listed(c.Endpoints(ctx))
	case "dead_letters":
		return c.DeadLetters(ctx, a.deadLetters())
	case "dead_letters_all":
		return collect(c.AllDeadLetters(ctx, a.deadLetters()), 0)
	case "count_dead_letters":
		return listed(c.CountDeadLetters(ctx, a.By, a.deadLetters()))
	case "calendars":
		return listed(c.Calendars(ctx))
	case "put_calendar":
		return c.PutCalendar(ctx, a.Name, a.Dates...)
	case "get_calendar":
		return c.Calendar(ctx, a.Name)
	case "delete_calendar":
		return c.DeleteCalendar(ctx, a.Name)
	case "batch":
		return batch(ctx, t, c, a)
	}
	t.Fatalf("no call %q", name)
	return nil, nil
}

func (a *args) filter() waterclock.Filter {
	return waterclock.Filter{
		State: a.State, UserID: a.UserID, Channel: a.Channel, Tags: a.Tags, From: a.From, To: a.To,
		Cursor: a.Cursor, Limit: a.Limit,
	}
}

func (a *args) deadLetters() waterclock.DeadLetterFilter {
	return waterclock.DeadLetterFilter{
		TriggerID: a.ID, Channel: a.Channel, Code: a.Code, Endpoint: a.Endpoint, From: a.From, To: a.To,
		Status: a.Status, Cursor: a.Cursor, Limit: a.Limit,
	}
}

// redriveAll returns the last progress.
func redriveAll(ctx context.Context, c *waterclock.Client, a *args) (last any, err error) {
	r := waterclock.Redrive{
		Channel: a.Channel, Code: a.Code, Endpoint: a.Endpoint, From: a.From, To: a.To, All: a.All, Rate: a.Rate,
		Note: a.Note, DryRun: a.DryRun, IncludeExpired: a.IncludeExpired, Cursor: a.Cursor,
	}
	for p, err := range c.RedriveAll(ctx, r) {
		if err != nil {
			return nil, err
		}
		last = p
	}
	return last, nil
}

// plain converts a result, with the fields that only Raw has.
func plain(t *testing.T, v any) any {
	t.Helper()
	switch v := v.(type) {
	case *waterclock.Trigger:
		return withRaw(t, v, v.Raw)
	case *waterclock.Page[waterclock.Event]:
		page := conformance.Plain(t, v).(map[string]any)
		for i, e := range v.Items {
			page["items"].([]any)[i] = withRaw(t, e, e.Raw)
		}
		return page
	}
	return conformance.Plain(t, v)
}

func withRaw(t *testing.T, v any, raw json.RawMessage) any {
	t.Helper()
	all := conformance.Plain(t, raw).(map[string]any)
	maps.Copy(all, conformance.Plain(t, v).(map[string]any))
	return all
}

func listed[T any](list []T, err error) (any, error) { return result{"items": list}, err }

// collect reads an iterator: take items, or all if take is 0.
func collect[T any](seq func(func(T, error) bool), take int) (any, error) {
	items := []T{}
	for item, err := range seq {
		if err != nil {
			return nil, err
		}
		if items = append(items, item); len(items) == take {
			break
		}
	}
	return result{"items": items}, nil
}

func batch(ctx context.Context, t *testing.T, c *waterclock.Client, a *args) (any, error) {
	t.Helper()
	var commands []*waterclock.Command
	for _, line := range a.Lines {
		commands = append(commands, batchLine(t, line, a.options()))
	}
	results, err := c.Batch(ctx, commands...)
	items := []any{}
	for _, r := range results {
		item := conformance.Plain(t, r).(map[string]any)
		if r.Err != nil {
			item["error"] = errorFields(r.Err)
		}
		items = append(items, item)
	}
	return result{"items": items}, err
}

func batchLine(t *testing.T, line map[string]any, opts []waterclock.Option) *waterclock.Command {
	t.Helper()
	line = maps.Clone(line)
	id, _ := line["id"].(string)
	op, _ := line["op"].(string)
	if rev, ok := line["if_revision"].(float64); ok {
		opts = append(opts, waterclock.IfRevision(int64(rev)))
		delete(line, "if_revision")
	}
	text := func(name string) string { v, _ := line[name].(string); return v }
	switch op {
	case "":
		delete(line, "id")
		raw, _ := json.Marshal(line)
		return waterclock.ScheduleCommand(id, register(t, raw), opts...)
	case "cancel":
		return waterclock.CancelCommand(id, opts...)
	case "pause":
		return waterclock.PauseCommand(id, text("note"), opts...)
	case "snooze":
		return waterclock.SnoozeCommand(id, waterclock.Snooze{For: text("for"), Until: text("until")}, opts...)
	case "run_now":
		return waterclock.RunCommand(id, opts...)
	case "reschedule":
		var w waterclock.When
		raw, _ := json.Marshal(line)
		if err := json.Unmarshal(raw, &w); err != nil {
			t.Fatal(err)
		}
		return waterclock.RescheduleCommand(id, w, opts...)
	}
	return &waterclock.Command{ID: id, Op: waterclock.Op(op)}
}

// commandOf returns the command for a call.
func commandOf(t *testing.T, name string, a *args) *waterclock.Command {
	t.Helper()
	opts := a.options()
	switch name {
	case "schedule":
		return waterclock.ScheduleCommand(a.ID, register(t, a.Trigger), opts...)
	case "cancel":
		return waterclock.CancelCommand(a.ID, opts...)
	case "reschedule":
		return waterclock.RescheduleCommand(a.ID, a.Time, opts...)
	case "snooze":
		return waterclock.SnoozeCommand(a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, opts...)
	case "skip":
		return waterclock.SkipCommand(a.ID, a.Occurrence, opts...)
	case "ack":
		return waterclock.AckCommand(a.ID, a.Occurrence, opts...)
	case "pause":
		return waterclock.PauseCommand(a.ID, a.Note, opts...)
	case "resume":
		return waterclock.ResumeCommand(a.ID, a.Note, opts...)
	case "run":
		return waterclock.RunCommand(a.ID, opts...)
	case "rezone":
		return waterclock.RezoneCommand(a.ID, a.Timezone, opts...)
	case "erase":
		return waterclock.EraseCommand(a.ID, opts...)
	}
	t.Fatalf("no command %q", name)
	return nil
}

// send calls the method of the producer.
func send(ctx context.Context, t *testing.T, p *producer.Producer, name string, a *args) error {
	t.Helper()
	opts := a.options()
	switch name {
	case "schedule":
		return p.Schedule(ctx, a.ID, register(t, a.Trigger), opts...)
	case "cancel":
		return p.Cancel(ctx, a.ID, opts...)
	case "reschedule":
		return p.Reschedule(ctx, a.ID, a.Time, opts...)
	case "snooze":
		return p.Snooze(ctx, a.ID, waterclock.Snooze{For: a.For, Until: a.Until}, opts...)
	case "skip":
		return p.Skip(ctx, a.ID, a.Occurrence, opts...)
	case "ack":
		return p.Ack(ctx, a.ID, a.Occurrence, opts...)
	case "pause":
		return p.Pause(ctx, a.ID, a.Note, opts...)
	case "resume":
		return p.Resume(ctx, a.ID, a.Note, opts...)
	case "run":
		return p.Run(ctx, a.ID, opts...)
	case "rezone":
		return p.Rezone(ctx, a.ID, a.Timezone, opts...)
	case "erase":
		return p.Erase(ctx, a.ID, opts...)
	}
	t.Fatalf("no call %q by Kafka", name)
	return nil
}
