package main

import (
	"math"
	"net/url"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
)

// timeFlags are the flags that say when. schedule, reschedule and preview share them.
type timeFlags struct {
	in, at, zone, every string
	start, until        string
	count               int
	include, exclude    []string
	gap, overlap        string
	calendars           []string
	onHoliday           string

	flags *pflag.FlagSet // the verb's flags, to see which were given
}

func (f *timeFlags) bind(cmd *cobra.Command) {
	fs := cmd.Flags()
	f.flags = fs
	fs.StringVar(&f.in, "in", "", "after a `duration`: 7m, 1h30m, 2d")
	fs.StringVar(&f.at, "at", "", "at a `time`: 2026-11-20T09:00:00Z, or 2026-11-20T09:00 with --tz")
	fs.StringVar(&f.zone, "tz", "", "`zone` of wall times: America/New_York")
	fs.StringVar(&f.every, "every", "", "repeatedly: 15m, '0 9 * * 1-5', @daily, 'FREQ=WEEKLY;BYDAY=MO' (`rule`)")
	fs.StringVar(&f.start, "start", "", "first `time` a rule may fire")
	fs.StringVar(&f.until, "until", "", "last `time` a rule may fire")
	fs.IntVar(&f.count, "count", 0, "how often a rule fires")
	fs.StringArrayVar(&f.include, "include", nil, "an extra `date` or time; may be repeated")
	fs.StringArrayVar(&f.exclude, "exclude", nil, "a `date` or time to leave out; may be repeated")
	fs.StringSliceVar(&f.calendars, "calendars", nil, "`names` of holiday calendars, with commas between them")
	fs.StringVar(&f.onHoliday, "on-holiday", "",
		"what to do with a rule's date on a holiday: skip (default), next_business_day or previous_business_day")
	fs.StringVar(&f.gap, "dst-gap", "", "a wall time the clock skips: shift or skip")
	fs.StringVar(&f.overlap, "dst-overlap", "", "a wall time that comes twice: first, second or both")
}

// fields returns the contract's time fields. Exactly one of --in, --at and --every is required.
func (f *timeFlags) fields() (map[string]any, error) {
	for _, name := range []string{
		"in", "at", "tz", "every", "start", "until", "dst-gap", "dst-overlap", "calendars", "on-holiday",
	} {
		if err := refuseEmpty(f.flags, name); err != nil {
			return nil, err
		}
	}
	ways := 0
	for _, way := range []string{f.in, f.at, f.every} {
		if way != "" {
			ways++
		}
	}
	if ways != 1 {
		return nil, usagef("give exactly one of --in, --at and --every")
	}
	if err := f.checkAt(); err != nil {
		return nil, err
	}
	out := map[string]any{}
	put(out, "delay", f.in)
	put(out, "fire_at", f.at)
	put(out, "recurrence", rule(f.every))
	put(out, "timezone", f.zone)
	put(out, "start", f.start)
	put(out, "until", f.until)
	if f.count != 0 {
		out["count"] = f.count
	}
	if len(f.include) > 0 {
		out["include"] = f.include
	}
	if len(f.exclude) > 0 {
		out["exclude"] = f.exclude
	}
	dst := map[string]any{}
	put(dst, "gap", f.gap)
	put(dst, "overlap", f.overlap)
	if len(dst) > 0 {
		out["dst"] = dst
	}
	if f.onHoliday != "" && len(f.calendars) == 0 {
		return nil, usagef("--on-holiday needs --calendars")
	}
	if len(f.calendars) > 0 {
		out["calendars"] = map[string]any{"names": f.calendars, "on": or(f.onHoliday, calendar.OnSkip)}
	}
	return out, nil
}

// holidays returns the calendars that the flags name, or nil if they name none.
func (f *timeFlags) holidays(find calendar.CalendarSource) (*calendar.CalendarRule, error) {
	if len(f.calendars) == 0 {
		return nil, nil
	}
	rule := &calendar.CalendarRule{Names: f.calendars, On: or(f.onHoliday, calendar.OnSkip)}
	for _, name := range f.calendars {
		set, ok := find(name)
		if !ok {
			return nil, &failure{Exit: exitNotFound, Msg: "there is no calendar " + name +
				"; see `waterclock calendar list`"}
		}
		rule.Sets = append(rule.Sets, set)
	}
	return rule, nil
}

