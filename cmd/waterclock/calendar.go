package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
)

func newCalendar(a *app) *cobra.Command {
	return parent("calendar", "Manage holiday calendars, which triggers name in their field calendars",
		newCalendarPut(a), newCalendarList(a), newCalendarGet(a), newCalendarDelete(a))
}

func newCalendarPut(a *app) *cobra.Command {
	years := 10
	cmd := &cobra.Command{
		Use:   "put NAME [FILE]",
		Short: "Create or replace a calendar: dates, JSON, or iCalendar (.ics); - or no FILE is standard input",
		Long: `Create a calendar, or replace the one of this name. The file has a date per line
(2026-12-25, and what you like behind it; # begins a comment), or is JSON (a list
of dates, or {"dates":[…]}), or iCalendar, of which only all-day events are read:
each day of one of several days, and recurring ones for --years ahead. Input
without dates is refused; [] is a calendar without any.

Triggers that name the calendar are planned anew at once.`,
		Example: "  waterclock calendar put us-holidays holidays.ics\n" +
			"  printf '2026-12-25\\n2027-01-01\\n' | waterclock calendar put office",
		Args: argsBetween(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if years < 1 || years > 100 {
				return usagef("--years %d: write 1 to 100", years)
			}
			file, content, err := a.readOptionalFile(args[1:])
			if err != nil {
				return err
			}
			dates, err := a.readDates(content, time.Now().Add(time.Duration(years)*366*24*time.Hour).UnixMilli())
			if err != nil {
				return &failure{Exit: exitUsage, Msg: file, Err: err}
			}
			return a.putCalendar(cmd.Context(), topics.Calendar{Name: args[0], Dates: dates})
		},
	}
	cmd.Flags().IntVar(&years, "years", years, "how many years ahead to unroll recurring events of iCalendar, 1 to 100")
	return cmd
}

func argsBetween(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usagef("write %s", cmd.UseLine())
		}
		return nil
	}
}

// putCalendar writes a calendar unless topic control already holds the same one. So a job may put
// it every night without causing a replan.
func (a *app) putCalendar(ctx context.Context, cal topics.Calendar) error {
	key, value, err := topics.EncodeCalendar(cal)
	if err != nil {
		return &failure{Exit: exitUsage, Err: worded(err)}
	}
	if cal.Dates == nil { // more likely a failed download than a calendar without days
		return usagef("calendar %s: the input has no dates; write [] for an empty calendar", cal.Name)
	}
	c, err := a.config(false)
	if err != nil {
		return err
	}
	stored, err := topics.DecodeSetting(&topics.Record{Key: key, Value: value})
	if err != nil {
		return fmt.Errorf("check the calendar before it is written: %w", err)
	}
	var changed bool
	if asksAPI(c) {
		changed, err = putCalendarHTTP(ctx, newAPI(c), stored.Calendar)
	} else {
		changed, err = a.putSetting(ctx, c, &kgo.Record{Key: key, Value: value})
	}
	if err != nil {
		return err
	}
	result, n := "unchanged", len(stored.Calendar.Dates)
	if changed {
		result = "put"
	}
	return a.out.record(map[string]any{"name": cal.Name, "result": result, "dates": n},
		[][2]string{{"calendar", cal.Name}, {"result", result}, {"dates", strconv.Itoa(n)}})
}

// putSetting appends a record to topic control, unless the current record of its key is the same.
func (a *app) putSetting(ctx context.Context, c *config.Config, r *kgo.Record) (changed bool, err error) {
	have, err := a.settings(ctx, c)
	if err != nil {
		return false, err
	}
	if old := have[string(r.Key)]; old != nil && string(old.Value) == string(r.Value) {
		return false, nil
	}
	return true, a.writeSetting(ctx, c, r)
}

func newCalendarList(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print the calendars' names",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			all, err := a.calendarList(cmd.Context(), c)
			if err != nil {
				return err
			}
			items, rows := make([]any, len(all)), make([][]string, len(all))
			for i, cal := range all {
				items[i], rows[i] = cal, []string{cal.Name, strconv.Itoa(cal.Dates), cal.First, cal.Last}
			}
			return a.out.list(items, []string{"calendar", "dates", "first", "last"},
				func(i int) []string { return rows[i] })
		},
	}
}

