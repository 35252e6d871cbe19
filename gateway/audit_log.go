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
//   - Where no audit was ever set up (no topic, no right to write it), acts are not refused: a
//     cluster that is being upgraded goes on. The log has the records, and /readyz a note.
//   - A record may stand twice on the topic, if Kafka took it and did not say so in time.
type auditLog struct {
	kafka    *producer.Producer
	listener Listener
	log      *slog.Logger
	now      func() time.Time
	topic    string
	within   time.Duration // how long an answer waits for its record

	mu       sync.Mutex
	overdue  int       // records that should be written by now
	spare    int       // records of refused acts that are tried again
	worked   bool      // it has taken a record
	unset    error     // why there is no audit; nil: there is one, as far as known
	unsetTry time.Time // when it was tried last
}

const (
	// auditAnswer is the header of an answer that does not wait for its record any more.
	auditAnswer  = "Waterclock-Audit"
	auditLate    = "late"    // the record is tried again until it is written
	auditMissing = "missing" // there is no audit topic
)

// Between two tries of a record, and between two looks for a topic that does not exist.
const (
	auditRetry   = time.Second
	auditRecheck = 10 * time.Second
	// maxSpareAudit bounds the records of refused acts that wait while Kafka is away.
	maxSpareAudit = 1000
)

var (
	errNoAudit   = errors.New("there is no audit topic, or no right to write it")
	errAuditLate = errors.New("the audit topic has not taken the record in time")
)

// auditWeight says what becomes of a record that cannot be written.
type auditWeight uint8

const (
	auditOnce  auditWeight = iota // a refused attempt: it is dropped
	auditSpare                    // an act that may have been done: it is tried again, among maxSpareAudit
	auditMust                     // an act: it is tried again, and no other act is taken meanwhile
)

// auditEntry is a record under way.
type auditEntry struct {
	record topics.Audit
	weight auditWeight
	done   chan struct{} // closed when it is written, or never will be
	err    error         // why it never will be; set before done is closed

	overdue bool // counted in auditLog.overdue
	spare   bool // counted in auditLog.spare
}

// write begins to write a record.
func (l *auditLog) write(a topics.Audit, weight auditWeight) *auditEntry {
	e := &auditEntry{record: a, weight: weight, done: make(chan struct{})}
	l.mu.Lock()
	gone := l.unset != nil && l.now().Sub(l.unsetTry) < auditRecheck
	if !gone {
		l.unsetTry = l.now()
	}
	l.mu.Unlock()
	if gone {
		l.end(e, errNoAudit)
		return e
	}
	l.send(e)
	return e
}

func (l *auditLog) send(e *auditEntry) {
	rec := &kgo.Record{Topic: l.topic, Key: e.record.Key(), Value: e.record.Value()}
	l.kafka.TryProduce(context.Background(), rec, func(_ *kgo.Record, err error) { l.sent(e, err) })
}

// sent decides what becomes of a record that was written, or was not.
func (l *auditLog) sent(e *auditEntry, err error) {
	l.mu.Lock()
	retry := false
	switch {
	case err == nil:
		l.worked, l.unset = true, nil
	case l.notSetUp(err):
		l.unset, err = err, errNoAudit
	case errors.Is(err, kgo.ErrClientClosed), e.weight == auditOnce:
	case e.weight == auditMust:
		retry = true
		l.late(e, err)
	case e.spare, l.spare < maxSpareAudit:
		if retry = true; !e.spare {
			e.spare = true
			l.spare++
		}
	}
	l.mu.Unlock()
	if retry {
		time.AfterFunc(auditRetry, func() { l.send(e) })
		return
	}
	l.end(e, err)
}

// notSetUp reports whether an error means that nobody has set up the audit. It is called with
// the lock held.
func (l *auditLog) notSetUp(err error) bool {
	return !l.worked && (errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.TopicAuthorizationFailed))
}

// late counts a record that should be written by now, and logs it. It is called with the lock
// held.
func (l *auditLog) late(e *auditEntry, err error) {
	if e.overdue {
		return
	}
	e.overdue = true
	l.overdue++
	l.listener.AuditRecord("late")
	l.warn("the audit topic does not take a record; nothing else is done until it does", e, err)
}

// end closes a record: it is written, or never will be.
func (l *auditLog) end(e *auditEntry, err error) {
	l.mu.Lock()
	if e.overdue {
		e.overdue = false
		l.overdue--
	}
	if e.spare {
		e.spare = false
		l.spare--
	}
	l.mu.Unlock()
	switch {
	case err == nil:
		l.listener.AuditRecord("written")
	case errors.Is(err, errNoAudit):
		l.listener.AuditRecord("missing")
		l.warn("there is no audit topic", e, err)
	default:
		l.listener.AuditRecord("dropped")
		l.warn("an audit record was not written", e, err)
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
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		select {
		case <-e.done:
		default:
			l.late(e, errAuditLate)
		}
	}
}

// refusal says why no act is taken now; nil if acts are.
func (l *auditLog) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overdue == 0 {
		return nil
	}
	return problem.Unavailable(nil, "the audit topic takes no records, so nothing is done that would have to be "+
		"recorded there; repeat it later")
}

// note is a sentence for /readyz; "" if the audit is set up.
func (l *auditLog) note() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unset != nil:
		return "there is no audit: topic " + l.topic + " does not exist, or this process may not write it. Run " +
			"`waterclock topics apply`, and see `waterclock topics plan --acls`"
	case l.overdue > 0:
		return "topic " + l.topic + " takes no records, so acts over HTTP are refused"
	}
	return ""
}
