package pipeline

import (
	"fmt"

	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Quota limits one tenant; 0 means no limit.
type Quota struct {
	Rate       float64 // registers per second
	MaxPending int64
}

// quotas enforces the limits of tenants, also of those that write to Kafka directly. Every
// partition enforces its P-th share alone. Keys spread evenly, so a tenant with many
// triggers meets its limit within a few percent. A tenant whose keys all fall on one
// partition meets it at a P-th. A share is at least one trigger, and one register a second
// in bursts of ten seconds.
type quotas struct {
	of      func(tenant string) Quota
	share   float64
	pending map[string]int64 // number of triggers, by tenant with a limit
	buckets map[string]*bucket
}

// bucket is a token bucket on the brokers' clock. A register counts at its append time, so
// a backlog is judged by its arrival and not by its reading.
type bucket struct {
	tokens float64
	last   trigger.Instant
}

// These bound the buckets.
const (
	burst      = 10 // seconds of the rate
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

// count finds how many triggers the tenants with a limit have pending.
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

// moved counts a trigger of a tenant that begins or ends.
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

// admit reports whether a tenant may register a trigger now, and else names the limit that
// is met. known says that the trigger exists already: a replacement adds nothing.
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

// QuotaLimits lists the limits that can refuse a register.
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