// compile builds a rule from the flags. It requires --every, because only a series has days to
// mark.
func (f *timeFlags) compile(now int64, find calendar.CalendarSource) (*calendar.Rule, error) {
	if f.every == "" {
		return nil, usagef("--month and --year draw a rule: give it with --every")
	}
	if _, err := f.fields(); err != nil {
		return nil, err
	}
	dst, err := calendar.ParseDST(f.gap, f.overlap)
	if err != nil {
		return nil, refusedBy(err)
	}
	holidays, err := f.holidays(find)
	if err != nil {
		return nil, err
	}
	r, err := calendar.Compile(calendar.Embedded(), calendar.Spec{
		Calendars: holidays, Recurrence: rule(f.every), Start: f.start, Zone: f.zone, Include: f.include,
		Exclude: f.exclude, Until: f.until, Count: f.count, DST: dst, Append: now, Limits: calendar.Limits{}.Preview(),
	})
	if err != nil {
		return nil, refusedBy(err)
	}
	return r, nil
}

// refuseEmpty refuses a flag with an empty value. A script with an empty variable passes one, and
// to treat it as absent would be a guess.
func refuseEmpty(flags *pflag.FlagSet, name string) error {
	f := flags.Lookup(name)
	if f == nil || !f.Changed {
		return nil
	}
	list, many := f.Value.(pflag.SliceValue)
	if many && len(list.GetSlice()) > 0 || !many && f.Value.String() != "" {
		return nil
	}
	if name == "tz" {
		return usagef("--tz is empty: omit it for UTC, or name a zone such as America/New_York")
	}
	return usagef("--%s is empty: omit it, or give it a value", name)
}

// checkRange refuses --from and --to that are no instants, or between which nothing lies: an empty
// list would hide the mistake. A text of "" is no bound.
func checkRange(from, to string) error {
	begin, end := int64(math.MinInt64), int64(math.MaxInt64)
	for _, bound := range []struct {
		name, text string
		at         *int64
	}{{"from", from, &begin}, {"to", to, &end}} {
		if bound.text == "" {
			continue
		}
		var err error
		if *bound.at, err = calendar.ParseInstant(bound.text); err != nil {
			return usagef("--%s %q: write an instant such as 2026-11-20T14:00:00Z or 2026-11-20T15:00:00+01:00",
				bound.name, bound.text)
		}
	}
	if begin > end {
		return usagef("--from %s is after --to %s: nothing lies between them", from, to)
	}
	return nil
}

// queryOf puts the filters that flags set into a query of the API, which calls --key as key says.
func queryOf(flags *pflag.FlagSet, filters map[string]*string, key string) (url.Values, error) {
	q := url.Values{}
	for name, value := range filters {
		if err := refuseEmpty(flags, name); err != nil {
			return nil, err
		}
		if *value == "" {
			continue
		}
		if name == "key" {
			name = key
		}
		q.Set(name, *value)
	}
	return q, checkRange(q.Get("from"), q.Get("to"))
}

// wallTime matches a time without a zone, also with a space between date and time.
var wallTime = regexp.MustCompile(`^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$`)

// checkAt catches two common mistakes in --at. The engine could only report them in terms of its
// own fields, not of the flags.
func (f *timeFlags) checkAt() error {
	switch {
	case !wallTime.MatchString(f.at):
		return nil
	case strings.Contains(f.at, " "):
		return usagef("--at %q: write T between date and time: %s", f.at, strings.Replace(f.at, " ", "T", 1))
	case f.zone == "":
		return usagef("--at %s has no time zone: add --tz Europe/Berlin, or append Z or an offset", f.at)
	}
	return nil
}

// put sets a field if it has a value.
func put(fields map[string]any, name, value string) {
	if value != "" {
		fields[name] = value
	}
}

// rule expands the short forms of --every: a bare duration, five cron fields, or @daily.
func rule(s string) string {
	switch {
	case s == "" || strings.HasPrefix(s, "cron:") || strings.HasPrefix(s, "every:"):
		return s
	case strings.HasPrefix(s, "@") || len(strings.Fields(s)) == 5 && !strings.Contains(s, "="):
		return "cron:" + s
	}
	if _, err := config.ParseDuration(s); err == nil {
		return "every:" + s
	}
	return s
}
