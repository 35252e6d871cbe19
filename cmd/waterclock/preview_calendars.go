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

// namedCalendars finds the calendars that questions name, each once, where
// brokers or an API were named. Nobody is asked before a question needs it:
// a preview works with nothing running.
type namedCalendars struct {
	app  *app
	ctx  context.Context             //nolint:containedctx // of the run: calendar.CalendarSource has none
	have map[string]calendar.DateSet // nil: there is none

	config *config.Config
	failed error // of the last find: it could not be asked for, which is not "there is none"
	broken error // the door does not open; no use to knock for every line
}

func (a *app) namedCalendars(ctx context.Context) *namedCalendars {
	return &namedCalendars{app: a, ctx: ctx, have: map[string]calendar.DateSet{}}
}

// find is a calendar.CalendarSource.
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

// errNoDoor is the answer where neither brokers nor an API were named: those
// that are the defaults may be anybody's.
var errNoDoor = &trigger.Error{
	Code: trigger.CodeUnsupported, Field: "calendars",
	Msg: "named calendars stand in Kafka: say where, with --brokers or --url",
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

// problem is why the last question could not be answered, and forgets it.
func (n *namedCalendars) problem() *httpproblem.Problem {
	err := n.failed
	n.failed = nil
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errNoDoor):
		return httpproblem.Of(err)
	}
	p := httpproblem.Unavailable(err, err.Error()) // as the API answers when Kafka is away
	p.Field, p.RetryAfter = "calendars", 0         // nobody asks a line of a file again
	return p
}
