package pipeline

import (
	"fmt"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Quota is what one tenant may do; 0 is no bound.
type Quota struct {
	Rate       float64 // registers a second
	MaxPending int64
}

// quotas hold tenants to their bounds, also those who write to Kafka directly.
// Every partition enforces its share, a P-th, by itself: keys spread evenly,
// so a tenant with many triggers meets its bound within a few percent, while
// one whose keys all fall on one partition meets it at a P-th. A share is at
// least one trigger, and one register a second in bursts of ten seconds.
type quotas struct {
	of      func(tenant string) Quota
	share   float64
	pending map[string]int64 // of tenants with a bound
	buckets map[string]*bucket
}

// bucket is a token bucket on the brokers' clock: the time of a register is
// its append, so that a backlog is judged as it came, not as it is read.
type bucket struct {
	tokens float64
	last   trigger.Instant
}

// Bounds of buckets.
const (
	burst      = 10 // seconds of rate
	maxBuckets = 10_000
)

func newQuotas(o *Process) *quotas {
	if o.Quota == nil {
		return nil
	}
	return &quotas{
		of: o.Quota, share: 1 / float64(o.Partitions), pending: map[string]int64{},
		buckets: map[string]*bucket{},
	}
}

// count finds out what tenants with a bound have pending.
func (q *quotas) count(sn *statestore.Snapshot) error {
	if q == nil {
		return nil
	}
	var bad error
	err := sn.Scan("", func(key trigger.Key, value []byte) bool {
		tenant := key.Tenant()
		if q.of(tenant).MaxPending == 0 {
			return true
		}
		s, err := topics.DecodeState(key, value)
		if bad = err; err != nil {
			return false
		}
		q.moved(tenant, 0, s.Status)
		return true
	})
	if bad != nil {
		return bad
	}
	return err
}

// moved notes that a trigger of a tenant came to life or ended.
func (q *quotas) moved(tenant string, was, is trigger.Status) {
	if q == nil || alive(was) == alive(is) || q.of(tenant).MaxPending == 0 {
		return
	}
	if alive(is) {
		q.pending[tenant]++
	} else {
		q.pending[tenant]--
	}
}

func alive(s trigger.Status) bool { return s != 0 && !s.Finished() }

// admit says whether a tenant may register one more trigger now. known says
// that the trigger lives already: replacing it adds nothing. The limit that is
// met comes with its name.
func (q *quotas) admit(tenant string, appended trigger.Instant, known bool) (limit string, err *trigger.Error) {
	if q == nil {
		return "", nil
	}
	bound := q.of(tenant)
	if most := max(1, int64(float64(bound.MaxPending)*q.share)); bound.MaxPending > 0 && !known &&
		q.pending[tenant] >= most {
		return limitPending, quotaError(tenant, limitPending, fmt.Sprint(bound.MaxPending))
	}
	if bound.Rate > 0 && !q.spend(tenant, max(1, bound.Rate*q.share), appended) {
		return limitRate, quotaError(tenant, limitRate, fmt.Sprint(bound.Rate)+" registers a second")
	}
	return "", nil
}

// QuotaLimits are the limits of a tenant that refuse registers.
var QuotaLimits = []string{limitRate, limitPending}

const (
	limitRate    = "rate"
	limitPending = "max_pending"
)

func quotaError(tenant, limit, value string) *trigger.Error {
	return &trigger.Error{
		Code: trigger.CodeQuotaExceeded,
		Msg:  fmt.Sprintf("tenant %s is at its limit tenants.%s.%s, %s", tenant, tenant, limit, value),
	}
}

func (q *quotas) spend(tenant string, rate float64, at trigger.Instant) bool {
	b := q.buckets[tenant]
	if b == nil {
		if len(q.buckets) >= maxBuckets {
			clear(q.buckets)
		}
		b = &bucket{tokens: rate * burst, last: at}
		q.buckets[tenant] = b
	}
	if at > b.last {
		b.tokens = min(rate*burst, b.tokens+rate*at.Sub(b.last).Seconds())
		b.last = at
	}
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
