package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/slots"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func preferenceRoutes(p *parts) []route {
	return []route{
		{
			method: http.MethodGet, pattern: "/v1/preferences/{user}", right: auth.Read,
			handle: p.users.getPreferences, doc: operation{
				id:      "getPreferences",
				summary: "Read a user's preferences; for a user without any, the defaults",
				answers: answers{200: of[Preferences]()},
			},
		},
		{
			method: http.MethodPut, pattern: "/v1/preferences/{user}", right: auth.Write,
			handle: p.users.putPreferences, doc: operation{
				id: "putPreferences", summary: "Replace a user's preferences: a field that is left out is reset. A " +
					"new timezone moves the user's follow_user triggers",
				body: of[PreferencesBody](), answers: answers{200: of[Preferences]()},
			},
		},
	}
}

// user is whose preferences a path names.
func (r *request) user() (preferences.User, error) {
	u := preferences.User{Tenant: r.who.Tenant, ID: r.names["user"]}
	return u, u.Check()
}

// preferenceCalls calls the preference store for requests.
type preferenceCalls struct {
	slots *slots.Slots // one for each call; nil: no bound
	store preferences.Store
}

// preferencesThere refuses where no store is configured.
func (s *preferenceCalls) preferencesThere() error {
	if s.store == nil {
		return problem.Unavailable(nil,
			"this instance stores no preferences: set postgres.url, and run PostgreSQL there")
	}
	return nil
}

// userThere is whose preferences a path names, where a store is configured.
func (s *preferenceCalls) userThere(r *request) (u preferences.User, err error) {
	if u, err = r.user(); err == nil {
		err = s.preferencesThere()
	}
	return u, err
}

// preferencesAtOnce bounds the requests that hold a connection to the preference store: one is
// left for the workers of this process, and no tenant has all others. nil is for a store
// without connections.
func preferencesAtOnce(o *Options) *slots.Slots {
	store, ok := o.Preferences.(interface{ Conns() int })
	if !ok {
		return nil
	}
	return slots.New(max(store.Conns()-1, 1), o.Auth != nil)
}

// withPreferences calls the preference store when it is the tenant's turn.
func (s *preferenceCalls) withPreferences(ctx context.Context, tenant string, call func() error) error {
	if s.slots == nil {
		return call()
	}
	if err := s.slots.Wait(ctx, tenant); err != nil {
		return err
	}
	defer s.slots.Release(tenant)
	return call()
}

// unreadable says that the store answers, and that what it keeps of the user does not parse.
func unreadable(err error) bool {
	_, is := errors.AsType[*preferences.UnreadableError](err)
	return is
}

// preferencesWithin bounds how long a request waits for its turn and for the store.
const preferencesWithin = 5 * time.Second

// askPreferences calls the preference store for a request.
func (s *preferenceCalls) askPreferences(r *request, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(r.Context(), preferencesWithin)
	defer cancel()
	if err := s.withPreferences(ctx, r.who.Tenant, func() error { return call(ctx) }); err != nil {
		return preferencesAway(err)
	}
	return nil
}

func preferencesAway(err error) error {
	if errors.Is(err, preferences.ErrTooManyUsers) {
		return problem.TooMany(trigger.CodeQuotaExceeded,
			"the tenant has reached its limit of users with preferences (tenants.<name>.max_users): erase users "+
				"that are gone", untilRoom)
	}
	if errors.Is(err, errTooManyErasures) {
		return problem.TooMany(trigger.CodeQuotaExceeded, fmt.Sprintf(
			"%d erasures of the tenant wait: retry when some are done", mostErasures), 10*time.Second)
	}
	if unreadable(err) {
		return problem.Unavailable(err, "the user's preferences cannot be parsed: replace them with PUT")
	}
	return problem.Unavailable(err, "the preference store does not answer; repeating it is safe")
}

// users keeps what users want, and erases users.
type users struct {
	bodies *bodies
	prefs  *preferenceCalls
	rate   *writeRate

	commands   *commandLog
	erasures   *eraser
	kafka      *producer.Producer
	log        *slog.Logger
	moves      *mover
	names      topics.Names
	now        func() time.Time
	partitions int32
	timetable  func() *trigger.Timetable
}

func (s *users) getPreferences(w http.ResponseWriter, r *request) error {
	u, err := s.prefs.userThere(r)
	if err != nil {
		return err
	}
	var all []*preferences.Preferences
	if err := s.prefs.askPreferences(r, func(ctx context.Context) (err error) {
		all, err = s.prefs.store.Get(ctx, []preferences.User{u})
		return err
	}); err != nil {
		return err
	}
	return sendPreferences(w, all[0])
}

func (s *users) putPreferences(w http.ResponseWriter, r *request) error {
	u, err := r.user()
	if err != nil {
		return err
	}
	b, err := s.bodies.body(w, r)
	if err != nil {
		return err
	}
	p, err := preferences.Decode(b, s.zones())
	if err != nil {
		return err
	}
	if err := s.prefs.preferencesThere(); err != nil {
		return err
	}
	if p := s.rate.takeRate(u.Tenant); p != nil {
		return p
	}
	if err := s.prefs.askPreferences(r, func(ctx context.Context) error {
		return s.prefs.store.Put(ctx, u, p)
	}); err != nil {
		return err
	}
	s.moves.wake()
	return sendPreferences(w, p)
}