// calendarList lists the calendars from the API or from Kafka, whichever the user named.
func (a *app) calendarList(ctx context.Context, c *config.Config) (list []gateway.CalendarSummary, err error) {
	if asksAPI(c) {
		return listCalendars(ctx, newAPI(c))
	}
	all, err := a.calendars(ctx, c)
	for _, cal := range all {
		list = append(list, gateway.Summary(&cal))
	}
	return list, err
}

func newCalendarGet(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Print a calendar's dates, as put reads them",
		Args:  argsBetween(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			cal, err := a.calendar(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return a.printCalendar(cal)
		},
	}
}

// calendar returns a calendar by name, from the API or from Kafka, whichever the user named.
func (a *app) calendar(ctx context.Context, c *config.Config, name string) (topics.Calendar, error) {
	none := &failure{Exit: exitNotFound, Msg: fmt.Sprintf("there is no calendar %s; see `waterclock calendar list`",
		name)}
	if asksAPI(c) {
		cal, err := fetchCalendar(ctx, newAPI(c), name)
		if exitOf(err) == exitNotFound {
			err = none
		}
		return cal, err
	}
	all, err := a.calendars(ctx, c)
	if err != nil {
		return topics.Calendar{}, err
	}
	for _, cal := range all {
		if cal.Name == name {
			return cal, nil
		}
	}
	return topics.Calendar{}, none
}

func (a *app) printCalendar(cal topics.Calendar) error {
	if a.out.format != "table" {
		return a.out.json(map[string]any{"name": cal.Name, "dates": cal.Dates})
	}
	for _, d := range cal.Dates {
		if _, err := fmt.Fprintln(a.out.w, d); err != nil {
			return err
		}
	}
	return nil
}

// calendars returns all current calendars, sorted by name.
func (a *app) calendars(ctx context.Context, c *config.Config) ([]topics.Calendar, error) {
	have, err := a.settings(ctx, c)
	if err != nil {
		return nil, err
	}
	var all []topics.Calendar
	for key, r := range have {
		if !strings.HasPrefix(key, topics.ControlCalendars) {
			continue
		}
		s, err := topics.DecodeSetting(&topics.Record{Key: r.Key, Value: r.Value})
		if err != nil {
			a.note("%s cannot be read, and the engine ignores it: %v", key, worded(err))
			continue
		}
		all = append(all, *s.Calendar)
	}
	slices.SortFunc(all, func(x, y topics.Calendar) int { return strings.Compare(x.Name, y.Name) })
	return all, nil
}

// settings folds topic control: it returns the last record of each key that has not been deleted.
func (a *app) settings(ctx context.Context, c *config.Config) (map[string]*kgo.Record, error) {
	if err := needBrokers(c); err != nil {
		return nil, err
	}
	have := map[string]*kgo.Record{}
	err := a.readWhole(ctx, c, c.Topic("control"), "", func(r *kgo.Record) {
		if have[string(r.Key)] = r; r.Value == nil {
			delete(have, string(r.Key))
		}
	})
	return have, err
}

// settingBytes bounds a record of topic control. The largest is a tz database.
const settingBytes = 4 << 20

// writeSetting appends a record to topic control, which has one partition.
func (a *app) writeSetting(ctx context.Context, c *config.Config, r *kgo.Record) error {
	cl, err := a.kafka(ctx, c, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(settingBytes),
		kgo.RecordDeliveryTimeout(30*time.Second))
	if err != nil {
		return err
	}
	defer cl.Close()
	r.Topic = c.Topic("control")
	if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
		return fmt.Errorf("write to %s: %w", r.Topic, err)
	}
	return nil
}

// settingOf decodes a record of topic control.
func settingOf(r *kgo.Record) (*topics.Setting, error) {
	s, err := topics.DecodeSetting(kafkarec.Of(r))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting %s cannot be read", r.Key), worded(err))
	}
	return s, nil
}
