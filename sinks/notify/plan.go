package notify

import (
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/preferences"
	"github.com/waterclock/waterclock/sinks/notify/templates"
)

// The decisions here use neither a clock nor the network.

// target is an address and its provider.
type target struct {
	provider Provider // nil: there is none
	address  preferences.Address
}

// goodAddress describes valid values of "to" for a channel.
var goodAddress = map[string]string{
	"push": "a token, fcm:TOKEN or apns:TOKEN", "sms": "a number such as +4915112345678",
	"email": "one address such as ada@example.com",
}

// addressesOf returns the addresses of a message: the payload's to, or else those in the user's
// preferences. An error is about to.
func addressesOf(channel string, to []string, p *preferences.Preferences) ([]preferences.Address, error) {
	if len(to) == 0 {
		if p == nil {
			return nil, nil
		}
		return p.Addresses.Of(channel), nil
	}
	if channel != "push" && len(to) > 1 {
		return nil, fmt.Errorf("to of channel %s must be one address", channel)
	}
	var all []preferences.Address
	for _, text := range to {
		a := preferences.Address{Channel: channel, Value: text}
		if channel == "push" {
			a.Provider, a.Value = pushAddress(text)
		}
		if err := a.Check(); err != nil {
			return nil, fmt.Errorf("to is not an address of channel %s: write %s", channel, goodAddress[channel])
		}
		all = append(all, a)
	}
	return all, nil
}

// pushAddress splits fcm:TOKEN or apns:TOKEN. A plain token has no provider.
func pushAddress(text string) (provider, token string) {
	for _, name := range []string{"fcm", "apns"} {
		if rest, ok := strings.CutPrefix(text, name+":"); ok {
			return name, rest
		}
	}
	return "", text
}

// anyAddress is the provider that accepts every address.
const anyAddress = "outbox"

// choose finds the provider of each address by its name; outbox accepts all. A push token without
// a provider belongs to apns if it is hexadecimal, like Apple's tokens.
func choose(all []preferences.Address, providers []Provider) []target {
	out := make([]target, len(all))
	for i, a := range all {
		out[i] = target{address: a}
		for _, p := range providers {
			if serves(p.Name(), a, len(providers)) {
				out[i].provider = p
				break
			}
		}
	}
	return out
}

func serves(name string, a preferences.Address, providers int) bool {
	if name == anyAddress || a.Channel != "push" || providers == 1 && a.Provider == "" {
		return true
	}
	if a.Provider == "" {
		return (name == "apns") == isHex(a.Value)
	}
	return name == a.Provider
}

func isHex(token string) bool {
	return len(token) >= 64 && strings.Trim(token, "0123456789abcdefABCDEF") == ""
}

// compose makes the message of a due event, without an address.
func compose(channel string, e *worker.DueEvent, p payload, t templates.Text, locale string) Message {
	m := Message{
		ID: e.ID, Attempt: e.Attempt, Postponed: e.Postponed, Channel: channel, Tenant: e.Tenant,
		Trigger: e.TriggerID(), User: e.User, Title: templates.OneLine(or(t.Title, p.Title)),
		Body: text(or(t.Body, p.Body)), HTML: t.HTML, DeepLink: templates.OneLine(or(t.DeepLink, p.DeepLink)),
		Locale: locale, High: e.High, Expires: e.Expires,
	}
	if p.TemplateID != "" {
		m.Locale = t.Locale
	}
	if channel == "email" && m.Title == "" {
		m.Title = subjectOf(m.Body)
	}
	if channel == "push" {
		m.Data = maps.Clone(p.Data)
		if m.Data == nil {
			m.Data = map[string]string{}
		}
		m.Data["notification_id"] = notificationID(e)
		if !e.Expires.IsZero() {
			m.Data["expires_at"] = e.Expires.UTC().Format(time.RFC3339)
		}
	}
	return m
}

func or(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// notificationID returns ce_id without the step.
func notificationID(e *worker.DueEvent) string {
	if at := strings.LastIndexByte(e.ID, '#'); at >= 0 {
		return e.ID[:at]
	}
	return e.ID
}

// text returns a body without control characters except line ends and tabs.
func text(s string) string {
	s = strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), "")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// subjectOf returns the first line of a body, because a mail without a subject counts as spam.
func subjectOf(body string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(body), "\n")
	line = templates.OneLine(line)
	const most = 100
	n := 0
	for i := range line {
		if n++; n > most {
			return line[:i] + "…"
		}
	}
	return line
}

// sum combines the results of a message to several addresses. If one of them accepted it, it
// succeeded, and the worst of the others does not count.
func sum(all []worker.Result) worker.Result {
	if len(all) == 1 {
		return all[0]
	}
	best, took := all[0], 0
	for _, r := range all {
		if rank(r.Outcome) < rank(best.Outcome) {
			best = r
		}
		if rank(r.Outcome) <= rank(worker.OutcomeAccepted) {
			took++
		}
	}
	return best.WithDetail(fmt.Sprintf("%d of %d addresses took it; %s", took, len(all), or(best.Detail,
		string(best.Outcome))))
}

// rank orders outcomes: the lowest one decides. A retry ranks before a postponement. Otherwise a
// broken address could keep attempts from counting.
func rank(o worker.Outcome) int {
	switch o {
	case worker.OutcomeDelivered:
		return 0
	case worker.OutcomeAccepted:
		return 1
	case worker.OutcomeRetry:
		return 2
	case worker.OutcomePostponed:
		return 3
	case worker.OutcomeSuppressed:
		return 4
	case worker.OutcomeFailed:
		return 5
	}
	return 6
}
