package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/topics"
)

func calendarPath(name string) string { return "/v1/calendars/" + url.PathEscape(name) }

// fetchCalendar reads one calendar over HTTP. If it does not exist, the error has exit code
// exitNotFound.
func fetchCalendar(ctx context.Context, from *api, name string) (cal topics.Calendar, err error) {
	err = from.get(ctx, calendarPath(name), &cal)
	cal.Name = name
	return cal, err
}

// listCalendars lists the calendars over HTTP.
func listCalendars(ctx context.Context, from *api) ([]gateway.CalendarSummary, error) {
	var answer gateway.Calendars
	err := from.get(ctx, "/v1/calendars", &answer)
	return answer.Items, err
}

// deleteWithin is longer than the API's own timeout: the API checks all triggers twice.
const deleteWithin = time.Minute

func newCalendarDelete(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a calendar that no trigger names, and print what it was",
		Long: `Delete a calendar. It is refused (exit code 4) while triggers that are not over
name it: cancel them, or register them without it. Its dates are printed, as get
prints them. It asks the API at --url, which knows all triggers.`,
		Example: "  waterclock calendar delete us-holidays > us-holidays.txt",
		Args:    argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if err := needAPI(c); err != nil {
				return err
			}
			from, cal := newAPI(c), topics.Calendar{}
			from.within = deleteWithin
			if err := from.ask(cmd.Context(), http.MethodDelete, calendarPath(args[0]), &cal); err != nil {
				return err
			}
			cal.Name = args[0]
			a.note("calendar %s is deleted; it had %s", cal.Name, plural(len(cal.Dates), "date"))
			return a.printCalendar(cal)
		},
	}
}

// putCalendarHTTP is putCalendar over HTTP. The caller has sorted the dates.
func putCalendarHTTP(ctx context.Context, to *api, cal *topics.Calendar) (changed bool, err error) {
	old, err := fetchCalendar(ctx, to, cal.Name)
	switch {
	case err == nil && slices.Equal(old.Dates, cal.Dates):
		return false, nil
	case err != nil && exitOf(err) != exitNotFound:
		return false, err
	}
	_, _, err = to.call(ctx, http.MethodPut, calendarPath(cal.Name), nil, map[string]any{"dates": cal.Dates})
	return err == nil, err
}
