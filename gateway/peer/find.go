package peer

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

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
	Time    time.Duration   // of computing in one partition; 0: no bound
	Prefix  string          // of ids
	Stale   bool            // without the read barrier; a partition that does not answer is left out and named

	ByNextFire bool // ordered by next fire, priority and key; needs no User

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

	// Of another instance: what it cost there.
	Visited int64
	Spent   time.Duration

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
	f := &finder{
		q: q, owner: o, partition: partition,
		scan: scan{ctx: ctx, tenant: q.Tenant, budget: cmp.Or(q.Cost, &Budget{})},
		page: Page{Through: q.After},
	}
	defer f.scan.end()
	var err error
	switch {
	case q.User != "":
		err = o.ScanUser(ctx, partition, q.Tenant, q.User, q.After, f.visit)
	case q.ByNextFire:
		err = f.byNextFire()
	default:
		err = f.byKey(q.After.Key, func(s *trigger.State) UserCursor { return UserCursor{Key: s.Key} })
	}
	return f.page, errors.Join(err, f.scan.err)
}

// finder reads one page of one partition.
type finder struct {
	q         *Query
	owner     Owner
	partition int32
	scan      scan

	page    Page
	visited int
	bytes   int64
	row     int         // triggers of others since the last of ours
	beyond  trigger.Key // where to go on, past what is another tenant's
}

// byKey lists in the order of keys. cursor says where a trigger stands; those without a key there are
// left out.
func (f *finder) byKey(after trigger.Key, cursor func(*trigger.State) UserCursor) error {
	for after = f.q.firstKey(after); ; after = f.beyond {
		f.beyond, f.row = "", 0
		f.scan.end() // of the scan before: the next may wait for its read barrier, and others compute meanwhile
		err := f.owner.Scan(f.scan.ctx, f.partition, after, func(s *trigger.State) bool {
			return f.visit(cursor(s), s)
		})
		if err = errors.Join(err, f.scan.err); err != nil || f.beyond == "" {
			return err
		}
	}
}

// visit takes a trigger of a scan that has all of a partition in the order of keys, or only those
// of one user. It is false if the scan must end.
func (f *finder) visit(at UserCursor, s *trigger.State) bool {
	q := f.q
	if !f.spend() {
		return false
	}
	f.row++
	if q.User == "" && q.behindPrefix(s.Key) {
		return false
	}
	switch ours := q.inTenant(s.Key); {
	case !ours && !q.mayFollow(s.Key):
		return false
	case !ours && f.row > longRow:
		f.beyond = behindTenant(s.Key.Tenant())
		return false
	case ours:
		if f.row = 0; at.Key != "" {
			f.take(at, s)
		}
	}
	return f.passed(UserCursor{at.Due, s.Key})
}

// spend counts a trigger that is visited. It is false if the page must end before it. The first is always visited:
// what the request may cost may be used up already, and a page that ends where it began would be asked for for ever.
func (f *finder) spend() bool {
	f.scan.budget.visited.Add(1)
	if f.visited > 0 && f.q.Time > 0 && f.scan.computed() > f.q.Time || !f.scan.turn() {
		f.page.More = true // from Through on
		return false
	}
	f.visited++
	return true
}

// take puts a trigger on the page if it matches.
func (f *finder) take(at UserCursor, s *trigger.State) {
	if !f.q.matches(s) {
		return
	}
	f.page.Items = append(f.page.Items, Found{at, s})
	n := storedBytes(s)
	f.bytes += n
	if f.q.Cost != nil && f.q.Cost.Taken != nil {
		f.q.Cost.Taken(n)
	}
}

// passed notes how far the page goes. It is false if the page is full.
func (f *finder) passed(at UserCursor) bool {
	q := f.q
	f.page.Through = at
	f.page.More = q.Bytes > 0 && f.bytes >= q.Bytes || len(f.page.Items) >= q.Limit || f.visited >= q.Budget
	return !f.page.More
}

// longRow is how many triggers of others are passed one by one, before a scan
// begins anew behind them.
const longRow = 64

// behindTenant stands after all keys of a tenant, and before any other: no key
// has such a byte.
func behindTenant(name string) trigger.Key { return trigger.Key(name + "/\xff") }

// firstKey skips the tenants before ours: their keys sort before tenant/.
func (q *Query) firstKey(after trigger.Key) trigger.Key {
	from := q.keyPrefix()
	if last := len(from) - 1; q.Prefix != "" { // a scan begins behind this key, and one may be the prefix itself
		from = from[:last] + string([]byte{from[last] - 1, 0xff})
	}
	return max(after, trigger.Key(from))
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

func (q *Query) states() StateSet { return cmp.Or(q.States, Shown) }

func (q *Query) matches(s *trigger.State) bool {
	if !q.states().Has(s.Status) || q.Channel != "" && !s.Spec.GoesTo(q.Channel) || q.User != "" &&
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

// shareCost bounds what each of n partitions may visit and compute by its share of what the request has left, so that
// all get about equally far: a page ends where the first of them does.
func (q *Query) shareCost(n int) {
	visits, within := q.Cost.left()
	if visits > 0 {
		q.Budget = int(min(int64(q.Budget), max(1, visits/int64(n))))
	}
	if within > 0 {
		q.Time = max(1, within/time.Duration(n))
	}
}

// wanting names the pages that end at their share of items and before the place
// where a page of need items does: more of theirs may belong there. It says how many they are.
func wanting(pages []Page, share, need int) (wants func(int32) bool, n int) {
	var cursors []UserCursor
	for _, p := range pages {
		for _, f := range p.Items {
			cursors = append(cursors, f.At)
		}
	}
	slices.SortFunc(cursors, UserCursor.Compare)
	wants = func(p int32) bool {
		page := &pages[p]
		return share < need && page.More && len(page.Items) == share && (len(cursors) < need ||
			page.Through.Compare(cursors[need-1]) < 0)
	}
	for p := range pages {
		if wants(int32(p)) {
			n++
		}
	}
	return wants, n
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
