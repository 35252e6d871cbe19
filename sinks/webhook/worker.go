package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/time/rate"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/internal/returns"
	"github.com/waterclock/waterclock/internal/shares"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/sinks/consent"
)

// Channel is the channel that this worker serves.
const Channel = "webhook"

// Options configure a worker.
type Options struct {
	// Kafka is the connection to the brokers: seeds, TLS, SASL, dialers.
	Kafka []kgo.Opt
	// Kit are options of the worker kit: prefix, group, topic, memory, metrics.
	Kit []worker.Option

	// Policy decides which URLs a tenant may call. Transport sends requests; it is an
	// egress.Transport of the same policy.
	Policy    *egress.Policy
	Transport http.RoundTripper

	// Keys returns a tenant's current signing keys. nil signs nothing.
	Keys func(tenant string) Keys
	// Origin returns the settings of an origin. It may change them at any time. nil means none.
	Origin func(origin string) Origin
	// Live asks the owner whether a due event is still to be delivered, for callback.recheck. If
	// nil, the check is not possible.
	Live func(ctx context.Context, e *worker.DueEvent) (bool, error)

	// Consent decides by the users' preferences. nil sends without them.
	Consent *consent.Gate

	// Publish receives the state of endpoints. nil publishes nothing.
	Publish Publisher

	Concurrency  int     // concurrent requests. 0 means 1,024
	PerEndpoint  int     // concurrent requests to one endpoint. 0 means 100
	Waiting      int     // further events of one endpoint that wait in this process. 0 means 200
	MaxEndpoints int     // endpoints in memory; at least Concurrency. 0 means 10,000
	AnswerLimit  int64   // bytes of an answer that are read. 0 means 1 MiB
	Breaker      Breaker // zero means DefaultBreaker

	UserAgent string
	Logger    *slog.Logger
	Now       func() time.Time // nil means time.Now
}

// Origin has the settings of one origin, for all tenants.
type Origin struct {
	Headers http.Header // sent with each request
	Rate    float64     // requests per second from this process; 0: no bound
	Paused  bool        // nothing is sent
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 1024)
	o.PerEndpoint = cmp.Or(o.PerEndpoint, 100)
	o.Waiting = cmp.Or(o.Waiting, 200)
	o.MaxEndpoints = max(cmp.Or(o.MaxEndpoints, 10_000), o.Concurrency)
	o.AnswerLimit = cmp.Or(o.AnswerLimit, 1<<20)
	o.UserAgent = cmp.Or(o.UserAgent, "Waterclock")
	if o.Breaker == (Breaker{}) {
		o.Breaker = DefaultBreaker
	}
	if o.Policy == nil {
		o.Policy = new(egress.Policy)
	}
	if o.Keys == nil {
		o.Keys = func(string) Keys { return nil }
	}
	if o.Origin == nil {
		o.Origin = func(string) Origin { return Origin{} }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Worker posts the due events of channel webhook.
type Worker struct {
	opts      Options
	endpoints *endpoints
	shares    *shares.Shares

	mu     sync.Mutex
	limits map[string]*limit         // by origin; only origins that have or had a rate in the settings
	shared map[string]*returns.Queue // by tenant: what its share holds up
	kept   int                       // how many of shared were not idle when that was last checked
}

// limit is the rate of an origin. It is one for all tenants, and so is what it holds up.
type limit struct {
	*rate.Limiter
	returns returns.Queue // Worker.mu guards it
}

// keepIdle is how long an endpoint without calls is kept in memory.
const keepIdle = 10 * time.Minute

// New makes a worker. Run runs it.
func New(o Options) (*Worker, error) {
	if o.Transport == nil {
		return nil, errors.New("webhook: Transport is required: no connection may bypass its checks")
	}
	o = o.withDefaults()
	return &Worker{
		opts: o, endpoints: newEndpoints(o.Breaker, o.MaxEndpoints, keepIdle, o.Now),
		shares: shares.New(o.Concurrency, o.Now),
		limits: map[string]*limit{}, shared: map[string]*returns.Queue{},
	}, nil
}

// handleWithin is longer than the longest request, including the recheck.
const handleWithin = maxTimeout + recheckWithin + 10*time.Second

// Run works until ctx ends, and then finishes running requests.
func (w *Worker) Run(ctx context.Context) error {
	o := &w.opts
	opts := append([]worker.Option{
		worker.Kafka(o.Kafka...), worker.Concurrency(o.Concurrency), worker.HandlerTimeout(handleWithin),
		worker.Logger(o.Logger),
		worker.PerGroup(worker.Bulkhead{
			Group: groupOf, InFlight: o.PerEndpoint, Waiting: o.Waiting, Overflow: w.overflow,
			Slow: w.slow,
		}),
	}, o.Kit...)
	if o.Consent != nil {
		opts = append(opts, worker.OnBatch(o.Consent.OnBatch))
	}
	publishing, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.publishLoop(publishing)
	}()
	err := worker.Run(ctx, Channel, w.Handle, opts...)
	stop()
	<-done
	return err
}

