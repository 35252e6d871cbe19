package peer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// Query asks for triggers of one tenant. Zero fields do not narrow it.
type Query struct {
	Tenant  string
	User    string // ordered by next due time, then key; without it by key
	States  StateSet
	Channel string
	Tags    []trigger.Tag   // all of them
	From    trigger.Instant // fires at or after
	To      trigger.Instant // fires before
	After   UserCursor      // exclusive
	Limit   int             // of items, at least 1
	Budget  int             // of triggers visited, at least 1
	Bytes   int64           // of what is stored of the items of one partition; 0: no bound
	Prefix  string          // of ids
	Stale   bool            // without the read barrier; a partition that does not answer is left out and named

	Cost *Budget // of the whole request; nil: no bound
}

// StateSet is a set of trigger.Status; empty means all that are shown.
type StateSet uint16

// Shown are the states a caller may see. The kept cancel of a key that nobody
// registered, and an erased trigger, are none of a caller's business.
const Shown = StateSet(1<<trigger.Pending | 1<<trigger.Paused | 1<<trigger.InFlight | 1<<trigger.Fired |
	1<<trigger.Failed | 1<<trigger.Cancelled | 1<<trigger.Expired)

// Has says whether a state is in the set.
func (s StateSet) Has(st trigger.Status) bool { return s&(1<<st) != 0 }

// Page is what one partition, or all of them, found. With More, everything up
// to Through is in Items and the next page begins behind it.
type Page struct {
	Items   []Found
	Through UserCursor
	More    bool
	Visited int64 // of another instance: what it cost there

	Silent []int32 // of a stale query: partitions that did not answer
}

// Found is a trigger and its place in the list.
type Found struct {
	At    UserCursor
	State *trigger.State
}

// find answers a query about one partition from its owner.
func find(ctx context.Context, o Owner, partition int32, q *Query) (Page, error) {
	if q.Stale {
		o = o.Stale()
	}
	var page Page
	visited, row := 0, 0
	var bytes int64
	var beyond trigger.Key // where to go on, past what is another tenant's
	turns := scan{ctx: ctx, tenant: q.Tenant, budget: cmp.Or(q.Cost, &Budget{})}
	defer turns.end()
	visit := func(at UserCursor, s *trigger.State) bool {
		if !turns.visit(1) {
			page.More = true // from Through on
			return false
		}
		visited++
		row++
		full := false
		if q.User == "" && q.behindPrefix(s.Key) {
			return false
		}
		switch ours := q.inTenant(s.Key); {
		case !ours && !q.mayFollow(s.Key):
			return false
		case !ours && row > longRow:
			beyond = behindTenant(s.Key.Tenant())
			return false
		case ours:
			if row = 0; q.matches(s) {
				page.Items = append(page.Items, Found{at, s})
				full = q.fills(&bytes, s)
			}
		}
		page.Through = at
		page.More = full || len(page.Items) >= q.Limit || visited >= q.Budget
		return !page.More
	}
	if q.User != "" {
		err := o.ScanUser(ctx, partition, q.Tenant, q.User, q.After, visit)
		return page, errors.Join(err, turns.err)
	}
	for after := q.firstKey(); ; after = beyond {
		beyond, row = "", 0
		err := o.Scan(ctx, partition, after, func(s *trigger.State) bool { return visit(UserCursor{Key: s.Key}, s) })
		if err = errors.Join(err, turns.err); err != nil || beyond == "" {
			return page, err
		}
	}
}

// fills says that a page has as many bytes as it may, with one more item.
func (q *Query) fills(bytes *int64, s *trigger.State) bool {
	n := storedBytes(s)
	*bytes += n
	if q.Cost != nil && q.Cost.Taken != nil {
		q.Cost.Taken(n)
	}
	return q.Bytes > 0 && *bytes >= q.Bytes
}

// longRow is how many triggers of others are passed one by one, before a scan
// begins anew behind them.
const longRow = 64

// behindTenant stands after all keys of a tenant, and before any other: no key
// has such a byte.
func behindTenant(name string) trigger.Key { return trigger.Key(name + "/\xff") }

