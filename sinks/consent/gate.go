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

// Codes of receipts, beside those of package preferences.
const (
	CodeUnread = "preferences_unread"        // sent although the store did not answer: priority high
	CodeAway   = trigger.CodePreferencesAway // postponed, because the store did not answer
	CodeErased = "erased"                    // not sent: its user was erased after it was emitted
)

// Options are what a gate is made of.
type Options struct {
	// Store is where preferences are. nil means that nobody keeps them: everything is
	// sent.
	Store preferences.Store
	// Zones are the tz database in force. nil means that of this binary.
	Zones func() *calendar.Zones
	// Channel is what the worker serves.
	Channel string

	// DedupWindow is how long a user gets no second message of a type. 0 means off.
	DedupWindow time.Duration
	// MaxPerUser bounds what a user gets on the channel. Priority high counts, and is
	// not bound.
	MaxPerUser []Cap

	// Within bounds what one batch waits for the store. 0 means 800 ms; it is at most
	// 1 s, because nothing starts meanwhile.
	Within time.Duration
	Logger *slog.Logger
	Now    func() time.Time // nil means time.Now
}

// Cap is so many messages in any stretch of time of that length.
type Cap = preferences.Cap

// maxWithin is the most that a batch may wait.
const maxWithin = time.Second

// awayFor is how long due events are postponed while the store does not answer; the
// engine adds a spread.
const awayFor = 30 * time.Second

// rest is how long a store that did not answer in its time is not asked.
const rest = time.Second

// fresh is how old an answer may be when its due event goes out.
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

// Gate answers whether due events of one channel go out. It is safe for concurrent
// use.
type Gate struct {
	opts Options

	mu     sync.Mutex
	closed time.Time // until then the store is not asked
	away   bool      // the last call failed; said in the log once

	complained time.Time // when the log last said that preferences do not parse
}

// New makes a gate.
func New(o Options) *Gate { return &Gate{opts: o.withDefaults()} }

// Verdict is what users allow of one due event.
type Verdict struct {
	// Preferences are the user's. They are nil if the event has no user, if nobody keeps
	// them, or if they could not be read or do not parse.
	Preferences *preferences.Preferences
	// Answer is the result of an event that does not go out; nil: send it.
	Answer *worker.Result
	// Code goes into the receipt of what is sent, where that has no code of its own.
	Code string
}

// Sent is a receipt with the code of the verdict.
func (v *Verdict) Sent(r worker.Result) worker.Result {
	if r.Code == "" {
		r.Code = v.Code
	}
	return r
}

// batch is what was read for some due events.
type batch struct {
	at       time.Time // before the store was asked
	away     bool      // it did not answer
	verdicts map[*worker.DueEvent]Verdict
}

// OnBatch reads what the users of a batch allow, in one query. It is for
// worker.OnBatch; Of finds the value.
func (g *Gate) OnBatch(ctx context.Context, events []*worker.DueEvent) any {
	return g.read(ctx, events)
}

// Of is the verdict on a due event. Call it right before it is sent: one that waited
// for over a second is read anew.
func (g *Gate) Of(ctx context.Context, e *worker.DueEvent) Verdict {
	if g.opts.Store == nil || e.User == "" {
		return Verdict{}
	}
	if b, ok := worker.BatchValue[*batch](ctx); ok {
		v, known := b.verdicts[e]
		if known && (b.away || g.opts.Now().Sub(b.at) <= fresh) {
			return v
		}
	}
	return g.read(ctx, []*worker.DueEvent{e}).verdicts[e]
}

// read asks the store about the events that have a user.
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
				b.verdicts[e] = unread(e, "the user's preferences do not parse: PUT replaces them")
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
			b.verdicts[e] = unread(e, "the preference store does not answer")
		}
	}
	return b
}

func userOf(e *worker.DueEvent) preferences.User {
	return preferences.User{Tenant: e.Tenant, ID: e.User}
}

// decide is the verdict of preferences alone.
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
		r := worker.Suppress(d.Code).WithDetail("not sent: the user does not want it")
		v.Answer = &r
	case preferences.Postpone:
		// Receipts have milliseconds: rounded down, the event would come back too early.
		wait := d.Until.Sub(now) + time.Millisecond - 1
		r := worker.Postpone(wait, d.Code).
			WithDetail("not sent: quiet hours until " + d.Until.UTC().Format(time.RFC3339))
		v.Answer = &r
	}
	return v
}

// typeOf is the notification type; "" if there is none.
func typeOf(e *worker.DueEvent) string { return e.Tags()["type"] }

// unread is the verdict where nobody knows what the user wants.
func unread(e *worker.DueEvent, why string) Verdict {
	if e.High {
		return Verdict{Code: CodeUnread}
	}
	r := worker.Postpone(awayFor, CodeAway).WithDetail("not sent: " + why)
	return Verdict{Answer: &r}
}

// complain says in the log that somebody's preferences do not parse, once in a while.
func (g *Gate) complain(broken *preferences.UnreadableError) {
	if broken == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.opts.Now(); now.Sub(g.complained) >= complainEvery {
		g.complained = now
		g.opts.Logger.Error("preferences do not parse: high goes out unread, what else is due waits for a PUT of them",
			"channel", g.opts.Channel, "error", broken)
	}
}

// complainEvery bounds the lines of complain.
const complainEvery = time.Minute

// errResting is why the store was not asked.
var errResting = errors.New("it did not answer a moment ago")

// ask calls the store within the bound. An error that comes at once, as from a
// connection that a restart has broken, is tried a second time.
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
		return err // the worker ends: that says nothing of the store
	}
	g.note(err, bounded.Err() != nil)
	return err
}

func (g *Gate) resting() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.opts.Now().Before(g.closed)
}

// note keeps whether the store answers; slow is that it used up the time.
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
		g.opts.Logger.Warn("preferences cannot be read: priority high is sent unread, and everything else is postponed",
			"channel", g.opts.Channel, "error", err)
		return
	}
	g.opts.Logger.Info("preferences are read from here on", "channel", g.opts.Channel)
}
