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

// counts counts items by a value. It tells maxGroups values apart.
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
func (c *counts) list() []DeadLetterGroup {
	all := make([]DeadLetterGroup, 0, len(c.groups))
	for value, g := range c.groups {
		all = append(all, DeadLetterGroup{value, g.n, g.oldest.String(), g.newest.String(), g.sample})
	}
	slices.SortFunc(all, func(a, b DeadLetterGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Value, b.Value))
	})
	return all
}
