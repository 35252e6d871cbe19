package gateway

import "slices"

// auditQueue decides which record of topic audit is written next. Tenants take turns, and few
// records are under way at once: so whoever does much waits for its own records, and a record of
// another tenant has at most auditInFlight records and one of each other tenant before it.
type auditQueue struct {
	tenants  map[string]*auditTenant // those with records that are not done with
	turns    []*auditTenant          // those with records that wait, whose turn it is first
	inFlight int                     // records that Kafka has, and has not answered
	written  int64
	late     int // records that should be written by now, and the topic takes none
}

// auditTenant is what a tenant has in the queue.
type auditTenant struct {
	waiting []*auditEntry
	pending int // records that are not done with: waiting, under way, or to be tried anew
	late    int // those that should be written by now, and stand behind the tenant's own
}

const (
	auditInFlight = 128
	// maxPendingAudit of a tenant: then its acts are refused, and what need not be on record is
	// dropped. A batch has a quarter of it undecided at once.
	maxPendingAudit = 16_384
)

// auditLateness says why a record is late.
type auditLateness uint8

const (
	auditInTime  auditLateness = iota
	auditLateOwn               // others were written meanwhile: the tenant has too many
	auditLateAll               // the topic takes no records
)

// take puts a record behind the tenant's others. It does not take one that need not be written,
// if the tenant has too many.
func (q *auditQueue) take(e *auditEntry) bool {
	t := q.tenants[e.record.Tenant]
	if t == nil {
		if q.tenants == nil {
			q.tenants = map[string]*auditTenant{}
		}
		t = &auditTenant{}
		q.tenants[e.record.Tenant] = t
	}
	if t.pending >= maxPendingAudit && e.weight != auditMust {
		return false
	}
	t.pending++
	e.tenant, e.writtenBefore = t, q.written
	q.wait(t)
	t.waiting = append(t.waiting, e)
	return true
}

// retry puts a record that was under way before the tenant's others.
func (q *auditQueue) retry(e *auditEntry) {
	q.wait(e.tenant)
	e.tenant.waiting = slices.Insert(e.tenant.waiting, 0, e)
}

// wait gives a tenant a turn, if it has none yet.
func (q *auditQueue) wait(t *auditTenant) {
	if len(t.waiting) == 0 {
		q.turns = append(q.turns, t)
	}
}

// next is the record to send now; nil if there is none, or enough are under way. One call for
// each take, retry and landed leaves no record waiting that could go.
func (q *auditQueue) next() *auditEntry {
	if len(q.turns) == 0 || q.inFlight >= auditInFlight {
		return nil
	}
	t := q.turns[0]
	q.turns = q.turns[1:]
	e := t.waiting[0]
	if t.waiting[0], t.waiting = nil, t.waiting[1:]; len(t.waiting) > 0 {
		q.turns = append(q.turns, t)
	}
	e.inFlight = true
	q.inFlight++
	return e
}

// landed notes that Kafka has answered.
func (q *auditQueue) landed(e *auditEntry, written bool) {
	e.inFlight = false
	q.inFlight--
	if written {
		q.written++
	}
}

// end forgets a record: it is written, or never will be.
func (q *auditQueue) end(e *auditEntry) {
	t := e.tenant
	if t == nil {
		return // it was not taken
	}
	switch e.late {
	case auditLateAll:
		q.late--
	case auditLateOwn:
		t.late--
	case auditInTime:
	}
	e.tenant, e.late = nil, auditInTime
	if t.pending--; t.pending == 0 {
		delete(q.tenants, e.record.Tenant)
	}
}

// lateness says why a record is late that should be written by now.
func (q *auditQueue) lateness(e *auditEntry) auditLateness {
	if !e.inFlight && q.written > e.writtenBefore {
		return auditLateOwn
	}
	return auditLateAll
}

// mark counts a record as late. first is false if it was, or if others of the tenant are, and it
// stands behind them.
func (q *auditQueue) mark(e *auditEntry, why auditLateness) (first bool) {
	switch {
	case e.tenant == nil || e.late != auditInTime:
		return false
	case why == auditLateAll:
		q.late++
		first = true
	default:
		first = e.tenant.late == 0
		e.tenant.late++
	}
	e.late = why
	return first
}

// full reports whether a tenant has too many records that are not written.
func (q *auditQueue) full(tenant string) bool {
	t := q.tenants[tenant]
	return t != nil && (t.late > 0 || t.pending >= maxPendingAudit)
}
