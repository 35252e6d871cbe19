package webhook

import (
	"container/list"
	"math"
	"sync"
	"time"

	"github.com/failsafe-go/failsafe-go/circuitbreaker"

	"github.com/waterclock/waterclock/internal/returns"
)

// Breaker configures when requests to an endpoint stop.
type Breaker struct {
	Failures float64       // it opens above this share of failures …
	Requests uint          // … of at least so many …
	Window   time.Duration // … in this time
	Open     time.Duration // and then nothing is sent for this long
	Returns  float64       // events a second that come back to it afterwards
}

// DefaultBreaker is the breaker of the contract.
var DefaultBreaker = Breaker{
	Failures: 0.5, Requests: 20, Window: 30 * time.Second, Open: time.Minute, Returns: returns.PerSecond,
}

// probes is how many requests a half-open breaker permits at a time. It closes if most of them
// succeed.
const probes = 5

// State is the state of a breaker.
type State string

// The states of a breaker.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// endpoint is an origin as one tenant calls it.
type endpoint struct {
	tenant, origin string
	listed         *list.Element // in endpoints.order

	mu       sync.Mutex
	breaker  circuitbreaker.CircuitBreaker[any]
	returns  returns.Queue
	changes  int // number of state changes: a result counts only in the state in which its request began
	permits  int // requests that began in this state and have not ended
	inFlight int
	ok       int64
	failed   int64
	lastCode string
	calledAt time.Time // when lastCode was found
	now      func() time.Time

	// What was last published, and when.
	published Status
	at        time.Time
}

func newEndpoint(tenant, origin string, b Breaker) *endpoint {
	e := &endpoint{tenant: tenant, origin: origin, now: time.Now}
	e.breaker = circuitbreaker.NewBuilder[any]().
		// The library opens at the threshold; we open only above it.
		WithFailureRateThreshold(math.Nextafter(b.Failures, 2), b.Requests, b.Window).
		WithDelay(b.Open).
		WithSuccessThresholdRatio(probes/2+1, probes).
		OnStateChanged(func(circuitbreaker.StateChangedEvent) { // mu is held
			e.changes++
			e.permits = 0
		}).
		Build()
	return e
}

// permit is the right to send one request. It must be returned.
type permit struct {
	endpoint *endpoint
	changes  int
}

// enter requests a permit. If the breaker refuses, wait is the time until it may permit one.
func (e *endpoint) enter() (p permit, wait time.Duration, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.breaker.TryAcquirePermit() {
		return permit{}, e.breaker.RemainingDelay(), false
	}
	e.inFlight++
	e.permits++
	return permit{e, e.changes}, 0, true
}

// mayEnter reports whether enter would get a permit now. It takes none.
func (e *endpoint) mayEnter() (wait time.Duration, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.breaker.IsHalfOpen():
		return 0, e.permits < probes
	case e.breaker.IsOpen():
		wait = e.breaker.RemainingDelay()
		return wait, wait <= 0
	}
	return 0, true
}

// postpone returns how long an event that is not sent stays away, at least so long.
func (e *endpoint) postpone(now time.Time, high bool, least time.Duration, perSecond float64) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.returns.After(now, high, least, perSecond)
}

// pause notes that the settings forbid a request.
func (e *endpoint) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.lastCode != CodePaused { // else it would be news every few seconds
		e.found(CodePaused)
	}
}

// found notes the code of the last call. mu is held.
func (e *endpoint) found(code string) {
	e.lastCode, e.calledAt = code, e.now().UTC().Truncate(time.Millisecond)
}

// outcome is what the result of a request means for its endpoint.
type outcome int

const (
	good    outcome = iota // the endpoint works
	bad                    // it does not
	nothing                // the request was abandoned, or not sent
)

// leave returns a permit.
func (p permit) leave(o outcome, code string) {
	e := p.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	e.inFlight--
	switch o {
	case good:
		e.ok++
	case bad:
		e.failed++
	case nothing:
	}
	if o != nothing {
		e.found(code)
	}
	if e.changes != p.changes {
		return
	}
	e.permits--
	switch {
	case o == good:
		e.breaker.RecordSuccess()
	case o == bad, e.breaker.IsHalfOpen(): // a probe without a result would otherwise never be returned
		e.breaker.RecordFailure()
	}
}

// Status is the published state of an endpoint.
type Status struct {
	Tenant, Origin string
	State          State
	InFlight       int
	OK, Failed     int64 // since this process started to track it
	LastCode       string
	Until          time.Time // when an open breaker lets probes out; zero unless it is open
	CalledAt       time.Time // when LastCode was found
}

func (e *endpoint) status(now time.Time) Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := Status{
		Tenant: e.tenant, Origin: e.origin, State: Closed, InFlight: e.inFlight, OK: e.ok, Failed: e.failed,
		LastCode: e.lastCode, CalledAt: e.calledAt,
	}
	switch {
	case e.breaker.IsHalfOpen():
		s.State = HalfOpen
	case e.breaker.IsOpen():
		if left := e.breaker.RemainingDelay(); left > 0 {
			s.State, s.Until = Open, now.Add(left).UTC().Truncate(time.Millisecond)
		} else {
			s.State = HalfOpen // the next request is a probe
		}
	}
	return s
}

// idle reports whether the endpoint can be dropped without losing information.
func (e *endpoint) idle() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inFlight == 0 && e.breaker.IsClosed()
}

func (e *endpoint) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.inFlight > 0
}
