package gateway

import (
	"cmp"
	"slices"

	"github.com/waterclock/waterclock/trigger"
)

// GroupSample is one item of a group, for people.
type GroupSample struct {
	TriggerID string `json:"trigger_id" doc:"Empty where the item has no key that may be a trigger's"`
	Tenant    string `json:"tenant"`
	Detail    string `json:"detail,omitempty"`
}

// Group counts the dead letters or refused commands that have one value in common.
type Group struct {
	Value  string `json:"value" doc:"The tenant, code or endpoint; empty for callbacks without one"`
	Count  int64  `json:"count"`
	Oldest string `json:"oldest" format:"date-time" doc:"When the first of them failed or was refused"`
	Newest string `json:"newest" format:"date-time"`

	Sample GroupSample `json:"sample" doc:"The newest of them"`
}

// Groups is the answer to group_by, the largest first.
type Groups struct {
	Groups     []Group `json:"groups"`
	Other      int64   `json:"other,omitempty" doc:"Items of further values, beyond 1,000"`
	Visited    int64   `json:"looked_at" doc:"How many were visited; of refused commands, for others than operators, those that count"`
	NextCursor string  `json:"next_cursor,omitempty" doc:"Where to go on counting, where there are too many for one answer"`
}

// counts counts items by a value. It counts at most maxGroups different values.
type counts struct {
	groups map[string]*tally
	other  int64 // items of further values
}

// tally counts the items of one value.
type tally struct {
	n              int64
	oldest, newest trigger.Instant
	sample         GroupSample // the newest
}

func (c *counts) add(value string, at trigger.Instant, item GroupSample) {
	g := c.groups[value]
	switch {
	case g == nil && len(c.groups) == maxGroups:
		c.other++
		return
	case g == nil:
		if c.groups == nil {
			c.groups = map[string]*tally{}
		}
		g = &tally{oldest: at, newest: at, sample: item}
		c.groups[value] = g
	case at > g.newest:
		g.sample = item
	}
	g.n, g.oldest, g.newest = g.n+1, min(g.oldest, at), max(g.newest, at)
}

// list is the groups, the largest first.
func (c *counts) list() []Group {
	all := make([]Group, 0, len(c.groups))
	for value, g := range c.groups {
		all = append(all, Group{value, g.n, g.oldest.String(), g.newest.String(), g.sample})
	}
	slices.SortFunc(all, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return all
}
