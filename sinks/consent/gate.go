package consent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/trigger"
)

// Codes of receipts, in addition to those of package preferences.
const (
	CodeUnread = "preferences_unread"        // sent although the store did not answer: priority high
	CodeAway   = trigger.CodePreferencesAway // postponed, because the store did not answer
	CodeErased = "erased"                    // not sent: its user was erased after it was emitted
)

// Options configure a gate.
type Options struct {
	// Store has the preferences. nil means that there are none: everything is sent.
	Store preferences.Store
	// Zones returns the tz database in force. nil means that of this binary.
	Zones func() *calendar.Zones
	// Channel is the channel that the worker serves.
	Channel string

	// DedupWindow is how long a user gets no second message of the same type. 0: off.
	DedupWindow time.Duration
	// MaxPerUser bounds what a user gets on the channel. Messages of priority high count, but are
	// not bounded.
	MaxPerUser []Cap

	// Within bounds how long one batch waits for the store. 0 means 800 ms. It is at most 1 s,
	// because nothing is sent meanwhile.
	Within time.Duration
	Logger *slog.Logger
	Now    func() time.Time // nil means time.Now
}

// Cap is the maximum number of messages in any period of a given length.
type Cap = preferences.Cap

// maxWithin is the maximum of Within.
const maxWithin = time.Second

// awayFor is how long due events are postponed while the store does not answer. The engine adds a
// spread.
const awayFor = 30 * time.Second

// rest is how long a store that did not answer in time is not called.
const rest = time.Second

// fresh is the maximum age of an answer when its due event is sent.
const fresh = 900 * time.Millisecond

