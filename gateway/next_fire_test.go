package gateway

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// Whatever the states, the pages of sort=next_fire are those of a sorted list: first what fires,
// by next_fire_at, priority and id, then the rest by id. Through each instance of a cluster.
func TestSortByNextFire(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	w, urls, _ := newClusterWith(t, func(o *Options) {
		o.ListBudget, o.ReadBudget = 1+rng.IntN(40), int64(1+rng.IntN(200))
	})
	states := map[trigger.Key]*trigger.State{}
	for i := range 120 {
		s := drawState(rng, trigger.Key(fmt.Sprintf("k%03d", i)))
		if i%4 == 0 {
			s.Key = "acme/" + s.Key
		}
		states[s.Key] = s
	}
	w.engine.mu.Lock()
	w.engine.states = states
	w.engine.mu.Unlock()
	for _, c := range []struct {
		query string
		match func(*trigger.State) bool
	}{
		{"", func(*trigger.State) bool { return true }},
		{"&state=PENDING", func(s *trigger.State) bool { return s.Status == trigger.Pending }},
		{"&state=PAUSED,FIRED", func(s *trigger.State) bool {
			return s.Status == trigger.Paused || s.Status == trigger.Fired
		}},
		{"&state=IN_FLIGHT", func(s *trigger.State) bool { return s.Status == trigger.InFlight }},
		{"&key_prefix=k05", func(s *trigger.State) bool { return strings.HasPrefix(string(s.Key), "k05") }},
		{"&state=PENDING&from=1970-01-01T00:00:01.003Z&to=1970-01-01T00:00:01.006Z", func(s *trigger.State) bool {
			return s.Status == trigger.Pending && s.Next() >= 1003 && s.Next() < 1006
		}},
	} {
		want := sortedByNextFire(states, c.match)
		for _, u := range urls {
			through := *w
			through.url = u
			query := fmt.Sprintf("sort=next_fire&limit=%d%s", 1+rng.IntN(50), c.query)
			if got := listed(t, &through, query); !slices.Equal(got, want) {
				t.Fatalf("%s: %q\nwant %q", query, got, want)
			}
		}
	}
	w.must(http.StatusBadRequest, "GET", "/v1/triggers?sort=fire_at", "")
	w.must(http.StatusBadRequest, "GET", "/v1/triggers?sort=", "")
}

// drawState draws a trigger in any of the shapes that a list meets.
func drawState(rng *rand.Rand, key trigger.Key) *trigger.State {
	s := &trigger.State{Key: key, Status: trigger.Pending, Revision: 1}
	s.Spec.Channel, s.Spec.Priority = "push", trigger.Priority(rng.IntN(3))
	at := func() trigger.Instant { return trigger.Instant(1000 + rng.IntN(8)) }
	planned := func() { s.Series = trigger.Series{At: at(), Occurrence: "1"} }
	live := func(kind trigger.LiveKind) {
		s.Live = append(s.Live, trigger.Live{Occurrence: fmt.Sprint(len(s.Live)), Kind: kind, Due: at(), Nominal: 1})
	}
	switch rng.IntN(9) {
	case 0, 1:
		planned()
	case 2:
		planned()
		live(trigger.LiveSnoozed)
	case 3: // its time-out is a timer, and nothing that fires
		s.Status = trigger.InFlight
		live(trigger.LiveInFlight)
		if rng.IntN(2) == 0 {
			planned()
		}
	case 4:
		s.Status = trigger.Paused
		planned()
		live(trigger.LiveSnoozed)
	case 5:
		s.Status = trigger.Fired
		s.Done = []trigger.Firing{{Occurrence: "1", Nominal: at()}}
	case 6: // two timers at one instant
		planned()
		live(trigger.LiveSnoozed)
		s.Live[0].Due = s.Series.At
	case 7: // its retry has a timer, and fires when it is resumed
		s.Status = trigger.Paused
		planned()
		live(trigger.LiveRetry)
		s.Live[0].Due = s.Series.At - 1
	case 8: // its rule has ended, and its last occurrence has no receipt
		live(trigger.LiveInFlight)
	}
	return s
}

// sortedByNextFire is the list of the default tenant, made without the code of lists.
func sortedByNextFire(states map[trigger.Key]*trigger.State, match func(*trigger.State) bool) (ids []string) {
	type row struct {
		last bool
		due  trigger.Instant
		prio trigger.Priority
		id   string
	}
	var rows []row
	for key, s := range states {
		if key.Tenant() != trigger.DefaultTenant || !match(s) {
			continue
		}
		r := row{due: s.Next(), prio: s.Spec.Priority, id: string(key)}
		if s.Status == trigger.Paused || s.Status == trigger.Fired || r.due == 0 {
			r = row{last: true, id: r.id}
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int {
		if a.last != b.last {
			if a.last {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.prio, b.prio), cmp.Compare(a.id, b.id))
	})
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	return ids
}

// An owner of an older version does not know the order. The list says so, and mixes no other order
// in.
func TestSortByNextFireOldOwner(t *testing.T) {
	w, urls, _ := newCluster(t)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/k", at(""))
	old := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(old.Close)
	w.announce(0, old.Listener.Addr().String(), 6)
	a := w.callAt(urls[2], "GET", "/v1/triggers?sort=next_fire", "")
	if a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "older version") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = w.callAt(urls[2], "GET", "/v1/triggers?sort=next_fire&fresh=false", "")
	if a.status != http.StatusOK || !strings.Contains(a.body, `"silent_partitions":[0]`) {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A list with fresh=false goes on without an owner that hangs, or is gone.
func TestStaleListWithoutOwner(t *testing.T) {
	w, urls, _ := newCluster(t)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/k", at(""))
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(hangs.Close)
	for i, owner := range []*httptest.Server{gone, hangs} {
		w.announce(0, owner.Listener.Addr().String(), int64(6+i))
		for _, query := range []string{"fresh=false", "fresh=false&sort=next_fire"} {
			a := w.callAt(urls[2], "GET", "/v1/triggers?"+query, "")
			if a.status != http.StatusOK || !strings.Contains(a.body, `"silent_partitions":[0]`) {
				t.Errorf("owner %d, %s: %d %s", i, query, a.status, a.body)
			}
		}
		if a := w.callAt(urls[2], "GET", "/v1/triggers", ""); a.status != http.StatusServiceUnavailable {
			t.Errorf("owner %d: %d %s", i, a.status, a.body)
		}
	}
}
