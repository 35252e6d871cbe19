package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// What two workers say of their endpoints is one list, the worst first. A worker
// that was killed drops out, and so does what one has forgotten.
func TestEndpoints(t *testing.T) {
	now := time.Now()
	w := newWorld(t, func(o *Options) {
		o.Auth = testKeys(t)
		o.Now = func() time.Time { return now }
	})
	as := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	list := func() (all Endpoints) {
		t.Helper()
		a := w.must(http.StatusOK, "GET", "/v1/endpoints", "", as(keyO)...)
		if err := json.Unmarshal([]byte(a.body), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	write := func(key string, value []byte) {
		t.Helper()
		r := &kgo.Record{Topic: topics.Names{}.Endpoints(), Key: []byte(key), Value: value}
		if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	put := func(s topics.EndpointState) { t.Helper(); write(s.Key(), s.Value()) }

	if all := list(); all.Items == nil || len(all.Items) != 0 {
		t.Errorf("of nobody: %+v", all)
	}
	until := now.Add(time.Minute).UTC().Truncate(time.Millisecond)
	put(topics.EndpointState{Instance: "a", Tenant: "acme", Origin: "https://ok.example", State: "closed", OK: 5})
	put(topics.EndpointState{
		Instance: "a", Tenant: "acme", Origin: "https://x.example", State: "closed", InFlight: 2, OK: 7,
	})
	put(topics.EndpointState{
		Instance: "b", Tenant: "acme", Origin: "https://x.example", State: "open", InFlight: 1, OK: 1, Failed: 30,
		LastCode: "timeout", Until: until,
	})
	put(topics.EndpointState{Instance: "b", Tenant: "other", Origin: "https://x.example", State: "half_open"})
	write("c/acme/https://x.example", []byte("{"))
	write("c/acme/https://x.example", []byte(`{"instance":"other","tenant":"acme","origin":"https://x.example"}`))
	want := []Endpoint{
		{
			Origin: "https://x.example", Tenant: "acme", State: "open", InFlight: 3, OK: 8, Failed: 30,
			LastCode: "timeout", Until: &until, Workers: 2,
		},
		{Origin: "https://x.example", Tenant: "other", State: "half_open", Workers: 1},
		{Origin: "https://ok.example", Tenant: "acme", State: "closed", OK: 5, Workers: 1},
	}
	if got, wanted := asJSON(t, list().Items), asJSON(t, want); got != wanted {
		t.Errorf("got %s\nwant %s", got, wanted)
	}
	write("b/acme/https://x.example", nil)
	if all := list(); all.Items[0].Tenant != "other" || all.Items[1].Workers != 1 {
		t.Errorf("forgotten by one worker: %+v", all)
	}
	now = now.Add(3 * time.Minute)
	if all := list(); len(all.Items) != 0 {
		t.Errorf("of workers that were killed: %+v", all)
	}
	w.must(http.StatusForbidden, "GET", "/v1/endpoints", "", as(keyA)...)
}

// The last code over all workers is that of the last call, whichever worker made it, also if that was delivered.
// Workers write their endpoints now and then without a call.
func TestEndpointsLastCode(t *testing.T) {
	var all endpointLog
	offset := int64(0)
	say := func(s topics.EndpointState) {
		s.Tenant, s.Origin, s.State = "acme", "https://x.example", "closed"
		all.fold(&kgo.Record{Key: []byte(s.Key()), Value: s.Value(), Offset: offset, Timestamp: time.Now()}, time.Now())
		offset++
	}
	code := func() string {
		var seen []seenEndpoint
		for _, s := range all.by {
			seen = append(seen, s)
		}
		return mergeEndpoints(seen)[0].LastCode
	}
	all.by = map[string]seenEndpoint{}
	for i, c := range []struct {
		topics.EndpointState
		want string
	}{
		{topics.EndpointState{Instance: "a", Failed: 1, LastCode: "timeout"}, "timeout"},
		{topics.EndpointState{Instance: "b", Failed: 1, LastCode: "http_500"}, "http_500"},
		{topics.EndpointState{Instance: "a", Failed: 1, LastCode: "timeout"}, "http_500"}, // no call since
		{topics.EndpointState{Instance: "c", InFlight: 1}, "http_500"},                    // none yet
		{topics.EndpointState{Instance: "a", Failed: 2, LastCode: "timeout"}, "timeout"},
		{topics.EndpointState{Instance: "c", OK: 1}, ""}, // delivered
		{topics.EndpointState{Instance: "b", Failed: 1, LastCode: "paused"}, "paused"},
		{topics.EndpointState{Instance: "c", OK: 1, InFlight: 1}, "paused"},
	} {
		say(c.EndpointState)
		for range 5 { // maps have no order
			if got := code(); got != c.want {
				t.Errorf("%d: %q, want %q", i, got, c.want)
			}
		}
	}
}

// A gateway that starts reads what compaction has left, and the records of workers that were killed long ago. It
// answers the same list, in the same order, as one that has read the topic as it grew.
func TestEndpointsAfterARestart(t *testing.T) {
	old := mostSeen
	mostSeen = 5
	defer func() { mostSeen = old }()
	begin := time.Date(2026, 11, 20, 14, 0, 0, 0, time.UTC)
	var log []*kgo.Record
	say := func(after time.Duration, instance, origin, code string, failed int64, called time.Duration) {
		s := topics.EndpointState{
			Instance: instance, Tenant: "acme", Origin: origin, State: "closed", Failed: failed, LastCode: code,
			CalledAt: begin.Add(called),
		}
		log = append(log, &kgo.Record{
			Key: []byte(s.Key()), Value: s.Value(), Offset: int64(len(log)), Timestamp: begin.Add(after),
		})
	}
	for i := range 10 { // killed an hour before
		say(-time.Hour, fmt.Sprint("killed-", i), "https://x.example", "timeout", 9, -time.Hour)
	}
	const x, y = "https://x.example", "https://y.example"
	say(0, "a", x, "timeout", 3, 0)
	say(time.Second, "b", x, "http_500", 1, time.Second) // the last call
	say(time.Second, "b", y, "http_500", 4, time.Second)
	say(2*time.Second, "a", y, "timeout", 0, 2*time.Second)
	say(time.Minute, "b", x, "http_500", 1, time.Second) // without a call
	say(time.Minute, "a", x, "timeout", 3, 0)
	read := func(log []*kgo.Record, step bool) []Endpoint {
		l := endpointLog{by: map[string]seenEndpoint{}}
		for _, r := range log {
			now := begin.Add(time.Minute)
			if step {
				now = r.Timestamp
			}
			l.fold(r, now)
			for key, s := range l.by { // as each read does
				if step && now.Sub(s.at) > staleEndpoint {
					delete(l.by, key)
				}
			}
		}
		return mergeEndpoints(slices.Collect(maps.Values(l.by)))
	}
	last := map[string]*kgo.Record{}
	for _, r := range log {
		last[string(r.Key)] = r
	}
	compacted := slices.SortedFunc(maps.Values(last), func(a, b *kgo.Record) int { return int(a.Offset - b.Offset) })
	grown, restarted := asJSON(t, read(log, true)), asJSON(t, read(compacted, false))
	want := asJSON(t, []Endpoint{
		{Origin: x, Tenant: "acme", State: "closed", Failed: 4, LastCode: "http_500", Workers: 2},
		{Origin: y, Tenant: "acme", State: "closed", Failed: 4, LastCode: "timeout", Workers: 2},
	})
	if grown != want || restarted != want {
		t.Errorf("as it grew %s\nafter a restart %s\nwant %s", grown, restarted, want)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
