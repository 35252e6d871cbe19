package preferences

import (
	"slices"
	"time"
)

// Codes of receipts of messages that a user has had enough of.
const (
	CodeDuplicate = "duplicate" // one of this type was sent within dedup_window
	CodeCapped    = "capped"    // as many were sent as max_per_user allows
)

// Cap is a bound on the messages to one user on one channel: at most Most of them in
// any stretch of time that is Within long.
type Cap struct {
	Most   int
	Within time.Duration
}

// Limits are what a channel sends to one user at most.
type Limits struct {
	Window time.Duration // within which no second message of a type is sent; 0 is off
	Caps   []Cap
}

// Message is a due event that is about to be sent, as the limits see it.
type Message struct {
	User    User
	Channel string
	ID      string // ce_id: the same for every attempt
	// Occurrence is ID without the escalation step. Steps of one occurrence are no
	// duplicates of each other.
	Occurrence string
	Type       string // "" has none, and is no duplicate
	Asked      bool   // somebody asked for it, as by a snooze: no duplicate
	High       bool   // caps do not bind it
}

// claimKept is how long a claim is kept beyond the limits' stretches, from the last
// attempt on, so that later attempts find it.
const claimKept = 24 * time.Hour

// longest is the longest stretch that the limits are about.
func (l Limits) longest() time.Duration {
	longest := l.Window
	for _, c := range l.Caps {
		longest = max(longest, c.Within)
	}
	return longest
}

// Since is from when on sent messages matter for one at an instant.
func (l Limits) Since(at time.Time) time.Time { return at.Add(-l.longest()) }

// Until is when a claim that is made, or found, at an instant may be swept.
func (l Limits) Until(at time.Time) time.Time { return at.Add(l.longest() + claimKept) }

// Newest is how many of a user's newest messages decide on the caps.
func (l Limits) Newest() int {
	n := 0
	for _, c := range l.Caps {
		n = max(n, c.Most)
	}
	return n
}

// Claim is one message that was decided about.
type Claim struct {
	Message

	Refused string // a code; "" was sent
	At      time.Time
}

// Ledger has what the limits need of one user and channel. Stores fill it while they
// hold the lock of both.
type Ledger struct {
	Known map[string]string // by ID: what was decided before
	// Sent are claims that were not refused: at least the newest Limits.Newest since
	// Limits.Since, and for each type to be decided on the newest of other occurrences.
	Sent []Claim
}

// Admit decides about a message at an instant, and adds it. It is "" or a code. What was
// decided before stays.
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
		seen := map[string]bool{} // a store may list a claim for two reasons
		for i := range g.Sent {
			if at.Sub(g.Sent[i].At) < one.Within {
				seen[g.Sent[i].ID] = true
			}
		}
		return len(seen) >= one.Most
	})
}
