package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/topics"
)

// auditLog writes topic audit: who did what over HTTP.
//
// # Promises
//
//   - The answer to an act waits for its record, for at most within. An answer that goes out
//     without it says so in a header.
//   - A record that is not written is tried again until it is. Meanwhile acts are refused, so
//     what can be done unrecorded is what was under way when the topic stopped taking records.
//   - Tenants take turns (auditQueue). Who does more than is written is refused, and nobody else.
//   - No answer waits for the record of a register: it is an event anyway.
//   - Where no audit was ever set up (no topic, no right to write it), acts are not refused: a
//     cluster that is being upgraded goes on. The log has the records, and /readyz a note.
//   - A topic that was deleted and made again is used within seconds.
//   - A record may stand twice on the topic, if Kafka took it and did not say so in time.
type auditLog struct {
	kafka    *producer.Producer
	listener Listener
	log      *slog.Logger
	now      func() time.Time
	topic    string
	within   time.Duration // how long an answer waits for its record

	mu       sync.Mutex
	queue    auditQueue
	worked   bool      // it has taken a record
	unset    error     // why there is no audit; nil: there is one, as far as known
	unsetTry time.Time // when it was tried last
	adopting bool      // the producer is made to forget the topic
	adopted  int       // how often it was
}

const (
	// auditAnswer is the header of an answer that does not wait for its record any more.
	auditAnswer  = "Waterclock-Audit"
	auditLate    = "late"    // the record is tried again until it is written
	auditMissing = "missing" // there is no audit topic
)

// Between two tries of a record, the second where this process has too many records of all topics
// under way; and between two looks for a topic that does not exist.
const (
	auditRetry   = time.Second
	auditRefill  = 20 * time.Millisecond
	auditRecheck = 10 * time.Second
)

var (
	errNoAudit   = errors.New("there is no audit topic, or no right to write it")
	errAuditLate = errors.New("the audit topic has not taken the record in time")
	errAuditFull = errors.New("too many records of the tenant are not written")
)

// auditWeight says what becomes of a record that cannot be written.
type auditWeight uint8

const (
	auditLight auditWeight = iota // a register: it is dropped, and counted
	auditOnce                     // a refused attempt: it is dropped
	auditSpare                    // an act that may have been done: it is tried again
	auditMust                     // an act: it is tried again, and no other act is taken meanwhile
)

// auditEntry is a record under way.
type auditEntry struct {
	record topics.Audit
	weight auditWeight
	done   chan struct{} // closed when it is written, or never will be
	err    error         // why it never will be; set before done is closed

	// The rest is the queue's.

	tenant        *auditTenant // nil: it is not in the queue
	inFlight      bool         // Kafka has it
	late          auditLateness
	writtenBefore int64 // how many were written when it came
}

// write begins to write a record.
func (l *auditLog) write(a topics.Audit, weight auditWeight) *auditEntry {
	e := &auditEntry{record: a, weight: weight, done: make(chan struct{})}
	l.mu.Lock()
	if l.unset != nil && l.now().Sub(l.unsetTry) < auditRecheck {
		l.mu.Unlock()
		l.end(e, errNoAudit)
		return e
	}
	l.unsetTry = l.now()
	taken := l.queue.take(e)
	next := l.queue.next()
	l.mu.Unlock()
	l.send(next)
	if !taken {
		l.end(e, errAuditFull)
	}
	return e
}

// send writes a record, if there is one.
func (l *auditLog) send(e *auditEntry) {
	if e == nil {
		return
	}
	l.mu.Lock()
	adopted := l.adopted
	l.mu.Unlock()
	rec := &kgo.Record{Topic: l.topic, Key: e.record.Key(), Value: e.record.Value()}
	l.kafka.TryProduce(context.Background(), rec, func(_ *kgo.Record, err error) {
		if errors.Is(err, kerr.UnknownTopicID) {
			l.adopt(adopted)
		}
		l.sent(e, err)
	})
}

// adopt makes the producer take the topic that stands in for one that was deleted. A client stays
// with the topic that it knew, and refuses every record, until it is made to forget it. adopted
// is what a record was sent under: those that were refused for the same reason count once, so that
// records which the new topic already has are not numbered from 0 a second time.
func (l *auditLog) adopt(adopted int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.adopting || adopted != l.adopted {
		return
	}
	l.adopting = true
	go func() { // it waits for the client, whose promises must not wait
		l.kafka.Client().PurgeTopicsFromProducing(l.topic)
		l.mu.Lock()
		l.adopting = false
		l.adopted++
		l.mu.Unlock()
		l.log.Warn("the audit topic was deleted and made again; acts are recorded in the new one", "topic", l.topic)
	}()
}

