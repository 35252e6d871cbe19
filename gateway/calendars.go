package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Calendar is a named set of local dates, of all tenants or of one.
type Calendar struct {
	Name  string   `json:"name,omitempty" nullable:"true"`
	Dates []string `json:"dates" doc:"Local dates such as 2026-12-25"`
}

// NamedCalendar is a calendar with its name and tenant.
type NamedCalendar struct {
	Name   string   `json:"name"`
	Tenant string   `json:"tenant,omitempty" doc:"Its tenant; absent for a calendar of all tenants"`
	Dates  []string `json:"dates" doc:"Local dates such as 2026-12-25"`
}

// Calendars are all of them, by name.
type Calendars struct {
	Items []CalendarSummary `json:"items"`
}

// CalendarSummary is an item of a list of calendars.
type CalendarSummary struct {
	Name   string `json:"name"`
	Tenant string `json:"tenant,omitempty" doc:"Its tenant; absent for a calendar of all tenants"`
	Dates  int    `json:"dates" doc:"How many there are"`
	First  string `json:"first,omitempty" doc:"The first date"`
	Last   string `json:"last,omitempty" doc:"The last date"`
}

// calendars reads and changes the named calendars.
type calendars struct {
	bodies *bodies

	auditor    *auditor
	changes    *changeRate // of tenants' own
	commands   *commandLog
	control    *topicReader
	kafka      *producer.Producer
	log        *slog.Logger
	most       int // of a tenant's own
	names      topics.Names
	readWithin time.Duration
	router     *peer.Router
}

func (s *calendars) listCalendars(w http.ResponseWriter, r *request) error {
	all, err := s.calendars(r.Context())
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	list := Calendars{Items: []CalendarSummary{}}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if tenant, _, own := strings.Cut(name, "/"); !own || tenant == r.who.Tenant {
			list.Items = append(list.Items, Summary(all[name]))
		}
	}
	return sendJSON(w, http.StatusOK, list)
}

// Summary summarises a calendar, whose dates must be sorted.
func Summary(c *topics.Calendar) CalendarSummary {
	s := CalendarSummary{Name: c.Name, Dates: len(c.Dates)}
	if tenant, name, own := strings.Cut(c.Name, "/"); own {
		s.Tenant, s.Name = tenant, name
	}
	if s.Dates > 0 {
		s.First, s.Last = c.Dates[0], c.Dates[s.Dates-1]
	}
	return s
}

// getCalendar shows the calendar that a name means for the caller's triggers.
func (s *calendars) getCalendar(w http.ResponseWriter, r *request) error {
	c, err := existing(s.calendarOf(r.Context(), r.who.Tenant, r.names["name"]))
	if err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, calendarJSON(c.Name, c.Dates))
}

// existing makes the answer of a read that failed or found no calendar.
func existing(c *topics.Calendar, err error) (*topics.Calendar, error) {
	switch {
	case err != nil:
		return nil, problem.Unavailable(err, "Kafka does not answer")
	case c == nil:
		return nil, errNoCalendar()
	}
	return c, nil
}

func errNoCalendar() error {
	return problem.New(http.StatusNotFound, trigger.CodeNotFound, "name", "no such calendar")
}

func calendarJSON(full string, dates []string) NamedCalendar {
	if dates == nil {
		dates = []string{}
	}
	if tenant, name, own := strings.Cut(full, "/"); own {
		return NamedCalendar{name, tenant, dates}
	}
	return NamedCalendar{full, "", dates}
}

// scopeParameter says whether a change is about the tenant's own calendar.
var scopeParameter = parameter{
	name: "scope",
	doc: "tenant: the caller's tenant's own; cluster: the one for all tenants, operators only. Without it an " +
		"operator means cluster, anybody else tenant",
	kind: of[string](), oneOf: []string{"tenant", "cluster"},
}

// calendarToChange is the full name of the calendar to change.
func (s *calendars) calendarToChange(r *request) (string, error) {
	scope := r.query.Get("scope")
	switch {
	case !topics.ValidName(r.names["name"]):
		return "", errNoCalendar()
	case scope != "tenant" && r.who.May(auth.Operate):
		return r.names["name"], nil
	case scope == "cluster":
		return "", s.auditor.forbid(r, auth.Operate, "calendars of all tenants are changed by")
	}
	return trigger.OwnCalendar(r.who.Tenant, r.names["name"]), nil
}

