package main

import (
	"context"
	"errors"

	"github.com/waterclock/waterclock/calendar"
	httpproblem "github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// namedCalendars finds the calendars that questions name, each once, from the brokers or the API
// if the user named one. It connects only when a question needs a calendar: a preview works with
// nothing running.
type namedCalendars struct {
	app  *app
	ctx  context.Context             //nolint:containedctx // of the run: calendar.CalendarSource has none
	have map[string]calendar.DateSet // nil: no such calendar

	config *config.Config
	failed error // why the last find could not ask; not set if the calendar does not exist
	broken error // the connection fails, so do not retry for every line
}

func (a *app) namedCalendars(ctx context.Context) *namedCalendars {
	return &namedCalendars{app: a, ctx: ctx, have: map[string]calendar.DateSet{}}
}

// find implements calendar.CalendarSource.
func (n *namedCalendars) find(name string) (calendar.DateSet, bool) {
	if set, known := n.have[name]; known {
		return set, set != nil
	}
	cal, err := n.load(name)
	if err != nil && exitOf(err) != exitNotFound {
		n.failed, n.broken = err, err
		return nil, false
	}
	if err == nil {
		n.have[name], err = calendar.NewDateSet(cal.Dates)
	} else {
		n.have[name] = nil
	}
	return n.have[name], err == nil
}

// errNoDoor is the error if the user named neither brokers nor an API. Whatever listens at the
// default addresses may belong to somebody else.
var errNoDoor = &trigger.Error{
	Code: trigger.CodeUnsupported, Field: "calendars",
	Msg: "named calendars are in Kafka: add --brokers or --url",
}

func (n *namedCalendars) load(name string) (cal topics.Calendar, err error) {
	if n.broken != nil {
		return cal, n.broken
	}
	if n.config == nil {
		if n.config, err = n.app.config(false); err != nil {
			return cal, err
		}
	}
	if rank(n.config.Source("url")) == 0 && rank(n.config.Source("brokers")) == 0 {
		return cal, errNoDoor
	}
	return n.app.calendar(n.ctx, n.config, name)
}

// problem returns why the last question could not be answered, and clears the error.
func (n *namedCalendars) problem() *httpproblem.Problem {
	err := n.failed
	n.failed = nil
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoDoor):
		return httpproblem.Of(err)
	}
	p := httpproblem.Unavailable(err, err.Error()) // the API's answer if Kafka does not respond
	p.Field, p.RetryAfter = "calendars", 0         // nobody retries a line of a file
	return p
}