// Status returns the endpoints of this process, most recently used first.
func (w *Worker) Status() []Status {
	all := w.endpoints.all()
	out := make([]Status, len(all))
	for i, e := range all {
		out[i] = e.status(w.opts.Now())
	}
	return out
}

// The minimum wait of an event that is not sent. The engine adds a spread of at least 5 s.
const (
	soon     = time.Second
	pausedBy = time.Minute
	// rateWait bounds how long a request waits here for its turn under a rate. For longer waits
	// the event is postponed, and the engine waits.
	rateWait = time.Second
)

// overflow is the result of an event that finds too many waiting for its endpoint.
func (w *Worker) overflow(e *worker.DueEvent) worker.Result {
	away := soon
	if c, err := callbackOf(e); err == nil {
		away = w.away(e, c.origin, soon)
	}
	return worker.Postpone(away, CodeFull).WithDetail("not sent: too many calls to the endpoint wait already")
}

// slow is the result of an event that makes room for those behind it.
func (w *Worker) slow(e *worker.DueEvent) worker.Result {
	return worker.Postpone(w.awayOf(e), CodeShare).
		WithDetail("not sent: the tenant's calls are slow, and events of others may be behind those that wait")
}

// Handle handles one due event. An event that the user's preferences forbid is not sent.
func (w *Worker) Handle(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
	gate := w.opts.Consent
	if gate == nil {
		return w.deliver(ctx, e)
	}
	if v := gate.Of(ctx, e); v.Answer != nil {
		return *v.Answer, ctx.Err()
	}
	r, err := w.deliver(ctx, e)
	if err == nil {
		gate.After(ctx, e, r)
	}
	return r, err
}

// deliver sends a due event that the preferences permit, unless the settings or its endpoint
// prevent it.
func (w *Worker) deliver(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
	c, err := callbackOf(e)
	if err != nil {
		return worker.Fail(CodeNoCallback, err.Error()), nil
	}
	if err := w.opts.Policy.CheckURL(e.Tenant, c.text, c.url); err != nil {
		return worker.Fail(CodeURL, reason(err)), nil
	}
	origin := c.origin
	about := w.opts.Origin(origin)
	if about.Paused {
		w.endpoints.get(e.Tenant, origin).pause()
		return worker.Postpone(w.away(e, origin, pausedBy), CodePaused).
			WithDetail("not sent: endpoints." + origin + ".paused is true"), nil
	}
	// Before its turn, because the turns are those of all tenants.
	if wait, ok := w.endpoints.get(e.Tenant, origin).mayEnter(); !ok {
		return w.notSentOpen(e, origin, wait), nil
	}
	if !w.shares.Enter(ctx, e.Tenant) {
		return worker.Postpone(w.awayOf(e), CodeShare).
			WithDetail("not sent: the tenant has its share of webhook.concurrency under way"), ctx.Err()
	}
	defer w.shares.Leave(e.Tenant)
	if wait, ok := w.turn(ctx, origin, about.Rate); !ok {
		return worker.Postpone(w.heldUp(e, origin, wait, about.Rate), CodeRate).
			WithDetail(fmt.Sprintf("not sent: endpoints.%s.rate is %g a second", origin, about.Rate)), ctx.Err()
	}
	if c.recheck {
		if r, done := w.recheck(ctx, e); done {
			return r, ctx.Err()
		}
	}
	var v consent.Verdict // read anew, because it may have waited for its turn
	if w.opts.Consent != nil {
		if v = w.opts.Consent.Of(ctx, e); v.Answer != nil {
			return *v.Answer, ctx.Err()
		}
	}
	p, wait, ok := w.endpoints.get(e.Tenant, origin).enter()
	if !ok {
		return w.notSentOpen(e, origin, wait), nil
	}
	r, err := w.call(ctx, e, c, about, p)
	return v.Sent(r), err
}

// away returns how long an event that is not sent to an endpoint stays away, at least so long.
func (w *Worker) away(e *worker.DueEvent, origin string, least time.Duration) time.Duration {
	return w.endpoints.get(e.Tenant, origin).postpone(w.opts.Now(), e.High, least, w.opts.Breaker.Returns)
}

