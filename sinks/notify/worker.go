package notify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/shares"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/sinks/consent"
	"github.com/waterclock/waterclock/sinks/notify/templates"
	"github.com/waterclock/waterclock/topics"
)

// Options configure a worker.
type Options struct {
	Channel string // one of topics.NotificationChannels
	// Kafka is the connection to the brokers: seeds, TLS, SASL, dialers.
	Kafka []kgo.Opt
	// Kit are options of the worker kit: prefix, group, topic, memory, metrics.
	Kit []worker.Option

	// Providers send messages. Push has one for each kind of address; other channels use the
	// first.
	Providers []Provider
	// Consent decides by the users' preferences. nil sends without them, and only to addresses in
	// payloads.
	Consent *consent.Gate
	// Book is the store from which dead addresses are deleted. nil keeps them.
	Book preferences.Editor
	// Templates returns the current templates. nil means none.
	Templates func() *templates.Set
	// Zones returns the tz database in force, for local times of triggers without a zone. nil
	// means that of this binary.
	Zones func() *calendar.Zones
	// AckURL returns the link by which the receiver acknowledges a due event. nil or "" means
	// none. UnsubscribeURL is the same for unsubscribing, in mails.
	AckURL, UnsubscribeURL func(e *worker.DueEvent) string

	Concurrency int           // concurrent messages. 0 means 64
	Within      time.Duration // bound for one message to all its addresses. 0 means 30 s
	Logger      *slog.Logger
	Now         func() time.Time // nil means time.Now
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	o.Within = cmp.Or(o.Within, 30*time.Second)
	if o.Templates == nil {
		o.Templates = func() *templates.Set { return nil }
	}
	if o.Zones == nil {
		o.Zones = calendar.Embedded
	}
	none := func(*worker.DueEvent) string { return "" }
	if o.AckURL == nil {
		o.AckURL = none
	}
	if o.UnsubscribeURL == nil {
		o.UnsubscribeURL = none
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Worker sends the due events of one channel.
type Worker struct {
	opts   Options
	pauses pauses
	shares *shares.Shares // of Options.Concurrency
}

// New makes a worker. Run runs it.
func New(o Options) (*Worker, error) {
	switch {
	case !slices.Contains(topics.NotificationChannels, o.Channel):
		return nil, fmt.Errorf("notify: channel %q is not one of %s", o.Channel,
			strings.Join(topics.NotificationChannels, ", "))
	case len(o.Providers) == 0:
		return nil, fmt.Errorf("notify: channel %s has no provider", o.Channel)
	}
	o = o.withDefaults()
	return &Worker{opts: o, shares: shares.New(o.Concurrency, o.Now)}, nil
}

// Run works until ctx ends, and then finishes running messages.
func (w *Worker) Run(ctx context.Context) error {
	o := &w.opts
	opts := append([]worker.Option{
		worker.Kafka(o.Kafka...), worker.Concurrency(o.Concurrency), worker.HandlerTimeout(o.Within + 10*time.Second),
		worker.Logger(o.Logger),
	}, o.Kit...)
	if o.Consent != nil {
		opts = append(opts, worker.OnBatch(o.Consent.OnBatch))
	}
	return worker.Run(ctx, o.Channel, w.Handle, opts...)
}

// shareWait is how long an event is postponed if its tenant uses its whole share.
const shareWait = time.Second

// Handle handles one due event. An event that the user's preferences forbid is not sent. If a
// tenant's messages hang, for example at a slow mail server, others still get their share.
func (w *Worker) Handle(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
	if !w.shares.Enter(ctx, e.Tenant) {
		return worker.Postpone(shareWait, CodeShare).
			WithDetail("not sent: the tenant has its share of worker.concurrency under way"), ctx.Err()
	}
	defer w.shares.Leave(e.Tenant)
	r, v, err := w.deliver(ctx, e)
	if err != nil || v.Answer != nil {
		return r, err
	}
	if w.opts.Consent != nil {
		w.opts.Consent.After(ctx, e, r)
	}
	return v.Sent(r), nil
}

// stale is the age of a verdict, beyond what package consent permits, after which the preferences
// are read anew.
const stale = 100 * time.Millisecond

// deliver sends a due event if the preferences permit it. If it had to wait for its provider, that
// is decided anew.
func (w *Worker) deliver(ctx context.Context, e *worker.DueEvent) (r worker.Result, v consent.Verdict, err error) {
	until := time.Now().Add(w.opts.Within)
	v, m, targets, failure := w.prepare(ctx, e)
	with := ctx
	if v.Answer == nil && failure == nil {
		asked := w.opts.Now()
		var release func()
		if with, release, err = reserve(ctx, w.opts.Within/2, e.Tenant, targets); err != nil {
			return worker.Postpone(shareWait, CodeShare).
				WithDetail("not sent: all connections to the provider are in use"), v, ctx.Err()
		}
		defer release()
		if w.opts.Now().Sub(asked) > stale {
			v, m, targets, failure = w.prepare(ctx, e)
		}
	}
	switch {
	case v.Answer != nil:
		return *v.Answer, v, ctx.Err()
	case failure != nil:
		return *failure, v, nil
	}
	r = w.send(with, until, e, m, targets)
	if rank(r.Outcome) <= rank(worker.OutcomeAccepted) {
		return r, v, nil // also if the worker ends, because it was sent
	}
	return r, v, ctx.Err()
}

// reserve waits for the provider of a message, if that sends few at once. Messages to several
// addresses wait in Send: one that held a connection and waited for the next could wait for ever.
func reserve(ctx context.Context, within time.Duration, tenant string, targets []target) (
	with context.Context, release func(), err error,
) {
	if len(targets) == 1 {
		if r, ok := targets[0].provider.(Reserver); ok {
			return r.Reserve(ctx, tenant, within)
		}
	}
	return ctx, func() {}, nil
}

// unreadWait is how long an event is postponed if its address could not be read.
const unreadWait = 30 * time.Second

// prepare asks the preferences, and makes the message that they permit. Without it, either the
// verdict has an answer or there is a failure.
func (w *Worker) prepare(ctx context.Context, e *worker.DueEvent) (v consent.Verdict, m Message, targets []target,
	failure *worker.Result,
) {
	if w.opts.Consent != nil {
		if v = w.opts.Consent.Of(ctx, e); v.Answer != nil {
			return v, m, nil, nil
		}
	}
	p, err := decodePayload(e)
	if err != nil {
		return v, m, nil, new(worker.Fail(CodePayload, err.Error()))
	}
	addresses, err := addressesOf(w.opts.Channel, p.To, v.Preferences)
	switch {
	case err != nil:
		return v, m, nil, new(worker.Fail(CodeInvalidAddress, err.Error()))
	case len(addresses) == 0 && v.Code == consent.CodeUnread && v.Preferences == nil:
		return v, m, nil, new(worker.Postpone(unreadWait, consent.CodeAway).
			WithDetail("not sent: the address is in the preferences, and the preference store does not answer"))
	case len(addresses) == 0:
		return v, m, nil, new(worker.Fail(CodeNoAddress, w.whyNoAddress(e)))
	}
	targets = choose(addresses, w.opts.Providers)
	if r, waits := w.paused(e, targets); waits {
		return v, m, nil, &r
	}
	m, failure = w.message(e, p, v.Preferences)
	return v, m, targets, failure
}

// whyNoAddress says how to add an address.
func (w *Worker) whyNoAddress(e *worker.DueEvent) string {
	if e.User == "" {
		return `the payload has no "to", and the trigger no user_id`
	}
	return fmt.Sprintf(`the payload has no "to", and the user's preferences have no address for %s`, w.opts.Channel)
}

// paused returns a postponement if all providers of an event pause for its tenant.
func (w *Worker) paused(e *worker.DueEvent, targets []target) (worker.Result, bool) {
	var wait time.Duration
	var first string // the provider that may be tried soonest
	for _, t := range targets {
		if t.provider == nil {
			continue
		}
		name := t.provider.Name()
		left := w.pauses.left(name, e.Tenant, t.address.Value, w.opts.Now())
		if left == 0 {
			return worker.Result{}, false
		}
		if wait == 0 || left < wait {
			wait, first = left, name
		}
	}
	if wait == 0 {
		return worker.Result{}, false
	}
	return w.whilePaused(e, first, wait), true
}

func (w *Worker) whilePaused(e *worker.DueEvent, provider string, left time.Duration) worker.Result {
	return worker.Postpone(w.pauses.away(provider, e.Tenant, e.High, w.opts.Now(), left), CodePaused).
		WithDetail("not sent: the provider asked for fewer messages, or does not answer")
}

// message renders an event. failure is the result if that is not possible.
//
// A text without a template ends with the acknowledgement link if its trigger has an escalation,
// from the first step on. Without an escalation the link would stop nothing, and make an SMS
// longer. Data of a push always contain it, and templates may.
func (w *Worker) message(e *worker.DueEvent, p payload, prefs *preferences.Preferences) (m Message,
	failure *worker.Result,
) {
	zone, locale := "", p.Locale
	if prefs != nil {
		zone, locale = prefs.Zone, or(locale, prefs.Locale)
	}
	ack := w.opts.AckURL(e)
	unsubscribe := ""
	if w.opts.Channel == "email" {
		unsubscribe = w.opts.UnsubscribeURL(e)
	}
	var t templates.Text
	if p.TemplateID != "" {
		local, ok := templates.ParseLocalTime(e.LocalTime)
		if !ok {
			local = templates.LocalTimeAt(e.Scheduled, zone, w.opts.Zones())
		}
		var err error
		t, err = w.opts.Templates().Render(p.TemplateID, templates.Input{
			Channel: w.opts.Channel, Locale: locale, User: e.User, Trigger: e.TriggerID(), Type: e.Tags()["type"],
			Title: p.Title, Body: p.Body, DeepLink: p.DeepLink, LocalTime: local, Data: p.TemplateData,
			AckURL: ack, UnsubscribeURL: unsubscribe,
		})
		if err != nil {
			return m, new(templateFailure(err))
		}
	}
	m = compose(w.opts.Channel, e, p, t, locale)
	m.UnsubscribeURL = unsubscribe
	if ack != "" && w.opts.Channel == "push" {
		m.Data["ack_url"] = ack
	}
	if w.opts.Channel == "push" || escalates(e) {
		m.AckURL = ack
	}
	return m, nil
}

// escalates reports whether an event is a step of an escalation. Engines without header wcx-steps
// show that only from the second step on.
func escalates(e *worker.DueEvent) bool {
	_, more := e.Header("wcx-steps")
	return more || e.Step > 0
}

func templateFailure(err error) worker.Result {
	if _, none := errors.AsType[*templates.NotFoundError](err); none {
		return worker.Fail(CodeNoTemplate, err.Error())
	}
	return worker.Fail(CodeTemplate, err.Error())
}

// send sends to every address concurrently, and combines the results.
func (w *Worker) send(
	ctx context.Context, until time.Time, e *worker.DueEvent, m Message, targets []target,
) worker.Result {
	bounded, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	results := make([]worker.Result, len(targets))
	var all sync.WaitGroup
	for i, t := range targets {
		all.Go(func() {
			defer func() {
				if why := recover(); why != nil { // as the kit does for handlers
					w.opts.Logger.Error("a provider panicked", "panic", why)
					results[i] = worker.Retry(0).WithCode(worker.CodePanic).WithDetail("a provider panicked")
				}
			}()
			results[i] = w.sendTo(bounded, e, m, t)
		})
	}
	all.Wait()
	return sum(results)
}

// sendTo sends to one address. m is a copy for this call.
func (w *Worker) sendTo(ctx context.Context, e *worker.DueEvent, m Message, t target) worker.Result {
	if t.provider == nil {
		return worker.Fail(CodeNoProvider,
			fmt.Sprintf("no provider of this worker sends to %s addresses: set providers.%[1]s",
				or(t.address.Provider, w.opts.Channel)))
	}
	name := t.provider.Name()
	if left := w.pauses.left(name, e.Tenant, t.address.Value, w.opts.Now()); left > 0 {
		return w.whilePaused(e, name, left)
	}
	m.Address = t.address.Value
	a := t.provider.Send(ctx, &m)
	switch {
	case a.Throttled && a.MayBeAddress:
		w.pauses.pauseAddress(name, e.Tenant, t.address.Value, w.opts.Now(), a.Result.RetryAfter)
	case a.Throttled:
		w.pauses.pause(name, e.Tenant, w.opts.Now(), a.Result.RetryAfter)
	}
	if a.DeadAddress {
		w.drop(ctx, e, name, t.address)
	}
	return a.Result
}

// dropWithin bounds the deletion of an address. If it fails, the next message finds
// the address dead once more.
const dropWithin = time.Second

// drop deletes a dead address from the preferences.
func (w *Worker) drop(ctx context.Context, e *worker.DueEvent, provider string, a preferences.Address) {
	if w.opts.Book == nil || e.User == "" {
		return
	}
	if a.Channel == "push" && a.Provider == "" {
		a.Provider = provider
	}
	ctx, cancel := context.WithTimeout(ctx, dropWithin)
	defer cancel()
	dropped, err := preferences.DropAddress(ctx, w.opts.Book, preferences.User{Tenant: e.Tenant, ID: e.User}, a)
	switch {
	case err != nil:
		w.opts.Logger.Warn("an invalid address could not be removed from the preferences",
			"provider", provider, "error", err)
	case dropped:
		w.opts.Logger.Info("an invalid address was removed from the preferences", "provider", provider)
	}
}
