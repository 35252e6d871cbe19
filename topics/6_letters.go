package topics

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/waterclock/waterclock/internal/egress"
	"github.com/waterclock/waterclock/trigger"
)

// Letter is a dead letter without its content: why it failed, and where its record is.
type Letter struct {
	Tenant, Trigger string
	DueID           string
	Attempt         int
	FailedAt        trigger.Instant // when the record was appended
	Partition       int32           // of topic dead-letter
	Offset          int64
	Channel         string
	Code, Detail    string
	Endpoint        string          // the origin of the callback; "" without one
	ScheduledAt     trigger.Instant // the nominal instant of the occurrence
	ExpiresAt       trigger.Instant // 0: it does not expire
	Cut             bool            // parts of the due event are missing, so it must not be redriven
	Status          LetterStatus
	EndedUS         int64 // event_us of what ended it; 0 while it is open
}

// LetterStatus is what became of a dead letter.
type LetterStatus uint8

// What becomes of dead letters. An erased one is shown to nobody.
const (
	LetterOpen     LetterStatus = iota // nothing yet
	LetterRedriven                     // its occurrence went out again
	LetterResolved                     // its occurrence was delivered after all
	LetterErased                       // its trigger was erased
	LetterAny                          // in a query: open, redriven or resolved
)

var letterStatuses = [...]string{"open", "redriven", "resolved", "erased", "all"}

func (s LetterStatus) String() string { return letterStatuses[min(int(s), len(letterStatuses)-1)] }

// LetterStatuses are those that a query may ask for.
func LetterStatuses() []string { return []string{"open", "redriven", "resolved", "all"} }

// ParseLetterStatus finds what a query may ask for by its name.
func ParseLetterStatus(s string) (LetterStatus, bool) {
	for i, name := range letterStatuses {
		if name == s && LetterStatus(i) != LetterErased {
			return LetterStatus(i), true
		}
	}
	return 0, false
}

// Cursor is the letter's place in a list.
func (l *Letter) Cursor() LetterCursor {
	return LetterCursor{l.Tenant, l.FailedAt, l.Partition, l.Offset}
}

// LetterQuery asks for dead letters, ordered by tenant and then by the time they failed.
type LetterQuery struct {
	Tenant                  string          // "" means all
	Trigger                 string          // "" means all; else Tenant is its tenant
	Channel, Code, Endpoint string          // "" means all
	From, To                trigger.Instant // failed at or after From, and before To; 0 is no bound
	Status                  LetterStatus
	After                   LetterCursor // exclusive; the zero cursor is before the first
	Limit                   int          // 1 to 1000; 0 means 100
	Newest                  bool         // newest first within a tenant
}

// Matches reports whether the query asks for a letter, apart from its status.
func (q *LetterQuery) Matches(l *Letter) bool {
	return (q.Channel == "" || q.Channel == l.Channel) && (q.Code == "" || q.Code == l.Code) &&
		(q.Endpoint == "" || q.Endpoint == l.Endpoint) && (q.Trigger == "" || q.Trigger == l.Trigger) &&
		(q.From == 0 || l.FailedAt >= q.From) && (q.To == 0 || l.FailedAt < q.To)
}

// Wants reports whether the query asks for letters of this status.
func (q *LetterQuery) Wants(s LetterStatus) bool {
	return s == q.Status || q.Status == LetterAny && s != LetterErased
}

// LetterPage is a page and where the next begins; Next is zero on the last. A page may be
// short or empty and still have a Next, because a query reads a bounded number of letters.
type LetterPage struct {
	Items   []Letter
	Next    LetterCursor
	Visited int
}

// LetterCursor is a place among dead letters.
type LetterCursor struct {
	Tenant    string
	FailedAt  trigger.Instant
	Partition int32
	Offset    int64
}

// IsZero reports whether the cursor is before the first letter.
func (c LetterCursor) IsZero() bool { return c == LetterCursor{} }

// Compare orders cursors within a tenant, the oldest first.
func (c LetterCursor) Compare(o LetterCursor) int {
	return cmp.Or(cmp.Compare(c.FailedAt, o.FailedAt), cmp.Compare(c.Partition, o.Partition),
		cmp.Compare(c.Offset, o.Offset))
}

// String is the cursor for a URL; "" for the zero cursor.
func (c LetterCursor) String() string {
	if c.IsZero() {
		return ""
	}
	b := binary.AppendVarint(nil, int64(c.FailedAt))
	b = binary.AppendVarint(b, int64(c.Partition))
	b = binary.AppendVarint(b, c.Offset)
	return base64.RawURLEncoding.EncodeToString(append(b, c.Tenant...))
}

// ErrLetterCursor is the error of a text that String did not make.
var ErrLetterCursor = errors.New("not a cursor of dead letters")

// All letters lie between these: the years 1970 and 2286.
const (
	firstLetterMS = 0
	lastLetterMS  = 10_000_000_000_000
)

