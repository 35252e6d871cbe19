package preferences

import (
	"slices"
	"time"
)

// Codes of the receipts of messages that the limits refuse.
const (
	CodeDuplicate = "duplicate" // one of this type was sent within dedup_window
	CodeCapped    = "capped"    // as many were sent as max_per_user allows
)

// Cap bounds the messages to one user on one channel: at most Most of them in any period of
// length Within.
type Cap struct {
	Most   int
	Within time.Duration
}

// Limits bound what a channel sends to one user.
type Limits struct {
	Window time.Duration // no second message of a type is sent within it; 0: off
	Caps   []Cap
}

// Message is what the limits need to know of a due event that is about to be sent.
type Message struct {
	User    User
	Channel string
	ID      string // ce_id: the same for every attempt
	// Occurrence is ID without the escalation step. The steps of one occurrence are not
	// duplicates of each other.
	Occurrence string
	Type       string // "": no type, so never a duplicate
	Asked      bool   // somebody asked for it, for example by a snooze: never a duplicate
	High       bool   // caps do not apply to it
}

// claimKept is how long a claim is kept beyond the longest period of the limits, counted from the
// last attempt. So later attempts find it.
const claimKept = 24 * time.Hour

// longest returns the longest period of the limits.
func (l Limits) longest() time.Duration {
	longest := l.Window
	for _, c := range l.Caps {
		longest = max(longest, c.Within)
	}
	return longest
}

// Since returns the earliest time at which a sent message can affect one at the given time.
func (l Limits) Since(at time.Time) time.Time { return at.Add(-l.longest()) }

// Until returns when a claim that is made or found at the given time may be swept.
func (l Limits) Until(at time.Time) time.Time { return at.Add(l.longest() + claimKept) }

// Newest returns how many of a user's newest messages the caps need.
func (l Limits) Newest() int {
	n := 0
	for _, c := range l.Caps {
		n = max(n, c.Most)
	}
	return n
}

// Claim is one message with its decision.
type Claim struct {
	Message

	Refused string // a code; "": sent
	At      time.Time
}

// Ledger holds what the limits need of one user and channel. A store fills it while it holds the
// lock of both.
type Ledger struct {
	Known map[string]string // earlier decisions, by ID
	// Sent has the claims that were not refused. It has at least the newest Limits.Newest since
	// Limits.Since. For each type to decide, it also has the newest of another occurrence.
	Sent []Claim
}

// Admit decides on a message at the given time, and adds it. It returns "" or a code. An earlier
// decision on the message does not change.
func (g *Ledger) Admit(l Limits, at time.Time, m Message) string {
	if code, known := g.Known[m.ID]; known {
		return code
	}
	code := ""
	switch {
	case g.duplicate(l, at, m):
		code = CodeDuplicate
	case g.capped(l, at, m):
		code = CodeCapped
	}
	if g.Known == nil {
		g.Known = map[string]string{}
	}
	g.Known[m.ID] = code
	if code == "" {
		g.Sent = append(g.Sent, Claim{Message: m, At: at})
	}
	return code
}

func (g *Ledger) duplicate(l Limits, at time.Time, m Message) bool {
	if l.Window == 0 || m.Type == "" || m.Asked {
		return false
	}
	return slices.ContainsFunc(g.Sent, func(c Claim) bool {
		return c.Type == m.Type && c.Occurrence != m.Occurrence && at.Sub(c.At) < l.Window
	})
}

func (g *Ledger) capped(l Limits, at time.Time, m Message) bool {
	if m.High {
		return false
	}
	return slices.ContainsFunc(l.Caps, func(one Cap) bool {
		seen := map[string]bool{} // a store may list a claim twice
		for i := range g.Sent {
			if at.Sub(g.Sent[i].At) < one.Within {
				seen[g.Sent[i].ID] = true
			}
		}
		return len(seen) >= one.Most
	})
}