// zones are the tz database in force.
func (s *users) zones() *calendar.Zones {
	if s.timetable == nil {
		return calendar.Embedded()
	}
	return s.timetable().Zones
}

func sendPreferences(w http.ResponseWriter, p *preferences.Preferences) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(append(p.Encode(), '\n'))
	_ = err // the caller is gone if this fails
	return nil
}

// Preferences is the answer: what is not set is empty.
type Preferences struct{}

// Schema describes it for the OpenAPI document.
func (Preferences) Schema(huma.Registry) *huma.Schema {
	s := preferencesSchema(false)
	s.Required = []string{
		"opted_out_channels", "preferred_channels", "notification_types", "quiet_hours", "addresses",
	}
	return s
}

// PreferencesBody is what PUT takes: everything may be left out, or null.
type PreferencesBody struct{}

// Schema describes it for the OpenAPI document.
func (PreferencesBody) Schema(huma.Registry) *huma.Schema { return preferencesSchema(true) }

// preferencesSchema is preferences.Document; null counts as absent in a body.
func preferencesSchema(null bool) *huma.Schema {
	text := func(doc string, example string) *huma.Schema {
		s := &huma.Schema{Type: huma.TypeString, Description: doc, Nullable: null}
		if example != "" {
			s.Examples = []any{example}
		}
		return s
	}
	object := func(doc string, of map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{
			Type: huma.TypeObject, Description: doc, Properties: of, AdditionalProperties: false, Nullable: null,
		}
	}
	channel := &huma.Schema{Type: huma.TypeString, Pattern: `^[A-Za-z0-9][A-Za-z0-9._-]{0,48}$`}
	channels := func(least int, doc string) *huma.Schema {
		most := preferences.MaxChannels
		s := &huma.Schema{Type: huma.TypeArray, Items: channel, Description: doc, MaxItems: &most, Nullable: null}
		if least > 0 {
			s.MinItems = &least
		}
		return s
	}
	day := &huma.Schema{
		Type: huma.TypeString, Pattern: `^([Mm][Oo]|[Tt][Uu]|[Ww][Ee]|[Tt][Hh]|[Ff][Rr]|[Ss][Aa]|[Ss][Uu])$`,
	}
	one, week, tokens, longest := 1, 7, preferences.MaxPushTokens, preferences.MaxToken
	clock := func(doc, example, pattern string) *huma.Schema {
		s := text(doc, example)
		s.Pattern = pattern
		return s
	}
	boolean := &huma.Schema{Type: huma.TypeBoolean}
	push := object("", map[string]*huma.Schema{
		"provider": {Type: huma.TypeString, Enum: []any{"fcm", "apns"}},
		"token":    {Type: huma.TypeString, Pattern: `^[!-~]+$`, MaxLength: &longest},
	})
	push.Required, push.Nullable = []string{"provider", "token"}, false
	return object("", map[string]*huma.Schema{
		"opted_out_channels": channels(0, "Channels on which nothing is sent, whatever its priority"),
		"preferred_channels": channels(0, "Channels in the order of preference"),
		"notification_types": {
			Type: huma.TypeObject, Nullable: null, Description: "By notification type, which is tags.type of a " +
				"trigger: false, or false by channel. Types that are not named are wanted",
			AdditionalProperties: &huma.Schema{AnyOf: []*huma.Schema{
				boolean,
				{Type: huma.TypeObject, AdditionalProperties: boolean},
			}},
		},
		"quiet_hours": object("Hours at which nothing is sent but priority high; they need timezone. Empty: none",
			map[string]*huma.Schema{
				"from": clock("Local time at which they begin", "22:00", `^(([01][0-9]|2[0-3]):[0-5][0-9])?$`),
				"to": clock("Local time at which they end; not later than from means on the next day", "07:00",
					`^((([01][0-9]|2[0-3]):[0-5][0-9])|24:00)?$`),
				"days": {
					Type: huma.TypeArray, Items: day, MinItems: &one, MaxItems: &week, Nullable: null,
					Description: "MO, TU, WE, TH, FR, SA, SU: the days on which they begin. Without it every day",
				},
				"channels": channels(1, "The channels that they bind. Without it every channel but webhook"),
			}),
		"addresses": object("Where the user is reached", map[string]*huma.Schema{
			"push":  {Type: huma.TypeArray, Items: push, MaxItems: &tokens, Nullable: null},
			"sms":   clock("E.164", "+4915112345678", `^(\+[1-9][0-9]{6,14})?$`),
			"email": text("", "ada@example.com"),
		}),
		"locale": clock("A language tag", "pt-BR", `^([A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*)?$`),
		"timezone": text("IANA name. A new one moves the user's follow_user triggers: their wall times stay",
			"America/New_York"),
	})
}