// ParseLetterCursor reads what String wrote; "" is the zero cursor.
func ParseLetterCursor(s string) (c LetterCursor, err error) {
	if s == "" {
		return c, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return c, ErrLetterCursor
	}
	var numbers [3]int64
	for i := range numbers {
		v, n := binary.Varint(b)
		if n <= 0 {
			return c, ErrLetterCursor
		}
		numbers[i], b = v, b[n:]
	}
	c = LetterCursor{string(b), trigger.Instant(numbers[0]), int32(numbers[1]), numbers[2]}
	if numbers[0] < firstLetterMS || numbers[0] > lastLetterMS || numbers[1] < 0 || numbers[2] < 0 || c.String() != s {
		return LetterCursor{}, ErrLetterCursor // other texts decode to numbers, too
	}
	return c, nil
}

// LetterOf reads a record of topic dead-letter. Malformed bytes are an error. A missing
// channel or code is not.
func LetterOf(rec *Record) (Letter, error) {
	d, err := DecodeDeadLetter(rec)
	if err != nil {
		return Letter{}, err
	}
	f := &d.Fire
	if f.Attempt < 1 || f.Nominal == 0 {
		return Letter{}, errors.New("the dead letter has no ce_wcattempt or no ce_time")
	}
	if !utf8.ValidString(f.ID()) || len(f.Channel) > maxText || rec.Timestamp < firstLetterMS ||
		rec.Timestamp > lastLetterMS {
		return Letter{}, errors.New("the dead letter has a ce_id, a channel or a time that no engine wrote")
	}
	l := Letter{
		Tenant: f.Key.Tenant(), Trigger: string(f.Key), DueID: f.ID(), Attempt: f.Attempt, FailedAt: rec.Timestamp,
		Partition: rec.Partition, Offset: rec.Offset, Channel: strings.ToValidUTF8(f.Channel, "\ufffd"),
		Code:   strings.ToValidUTF8(clip(d.Code, maxText), "\ufffd"),
		Detail: strings.ToValidUTF8(clip(d.Detail, maxErrorDetail), "\ufffd"), ScheduledAt: f.Nominal,
		ExpiresAt: f.Expires,
		Cut:       DeadLetterCut(rec),
	}
	if f.Spec.Callback != nil {
		l.Endpoint = clip(egress.OriginOf(f.Spec.Callback.URL), maxErrorDetail)
	}
	return l, nil
}

// LetterEnd is what an event says about dead letters. They are those of one ce_id and
// attempt, of one ce_id, or of one trigger.
type LetterEnd struct {
	DueID   string // "" means all of the trigger
	Attempt int    // 0 means any
	US      int64  // event_us
	Status  LetterStatus
}

// LetterEndOf is what an event says about dead letters; ok is false if it says nothing. The
// success of a first attempt says nothing, unless it came late, because its occurrence has no
// dead letter.
func LetterEndOf(e *Event) (end LetterEnd, ok bool) {
	end = LetterEnd{US: e.EventUS}
	if e.Occurrence != "" && e.Step != nil {
		end.DueID = e.Trigger + "@" + e.Occurrence + "#" + strconv.Itoa(*e.Step)
	}
	switch trigger.FactType(e.Type) {
	case trigger.ErasedFact:
		end.DueID, end.Status = "", LetterErased
		return end, true
	case trigger.Redriven:
		end.Attempt, end.Status = e.Attempt-1, LetterRedriven
		return end, end.DueID != "" && end.Attempt > 0
	case trigger.DeliveryDelivered, trigger.DeliveryAccepted:
		end.Status = LetterResolved
		said := e.Reason == trigger.ReasonLate || e.Attempt > 1 && e.Reason != trigger.ReasonUnknown &&
			e.Reason != trigger.ReasonNoReceipts
		return end, end.DueID != "" && said
	}
	return end, false
}

// eraseLeeway is how far the brokers' clocks may be ahead of the engine's. The brokers stamp
// a letter's failure, the engine its trigger's erase.
const eraseLeeway = 1_000_000 // microseconds

// Ends reports whether the event ended a letter.
func (end *LetterEnd) Ends(l *Letter) bool {
	if end.Status == LetterErased {
		return int64(l.FailedAt)*1000 <= end.US+eraseLeeway
	}
	return end.DueID == l.DueID && (end.Attempt == 0 || end.Attempt == l.Attempt)
}

// EndedBy sets a letter's status from all events about it, in any order. Erased wins over
// resolved, and resolved over redriven.
func (l *Letter) EndedBy(ends []LetterEnd) {
	rank := [...]int{LetterOpen: 0, LetterRedriven: 1, LetterResolved: 2, LetterErased: 3}
	for i := range ends {
		e := &ends[i]
		if !e.Ends(l) || rank[e.Status] < rank[l.Status] || e.Status == l.Status && e.US <= l.EndedUS {
			continue
		}
		l.Status, l.EndedUS = e.Status, e.US
	}
}
