package preferences

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// OptedOutOf returns preferences without notifications on a channel: those of one type, or all if
// the type is "". If the maximum number of types is reached, the user is opted out of the
// whole channel. changed is false if p has the opt-out already.
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

// OptOut adds an opt-out to a user's current preferences. A user without preferences gets some.
// changed is false if the opt-out was there. mended reports that the document could not be
// parsed, and was replaced by what Salvage can read of it, with the opt-out.
func OptOut(ctx context.Context, s Editor, u User, channel, typ string) (changed, mended bool, err error) {
	out := func(p *Preferences) (*Preferences, bool) { return p.OptedOutOf(channel, typ) }
	for range 3 { // somebody else may mend or break the document in between
		changed, err = s.Edit(ctx, u, out)
		if _, broken := errors.AsType[*UnreadableError](err); !broken {
			return changed, false, err
		}
		mended, err := s.Mend(ctx, u, func(document []byte) *Preferences {
			p, _ := out(Salvage(document))
			return p
		})
		if mended || err != nil {
			return mended, mended, err
		}
	}
	return false, false, err
}