// sent decides what becomes of a record that was written, or was not.
func (l *auditLog) sent(e *auditEntry, err error) {
	l.mu.Lock()
	retry := time.Duration(0)
	switch {
	case err == nil:
		l.worked, l.unset = true, nil
	case l.notSetUp(err):
		l.unset, err = err, errNoAudit
	case errors.Is(err, kgo.ErrMaxBuffered):
		retry = auditRefill
	case errors.Is(err, kgo.ErrClientClosed), e.weight < auditSpare:
	default:
		retry = auditRetry
	}
	l.queue.landed(e, err == nil)
	warn := retry == auditRetry && e.weight == auditMust && l.queue.mark(e, auditLateAll)
	next := l.queue.next()
	l.mu.Unlock()
	if next != nil {
		go l.send(next) // a promise must not wait for the producer
	}
	if warn {
		l.late(e, auditLateAll, err)
	}
	if retry > 0 {
		time.AfterFunc(retry, func() { l.resend(e) })
		return
	}
	l.end(e, err)
}

func (l *auditLog) resend(e *auditEntry) {
	l.mu.Lock()
	l.queue.retry(e)
	next := l.queue.next()
	l.mu.Unlock()
	l.send(next)
}

// notSetUp reports whether an error means that nobody has set up the audit. It is called with
// the lock held.
func (l *auditLog) notSetUp(err error) bool {
	return !l.worked && (errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.TopicAuthorizationFailed))
}

// late says that a record should be written by now.
func (l *auditLog) late(e *auditEntry, why auditLateness, err error) {
	l.listener.AuditRecord("late")
	if why == auditLateOwn {
		l.warn("a tenant does more than is written to the audit topic; it does nothing else until that is", e, err)
		return
	}
	l.warn("the audit topic does not take a record; no act is done until it does", e, err)
}

// end closes a record: it is written, or never will be.
func (l *auditLog) end(e *auditEntry, err error) {
	l.mu.Lock()
	l.queue.end(e)
	l.mu.Unlock()
	outcome, msg := "dropped", "an audit record was not written"
	switch {
	case err == nil:
		outcome = "written"
	case errors.Is(err, errNoAudit):
		outcome, msg = "missing", "there is no audit topic"
	}
	l.listener.AuditRecord(outcome)
	if err != nil && e.weight > auditLight && !errors.Is(err, errAuditFull) {
		l.warn(msg, e, err)
	}
	e.err = err
	close(e.done)
}

func (l *auditLog) warn(msg string, e *auditEntry, err error) {
	l.log.Warn(msg, "record", string(e.record.Value()), "error", err)
}

// await waits until records are written, for at most within.
func (l *auditLog) await(entries ...*auditEntry) (err error) {
	late := time.NewTimer(l.within)
	defer late.Stop()
	for _, e := range entries {
		select {
		case <-e.done:
			err = errors.Join(err, e.err)
		case <-late.C:
			l.giveUp(entries)
			return errAuditLate
		}
	}
	return err
}

// giveUp counts the records that nobody waits for any more.
func (l *auditLog) giveUp(entries []*auditEntry) {
	for _, e := range entries {
		l.mu.Lock()
		why := l.queue.lateness(e)
		first := l.queue.mark(e, why)
		l.mu.Unlock()
		if first {
			l.late(e, why, errAuditLate)
		}
	}
}

// refusal says why no act of a tenant is taken now; nil if acts are.
func (l *auditLog) refusal(tenant string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.queue.late > 0:
		return problem.Unavailable(nil, "the audit topic takes no records, so nothing is done that would have to be "+
			"recorded there; repeat it later")
	case l.queue.full(tenant):
		return problem.Unavailable(nil, "too much that was done before is not on the audit topic yet; repeat it later")
	}
	return nil
}

// notes are sentences for /readyz; none if the audit is set up.
func (l *auditLog) notes() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unset != nil:
		return []string{"there is no audit: topic " + l.topic + " does not exist, or this process may not write it. " +
			"Run `waterclock topics apply`, and see `waterclock topics plan --acls`"}
	case l.queue.late > 0:
		return []string{"topic " + l.topic + " takes no records, so acts over HTTP are refused. If it does not " +
			"exist, run `waterclock topics apply`"}
	}
	return nil
}
