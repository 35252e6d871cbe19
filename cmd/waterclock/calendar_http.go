package main

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

// asksAPI says that the user named the API more explicitly than the brokers:
// by a stronger source.
func asksAPI(c *config.Config) bool { return rank(c.Source("url")) > rank(c.Source("brokers")) }

// needBrokers refuses what only the brokers know, instead of asking some that
// nobody named.
func needBrokers(c *config.Config) error {
	if !asksAPI(c) {
		return nil
	}
	return usagef("the API at --url cannot answer this, only Kafka can: name the brokers with --brokers")
}

func calendarPath(name string) string { return "/v1/calendars/" + url.PathEscape(name) }

// fetchCalendar reads one calendar over HTTP; exitNotFound where there is none.
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

// putCalendarHTTP is putCalendar over HTTP. The dates are sorted already.
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