func (o Options) withDefaults() Options {
	o.Within = min(cmp.Or(o.Within, 800*time.Millisecond), maxWithin)
	if o.Zones == nil {
		o.Zones = calendar.Embedded
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Gate decides whether due events of one channel are sent. It is safe for concurrent use.
type Gate struct {
	opts Options

	mu     sync.Mutex
	closed time.Time // the store is not called until then
	away   bool      // the last call failed; logged once

	complained time.Time // when unreadable preferences were last logged
}

// New makes a gate.
func New(o Options) *Gate { return &Gate{opts: o.withDefaults()} }

// Verdict is the decision on one due event.
type Verdict struct {
	// Preferences are the user's. They are nil if the event has no user, if there is no store, or
	// if they could not be read or parsed.
	Preferences *preferences.Preferences
	// Answer is the result of an event that is not sent. nil: send it.
	Answer *worker.Result
	// Code goes into the receipt of a sent event that has no code of its own.
	Code string
}

// Sent returns a receipt with the code of the verdict.
func (v *Verdict) Sent(r worker.Result) worker.Result {
	if r.Code == "" {
		r.Code = v.Code
	}
	return r
}

// batch has the verdicts on some due events.
type batch struct {
	at       time.Time // before the store was called
	away     bool      // the store did not answer
	verdicts map[*worker.DueEvent]Verdict
}

// OnBatch reads the preferences of a batch's users in one query. It is for worker.OnBatch; Of
// finds the value.
func (g *Gate) OnBatch(ctx context.Context, events []*worker.DueEvent) any {
	return g.read(ctx, events)
}

// Of returns the verdict on a due event. Call it right before the event is sent: if the event has
// waited for over a second, it is read anew. An event that the preferences forbid, although it may
// have been claimed before, counts no longer against its user. If there was an attempt, it may have
// been sent, and counts.
func (g *Gate) Of(ctx context.Context, e *worker.DueEvent) Verdict {
	if g.opts.Store == nil || e.User == "" {
		return Verdict{}
	}
	v, claimed := g.of(ctx, e)
	if v.Answer != nil && enough[v.Answer.Code] == "" && e.Attempt == 1 && (claimed || e.Postponed > 0) {
		g.After(ctx, e, *v.Answer)
	}
	return v
}

// of returns the verdict. claimed says that it was claimed in its batch.
func (g *Gate) of(ctx context.Context, e *worker.DueEvent) (v Verdict, claimed bool) {
	if b, ok := worker.BatchValue[*batch](ctx); ok {
		v, known := b.verdicts[e]
		if known && (b.away || g.opts.Now().Sub(b.at) <= fresh) {
			return v, false
		}
		claimed = known && v.Answer == nil
	}
	return g.read(ctx, []*worker.DueEvent{e}).verdicts[e], claimed
}

// read reads the preferences for the events that have a user.
func (g *Gate) read(ctx context.Context, events []*worker.DueEvent) *batch {
	b := &batch{at: g.opts.Now(), verdicts: map[*worker.DueEvent]Verdict{}}
	if g.opts.Store == nil {
		return b
	}
	var asked []*worker.DueEvent
	var users []preferences.User
	for _, e := range events {
		if u := userOf(e); e.User != "" && u.Check() == nil {
			asked, users = append(asked, e), append(users, u)
		}
	}
	if len(asked) == 0 {
		return b
	}
	err := g.ask(ctx, func(ctx context.Context) error {
		all, err := g.opts.Store.Get(ctx, users)
		broken, some := errors.AsType[*preferences.UnreadableError](err)
		if err != nil && !some {
			return err
		}
		now, zones := g.opts.Now(), g.opts.Zones()
		for i, e := range asked {
			if all[i] == nil {
				b.verdicts[e] = unread(e, "the user's preferences cannot be parsed: replace them with PUT")
				continue
			}
			b.verdicts[e] = g.decide(e, all[i], now, zones)
		}
		g.complain(broken)
		return g.claim(ctx, b, asked, now)
	})
	if err != nil {
		b.away = true
		for _, e := range asked {
			known := b.verdicts[e] // by the preferences, if only the limits are unknown
			if known.Answer != nil {
				continue // what they forbid stays so
			}
			v := unread(e, "the preference store does not answer")
			v.Preferences = known.Preferences // of a user who gets it: the address and the language
			b.verdicts[e] = v
		}
	}
	return b
}

func userOf(e *worker.DueEvent) preferences.User {
	return preferences.User{Tenant: e.Tenant, ID: e.User}
}

// decide returns the verdict by preferences alone.
func (g *Gate) decide(e *worker.DueEvent, p *preferences.Preferences, now time.Time, zones *calendar.Zones) Verdict {
	v := Verdict{Preferences: p}
	if !p.ErasedAt.IsZero() && !e.Fired.After(p.ErasedAt) {
		r := worker.Suppress(CodeErased).WithDetail("not sent: the user was erased")
		v.Answer = &r
		return v
	}
	d := p.Decide(preferences.Due{Channel: g.opts.Channel, Type: typeOf(e), High: e.High}, now, zones)
	switch d.Outcome {
	case preferences.Suppress:
		r := worker.Suppress(d.Code).WithDetail("not sent: the user has opted out")
		v.Answer = &r
	case preferences.Postpone:
		// Receipts have milliseconds. Rounded down, the event would come back too early.
		wait := d.Until.Sub(now) + time.Millisecond - 1
		r := worker.Postpone(wait, d.Code).
			WithDetail("not sent: quiet hours until " + d.Until.UTC().Format(time.RFC3339))
		v.Answer = &r
	}
	return v
}

// typeOf returns the notification type, or "" if there is none.
func typeOf(e *worker.DueEvent) string { return e.Tags()["type"] }

// unread returns the verdict if the preferences are unknown.
func unread(e *worker.DueEvent, why string) Verdict {
	if e.High {
		return Verdict{Code: CodeUnread}
	}
	r := worker.Postpone(awayFor, CodeAway).WithDetail("not sent: " + why)
	return Verdict{Answer: &r}
}

// complain logs unreadable preferences, at most once per complainEvery.
func (g *Gate) complain(broken *preferences.UnreadableError) {
	if broken == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.opts.Now(); now.Sub(g.complained) >= complainEvery {
		g.complained = now
		g.opts.Logger.Error("preferences cannot be parsed: priority high is sent without them, everything else "+
			"waits until they are replaced with PUT",
			"channel", g.opts.Channel, "error", broken)
	}
}

// complainEvery bounds the lines of complain.
const complainEvery = time.Minute

// errResting means that the store was not called.
var errResting = errors.New("it did not answer a moment ago")

// ask calls the store within the bound. An immediate error, as from a connection that a restart
// has broken, is retried once.
func (g *Gate) ask(ctx context.Context, call func(context.Context) error) error {
	if g.resting() {
		return errResting
	}
	bounded, cancel := context.WithTimeout(ctx, g.opts.Within)
	defer cancel()
	err := call(bounded)
	if err != nil && bounded.Err() == nil {
		err = call(bounded)
	}
	if err != nil && ctx.Err() != nil {
		return err // the worker ends, which shows nothing about the store
	}
	g.note(err, bounded.Err() != nil)
	return err
}

func (g *Gate) resting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opts.Now().Before(g.closed)
}

// note records whether the store answers. slow means that it used up the time.
func (g *Gate) note(err error, slow bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && slow {
		g.closed = g.opts.Now().Add(rest)
	}
	if (err != nil) == g.away {
		return
	}
	g.away = err != nil
	if g.away {
		g.opts.Logger.Warn("preferences cannot be read: priority high is sent without them, and everything else is "+
			"postponed",
			"channel", g.opts.Channel, "error", err)
		return
	}
	g.opts.Logger.Info("preferences can be read again", "channel", g.opts.Channel)
}