// ownCalendarFits bounds the number of a tenant's own calendars and the rate of their
// changes. For each change the engine walks all triggers.
func (s *calendars) ownCalendarFits(ctx context.Context, tenant, full string) error {
	until, cancel := s.commands.untilFull(ctx)
	defer cancel()
	all, err := s.calendars(until)
	if err != nil {
		return problem.Unavailable(err, "Kafka does not answer")
	}
	n := 0
	for name := range all {
		if strings.HasPrefix(name, trigger.OwnCalendar(tenant, "")) {
			n++
		}
	}
	if all[full] == nil && n >= s.most {
		return problem.TooMany(trigger.CodeQuotaExceeded,
			fmt.Sprintf("the tenant has %d calendars of its own, which is limits.calendars: delete one first", n),
			untilRoom)
	}
	return s.changes.take(tenant)
}

// changeRate bounds how often tenants change calendars.
type changeRate struct {
	every time.Duration
	now   func() time.Time

	mu   sync.Mutex
	last map[string]time.Time // by tenant, only of tenants that changed one within the interval
}

// take takes one change, or returns when to come back.
func (c *changeRate) take(tenant string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	maps.DeleteFunc(c.last, func(_ string, at time.Time) bool { return now.Sub(at) >= c.every })
	if at, waits := c.last[tenant]; waits {
		return problem.TooMany(trigger.CodeQuotaExceeded,
			"a tenant changes one calendar of its own every "+c.every.String()+" (limits.calendar_interval)",
			c.every-now.Sub(at))
	}
	if c.last == nil {
		c.last = map[string]time.Time{}
	}
	c.last[tenant] = now
	return nil
}

// calendarOf finds the calendar that a name means for a tenant. The name has no '/': with
// one it would be another tenant's.
func (s *calendars) calendarOf(ctx context.Context, tenant, name string) (*topics.Calendar, error) {
	if !topics.ValidName(name) {
		return nil, nil
	}
	if c, err := s.calendar(ctx, trigger.OwnCalendar(tenant, name)); c != nil || err != nil {
		return c, err
	}
	return s.calendar(ctx, name)
}

// calendar finds a calendar by its full name; nil if there is none.
func (s *calendars) calendar(ctx context.Context, name string) (*topics.Calendar, error) {
	all, err := s.calendars(ctx, name)
	return all[name], err
}

// calendars reads the newest values of some calendars, or of all with no name, from topic control.
// The topic holds few settings, and is read as it is.
func (s *calendars) calendars(ctx context.Context, only ...string) (map[string]*topics.Calendar, error) {
	ctx, cancel := context.WithTimeout(ctx, s.readWithin)
	defer cancel()
	end, err := stableEnd(ctx, s.kafka.Client(), s.control.topic, 0)
	if err != nil {
		return nil, err
	}
	all := map[string]*topics.Calendar{}
	err = s.control.read(ctx, 0, 0, end, func(r *kgo.Record) error {
		name, isCalendar := strings.CutPrefix(string(r.Key), topics.ControlCalendars)
		if !isCalendar || len(only) > 0 && !slices.Contains(only, name) {
			return nil
		}
		delete(all, name)
		if set, err := topics.DecodeSetting(&topics.Record{Key: r.Key, Value: r.Value}); err == nil &&
			set.Calendar != nil {
			all[name] = set.Calendar
		}
		return nil
	})
	return all, err
}

// putCalendar writes a calendar; partitions apply it at a definite offset.
func (s *calendars) putCalendar(w http.ResponseWriter, r *request) error {
	b, err := s.bodies.body(w, r)
	if err != nil {
		return err
	}
	fs, err := parseFields(b)
	if err != nil {
		return err
	}
	name := r.names["name"]
	c := topics.Calendar{}
	for _, f := range fs {
		if f.name != "dates" && f.name != "name" {
			return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, f.name,
				printable.Quoted(f.name)+" is not a field: a calendar has dates")
		}
	}
	if json.Unmarshal(b, &c) != nil || !fs.given("dates") {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "dates",
			"dates must be a list of dates such as 2026-12-25")
	}
	if given, err := fs.takeText("name"); err != nil || given != "" && given != name {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "name",
			"the name in the body is not the one in the path")
	}
	if !topics.ValidName(name) {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, "name",
			"a calendar's name is 1 to 64 of a-z 0-9 . _ -, the first a letter or digit")
	}
	if c.Name, err = s.calendarToChange(r); err != nil {
		return err
	}
	key, value, err := topics.EncodeCalendar(c)
	if err != nil {
		return problem.InField(err, "dates")
	}
	if c.Name != name {
		if err := s.ownCalendarFits(r.Context(), r.who.Tenant, c.Name); err != nil {
			return err
		}
	}
	if at := s.putSetting(r.Context(), key, value); at.err != nil {
		return unacknowledged(at.err, "the calendar", "repeating it is safe")
	}
	var stored topics.Calendar
	if err := json.Unmarshal(value, &stored); err != nil {
		return err
	}
	return sendJSON(w, http.StatusOK, calendarJSON(c.Name, stored.Dates))
}
