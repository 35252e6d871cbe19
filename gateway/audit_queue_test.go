package gateway

import (
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

func auditOf(tenant string, weight auditWeight) *auditEntry {
	return &auditEntry{record: topics.Audit{Tenant: tenant}, weight: weight}
}

// However much one tenant does, another's record is behind those that are under way, and one of
// each other tenant. A tenant's own keep their order.
func TestAuditQueueTakesTurns(t *testing.T) {
	q := &auditQueue{}
	flood := make([]*auditEntry, 10*auditInFlight)
	var inFlight []*auditEntry
	next := func() {
		if e := q.next(); e != nil {
			inFlight = append(inFlight, e)
		}
	}
	for i := range flood {
		flood[i] = auditOf("flood", auditMust)
		q.take(flood[i])
		next()
	}
	if len(inFlight) != auditInFlight {
		t.Fatalf("%d are under way, want %d", len(inFlight), auditInFlight)
	}
	others := []*auditEntry{auditOf("a", auditMust), auditOf("b", auditOnce)}
	for _, e := range others {
		q.take(e)
		next()
	}
	for answered := 0; answered < len(inFlight); { // Kafka answers one by one, and more is sent
		e := inFlight[answered]
		answered++
		q.landed(e, true)
		next()
		q.end(e)
	}
	if len(inFlight) != len(flood)+len(others) || len(q.tenants) != 0 || len(q.turns) != 0 || q.inFlight != 0 {
		t.Fatalf("%d were sent; left is %+v", len(inFlight), q)
	}
	own := 0
	for i, e := range inFlight {
		switch e {
		case others[0], others[1]:
			if i > auditInFlight+len(others) {
				t.Errorf("another tenant's record was number %d", i)
			}
		case flood[own]:
			own++
		default:
			t.Fatalf("number %d is out of order", i)
		}
	}
}

// A record that is late behind the tenant's own stops that tenant; one that Kafka does not take
// stops all.
func TestAuditQueueKnowsWhoIsLate(t *testing.T) {
	q := &auditQueue{}
	var sent []*auditEntry
	for range auditInFlight + 2 {
		q.take(auditOf("flood", auditMust))
		if e := q.next(); e != nil {
			sent = append(sent, e)
		}
	}
	waiting := q.tenants["flood"].waiting
	if got := q.lateness(waiting[0]); got != auditLateAll {
		t.Errorf("nothing was written, and the lateness is %d", got)
	}
	q.landed(sent[0], true)
	q.end(sent[0])
	for i, want := range []bool{true, false} { // one line in the log is enough
		if why := q.lateness(waiting[i]); why != auditLateOwn || q.mark(waiting[i], why) != want {
			t.Errorf("number %d: the lateness is %d", i, why)
		}
	}
	if !q.full("flood") || q.full("other") || q.late != 0 {
		t.Errorf("flood %t, other %t, all %d", q.full("flood"), q.full("other"), q.late)
	}
	if q.mark(sent[1], auditLateAll); q.mark(sent[1], auditLateAll) || q.late != 1 {
		t.Errorf("late for all: %d", q.late)
	}
	q.end(sent[1])
	for _, e := range []*auditEntry{waiting[0], waiting[1]} {
		q.end(e)
	}
	if q.full("flood") || q.late != 0 {
		t.Errorf("it is over, and flood is full: %t; late for all: %d", q.full("flood"), q.late)
	}
}

// A tenant's records are bounded: beyond that its acts are refused, and what need not be written
// is not taken. An act that was done is.
func TestAuditQueueIsBounded(t *testing.T) {
	q := &auditQueue{}
	for range maxPendingAudit {
		if q.full("flood") || !q.take(auditOf("flood", auditLight)) {
			t.Fatal("it is full too early")
		}
	}
	if !q.full("flood") || q.full("other") {
		t.Errorf("flood %t, other %t", q.full("flood"), q.full("other"))
	}
	got := fmt.Sprint(q.take(auditOf("flood", auditLight)), q.take(auditOf("flood", auditSpare)),
		q.take(auditOf("flood", auditMust)), q.take(auditOf("other", auditLight)))
	if got != "false false true true" {
		t.Errorf("taken: %s", got)
	}
}

// A record that is tried anew goes before those that came after it.
func TestAuditQueueRetries(t *testing.T) {
	q := &auditQueue{}
	first, second := auditOf("a", auditMust), auditOf("a", auditMust)
	q.take(first)
	q.next()
	q.take(second)
	q.landed(first, false)
	q.retry(first)
	if got := []*auditEntry{q.next(), q.next()}; got[0] != first || got[1] != second {
		t.Error("the order is not that in which they came")
	}
}
