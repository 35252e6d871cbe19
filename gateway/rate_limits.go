package gateway

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// rateLimits bounds the commands per second of each tenant, or what its reads visit, with
// bursts of some seconds' worth. It counts per instance.
type rateLimits struct {
	of    func(tenant string) float64
	burst float64 // seconds
	now   func() time.Time

	mu sync.Mutex
	by map[string]*rate.Limiter
}

func newRateLimits(of func(string) float64, burst float64, now func() time.Time) *rateLimits {
	return &rateLimits{of: of, burst: burst, now: now, by: map[string]*rate.Limiter{}}
}

// untilRoom is when to come back where only the caller can make room: a clock does not.
const untilRoom = time.Minute

// maxRateLimits bounds the tenants that are counted, because an issuer may name any number.
const maxRateLimits = 10_000

// take takes one command, or returns when to come back.
func (l *rateLimits) take(tenant string) *problem.Problem {
	limiter := l.limiter(tenant)
	if limiter == nil {
		return nil
	}
	now := l.now()
	r := limiter.ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return problem.TooMany(trigger.CodeQuotaExceeded, "the tenant's limit rate (commands a second) is reached", wait)
}

func (l *rateLimits) limiter(tenant string) *rate.Limiter {
	perSecond := l.of(tenant)
	if perSecond <= 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	limiter := l.by[tenant]
	if limiter == nil {
		if len(l.by) >= maxRateLimits {
			clear(l.by)
		}
		limiter = rate.NewLimiter(rate.Limit(perSecond), max(1, int(math.Ceil(perSecond*l.burst))))
		l.by[tenant] = limiter
	}
	return limiter
}