// awayOf returns how long an event stays away because its tenant has its share.
func (w *Worker) awayOf(e *worker.DueEvent) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.opts.Now()
	q := w.shared[e.Tenant]
	if q == nil {
		if len(w.shared) >= max(2*w.kept, 64) {
			maps.DeleteFunc(w.shared, func(_ string, q *returns.Queue) bool { return q.Idle(now) })
			w.kept = len(w.shared)
		}
		q = &returns.Queue{}
		w.shared[e.Tenant] = q
	}
	return q.After(now, e.High, soon, w.opts.Breaker.Returns)
}

// notSentOpen is the result of an event that an open breaker holds up.
func (w *Worker) notSentOpen(e *worker.DueEvent, origin string, wait time.Duration) worker.Result {
	return worker.Postpone(w.away(e, origin, max(wait, soon)), CodeOpen).
		WithDetail("not sent: most of the last calls to the endpoint failed")
}

// reason returns why a URL is not called.
func reason(err error) string {
	if e, ok := errors.AsType[*egress.Error](err); ok {
		return e.Reason
	}
	return err.Error()
}

// call sends the request. It returns the permit in every case.
func (w *Worker) call(ctx context.Context, e *worker.DueEvent, c callback, about Origin, p permit) (
	r worker.Result, err error,
) {
	o := nothing
	defer func() { p.leave(o, r.Code) }()
	req, err := build(e, c, Settings{
		Keys: w.opts.Keys(e.Tenant), Headers: about.Headers, UserAgent: w.opts.UserAgent, Now: w.opts.Now(),
		TraceParent: tracing.In(ctx).TraceParent(),
	})
	if err != nil {
		return worker.Result{}, err
	}
	a := w.send(egress.WithTenant(ctx, e.Tenant), req)
	if a.Err != nil && ctx.Err() != nil {
		return worker.Result{}, ctx.Err() // the worker ends; another one gets the event
	}
	r, failed := decide(a, w.opts.Now())
	switch {
	case failed:
		o = bad
	case a.Err == nil:
		o = good
	}
	return r, nil
}

// turn waits for a request's turn under its origin's rate, if that is soon. Otherwise wait is the
// time until then.
func (w *Worker) turn(ctx context.Context, origin string, perSecond float64) (wait time.Duration, ok bool) {
	if perSecond <= 0 {
		return 0, true
	}
	reserved := w.limiter(origin, perSecond).Reserve()
	wait = reserved.Delay()
	if wait > rateWait {
		reserved.Cancel()
		return wait, false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return 0, false
	case <-timer.C:
		return 0, true
	}
}

// heldUp returns how long an event that found no turn stays away, at least so long. Events come back
// at twice the rate, so that it is used up although the engine adds a spread.
func (w *Worker) heldUp(e *worker.DueEvent, origin string, least time.Duration, perSecond float64) time.Duration {
	l := w.limiter(origin, perSecond)
	w.mu.Lock()
	defer w.mu.Unlock()
	return l.returns.After(w.opts.Now(), e.High, least, min(2*perSecond, w.opts.Breaker.Returns))
}

// limiter returns the rate limiter of an origin, for all tenants. There are as many as origins in
// the settings.
func (w *Worker) limiter(origin string, perSecond float64) *limit {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.limits[origin]
	if l == nil {
		l = &limit{Limiter: rate.NewLimiter(rate.Limit(perSecond), 1)}
		w.limits[origin] = l
	}
	if l.Limit() != rate.Limit(perSecond) { // the setting has changed
		l.SetLimit(rate.Limit(perSecond))
		l.returns = returns.Queue{} // its places are those of the old rate
	}
	return l
}

// recheckWithin bounds the owner's answer to a recheck.
const recheckWithin = 5 * time.Second

// recheck asks the owner if the trigger requests it. done reports that nothing is to be sent.
func (w *Worker) recheck(ctx context.Context, e *worker.DueEvent) (r worker.Result, done bool) {
	if w.opts.Live == nil {
		return r, false
	}
	ctx, cancel := context.WithTimeout(ctx, recheckWithin)
	defer cancel()
	live, err := w.opts.Live(ctx, e)
	switch {
	case err != nil:
		// It is not sent, because a user of the check wants no call after a cancel.
		return worker.Postpone(soon, CodeRecheck).
			WithDetail("not sent: callback.recheck is true, and the trigger's owner does not answer"), true
	case !live:
		return worker.Suppress(CodeCancelled).WithDetail("not sent: cancelled meanwhile"), true
	}
	return r, false
}
