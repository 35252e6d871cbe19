package preferences

import (
	"context"
	"maps"
	"slices"
)

// OptedOutOf are preferences without notifications on a channel: those of one type, or all
// where the type is "". ok is false if that is so already, or if there are as many channels
// or types as may be; then all of the channel is meant.
func (p *Preferences) OptedOutOf(channel, typ string) (out *Preferences, changed bool) {
	channel = channelName(channel)
	if slices.Contains(p.OptedOut, channel) {
		return p, false
	}
	copied := *p
	if t, said := p.Types[typ]; typ != "" && (said || len(p.Types) < MaxTypes) {
		if !t.wants(channel) && said {
			return p, false
		}
		copied.Types = maps.Clone(p.Types)
		if copied.Types == nil {
			copied.Types = map[string]Type{}
		}
		by := maps.Clone(t.Channels)
		if by == nil {
			by = map[string]bool{}
		}
		by[channel] = false
		copied.Types[typ] = Type{Channels: by}
		return &copied, true
	}
	copied.OptedOut = append(slices.Clone(p.OptedOut), channel)
	return &copied, true
}

// OptOut adds an opt-out to a user's preferences as they are now, whether or not the user has
// any. changed is false if it was there.
func OptOut(ctx context.Context, s Editor, u User, channel, typ string) (changed bool, err error) {
	return s.Edit(ctx, u, func(p *Preferences) (*Preferences, bool) { return p.OptedOutOf(channel, typ) })
}
