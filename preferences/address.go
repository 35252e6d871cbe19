package preferences

import (
	"context"
	"slices"

	"github.com/waterclock/waterclock/internal/printable"
)

// Address is one way to reach a user.
type Address struct {
	Channel  string // push, sms or email
	Provider string // of push: fcm or apns
	Value    string // a token, a telephone number or a mail address
}

// Check refuses an address that no provider could reach.
func (a Address) Check() error {
	switch a.Channel {
	case "push":
		if !isToken(a.Value) {
			return invalid("to", "a push token is 1 to %d printable ASCII characters", MaxToken)
		}
	case "sms":
		if !e164.MatchString(a.Value) {
			return invalid("to", "%s is not a telephone number; write +4915112345678", printable.Quoted(a.Value))
		}
	case "email":
		if !isEmail(a.Value) {
			return invalid("to", "%s is not a mail address; write ada@example.com", printable.Quoted(a.Value))
		}
	default:
		return invalid("to", "channel %s has no addresses", printable.Quoted(a.Channel))
	}
	return nil
}

// Of returns the addresses of a channel.
func (a *Addresses) Of(channel string) (all []Address) {
	switch {
	case channel == "push":
		for _, p := range a.Push {
			all = append(all, Address{Channel: channel, Provider: p.Provider, Value: p.Token})
		}
	case channel == "sms" && a.SMS != "":
		all = append(all, Address{Channel: channel, Value: a.SMS})
	case channel == "email" && a.Email != "":
		all = append(all, Address{Channel: channel, Value: a.Email})
	}
	return all
}

// Without returns a copy of p without an address, and reports whether p has it. p does not
// change.
func (p *Preferences) Without(a Address) (*Preferences, bool) {
	out := *p
	switch {
	case a.Channel == "push":
		out.Addresses.Push = slices.DeleteFunc(slices.Clone(p.Addresses.Push), func(one PushAddress) bool {
			return one == PushAddress{Provider: a.Provider, Token: a.Value}
		})
		return &out, len(out.Addresses.Push) < len(p.Addresses.Push)
	case a.Channel == "sms" && a.Value != "" && p.Addresses.SMS == a.Value:
		out.Addresses.SMS = ""
		return &out, true
	case a.Channel == "email" && a.Value != "" && p.Addresses.Email == a.Value:
		out.Addresses.Email = ""
		return &out, true
	}
	return p, false
}

// DropAddress removes an address from a user's preferences. If a PUT has replaced it meanwhile,
// the new one stays. dropped reports whether the address was there.
func DropAddress(ctx context.Context, s Editor, u User, a Address) (dropped bool, err error) {
	return s.Edit(ctx, u, func(p *Preferences) (*Preferences, bool) { return p.Without(a) })
}
