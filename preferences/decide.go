package preferences

import (
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// Outcome is the decision on a due event.
type Outcome uint8

// The outcomes.
const (
	Send     Outcome = iota // now
	Suppress                // never
	Postpone                // later
)

func (o Outcome) String() string { return [...]string{"send", "suppress", "postpone"}[o] }

// Codes of receipts that preferences cause.
const (
	CodeOptedOut   = "opted_out"         // the user wants nothing on this channel
	CodeType       = "notification_type" // the user does not want this type on this channel
	CodeQuietHours = "quiet_hours"       // the user does not want it at this hour
)

// Due holds what a decision needs of a due event.
type Due struct {
	Channel string // in upper or lower case
	Type    string // tags.type; "" has no type
	High    bool   // priority high
}

// Decision is the decision on a due event, with the reason.
type Decision struct {
	Outcome Outcome
	Code    string    // "" with Send
	Until   time.Time // with Postpone: the first instant after the quiet hours
}

// Decide decides on a due event of this user at the given time. Opt-outs bind every priority;
// quiet hours do not bind high. zones is the tz database in force. Quiet hours in a zone that it
// does not know have no effect. PUT refuses such a zone, so only an older tz database can lack
// it.
func (p *Preferences) Decide(d Due, now time.Time, zones *calendar.Zones) Decision {
	channel := channelName(d.Channel)
	for _, out := range p.OptedOut {
		if out == channel {
			return Decision{Outcome: Suppress, Code: CodeOptedOut}
		}
	}
	if t, said := p.Types[d.Type]; said && d.Type != "" && !t.wants(channel) {
		return Decision{Outcome: Suppress, Code: CodeType}
	}
	if p.Quiet == nil || d.High || !p.Quiet.binds(channel) {
		return Decision{}
	}
	zone, err := zones.Lookup(p.Zone)
	if err != nil {
		return Decision{}
	}
	if until, quiet := p.Quiet.until(now.UnixMilli(), zone); quiet {
		return Decision{Outcome: Postpone, Code: CodeQuietHours, Until: time.UnixMilli(until).UTC()}
	}
	return Decision{}
}