// firstKey skips the tenants before ours: their keys sort before tenant/.
func (q *Query) firstKey() trigger.Key {
	from := q.keyPrefix()
	if last := len(from) - 1; q.Prefix != "" { // a scan begins behind this key, and one may be the prefix itself
		from = from[:last] + string([]byte{from[last] - 1, 0xff})
	}
	return max(q.After.Key, trigger.Key(from))
}

// keyPrefix begins all keys that may match.
func (q *Query) keyPrefix() string {
	if q.Tenant == trigger.DefaultTenant {
		return q.Prefix
	}
	return q.Tenant + "/" + q.Prefix
}

// behindPrefix says that neither this key nor one behind it has the prefix.
func (q *Query) behindPrefix(k trigger.Key) bool {
	prefix := q.keyPrefix()
	return q.Prefix != "" && string(k) > prefix && !strings.HasPrefix(string(k), prefix)
}

func (q *Query) inTenant(k trigger.Key) bool { return k.Tenant() == q.Tenant }

// mayFollow says whether keys of our tenant may stand behind one of another's.
// Those of the default tenant have no prefix, so they stand among all others.
func (q *Query) mayFollow(k trigger.Key) bool {
	return q.Tenant == trigger.DefaultTenant || string(k) < q.Tenant+"/"
}

func (q *Query) matches(s *trigger.State) bool {
	states := q.States
	if states == 0 {
		states = Shown
	}
	if !states.Has(s.Status) || q.Channel != "" && !s.Spec.GoesTo(q.Channel) || q.User != "" &&
		s.Spec.UserID != q.User || !strings.HasPrefix(s.Key.ID(), q.Prefix) {
		return false
	}
	if q.From != 0 || q.To != 0 {
		at := firesAt(s)
		if at == 0 || at < q.From || q.To != 0 && at >= q.To {
			return false
		}
	}
	for _, t := range q.Tags {
		if !slices.Contains(s.Spec.Tags, t) {
			return false
		}
	}
	return true
}

// firesAt is when a trigger will fire next, or has fired last; 0 for neither.
func firesAt(s *trigger.State) trigger.Instant {
	if at := s.Next(); at != 0 {
		return at
	}
	if n := len(s.Done); n > 0 {
		return s.Done[n-1].Nominal
	}
	return s.Series.At
}

// shareOf is what one of n partitions is asked for first, of a page of need
// items: three standard deviations above the mean of what it has of them.
func shareOf(need, n int) int {
	mean := float64(need) / float64(n)
	return min(need, int(math.Ceil(mean+3*math.Sqrt(mean))))
}

// wanting names the pages that end at their share of items and before the place
// where a page of need items does: more of theirs may belong there. nil: none.
func wanting(pages []Page, share, need int) func(int32) bool {
	var cursors []UserCursor
	for _, p := range pages {
		for _, f := range p.Items {
			cursors = append(cursors, f.At)
		}
	}
	slices.SortFunc(cursors, UserCursor.Compare)
	wants := func(p int32) bool {
		page := &pages[p]
		return page.More && len(page.Items) == share && (len(cursors) < need ||
			page.Through.Compare(cursors[need-1]) < 0)
	}
	for p := range pages {
		if share < need && wants(int32(p)) {
			return wants
		}
	}
	return nil
}

// merge joins the pages of all partitions into one of at most limit items.
// Behind the least Through of the partitions that have more, something may be
// missing: the page ends there.
func merge(pages []Page, limit int) Page {
	var all Page
	for _, p := range pages {
		all.Items = append(all.Items, p.Items...)
		all.Silent = append(all.Silent, p.Silent...)
		if p.More && (!all.More || p.Through.Compare(all.Through) < 0) {
			all.Through, all.More = p.Through, true
		}
	}
	slices.SortFunc(all.Items, func(a, b Found) int { return a.At.Compare(b.At) })
	if all.More {
		all.Items = slices.DeleteFunc(all.Items, func(f Found) bool { return f.At.Compare(all.Through) > 0 })
	}
	if len(all.Items) > limit {
		all.Items = all.Items[:limit]
		all.Through, all.More = all.Items[limit-1].At, true
	}
	return all
}
