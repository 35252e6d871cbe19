package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Refused commands are counted by code, with the newest of each as an example, each tenant's to itself.
func TestRejectedGroups(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	bearer := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if a := w.must(http.StatusOK, "GET", "/v1/rejected?group_by=code", "", bearer(keyO)...); a.body !=
		`{"groups":[],"looked_at":0}`+"\n" {
		t.Errorf("of nothing: %s", a.body)
	}
	var keys []string
	for i := range 30 {
		keys = append(keys, fmt.Sprintf("%s/k%d", []string{"acme", "blue"}[i%3/2], i))
	}
	w.refuse(t, keys...)
	// The commands of each tenant have both codes; every second one is unknown_zone, the last one of all included.
	for _, c := range []struct {
		key, query string
		want       []string
	}{
		{keyO, "", []string{`"value":"not_found","count":15`, `"value":"unknown_zone","count":15`, `"looked_at":30`}},
		{keyO, "&tenant=blue", []string{`"value":"not_found","count":5`, `"value":"unknown_zone","count":5`}},
		{keyR, "", []string{
			`"value":"not_found","count":10`, `"value":"unknown_zone","count":10`, `"looked_at":20`,
			`"sample":{"trigger_id":"k28","tenant":"acme","detail":"write it so"}`,
			`"newest":"` + trigger.At(time.Unix(1_795_000_028, 0)).String() + `"`,
		}},
		{keyR, "&code=unknown_zone", []string{`{"groups":[{"value":"unknown_zone","count":10,`}},
		{keyR, "&trigger_id=k1", []string{`{"groups":[{"value":"unknown_zone","count":1,`}},
	} {
		a := w.must(http.StatusOK, "GET", "/v1/rejected?group_by=code"+c.query, "", bearer(c.key)...)
		for _, want := range c.want {
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: no %s in %s", c.query, want, a.body)
			}
		}
		if c.key == keyR && strings.Contains(a.body, "blue") || strings.Contains(a.body, "next_cursor") {
			t.Errorf("%s: %s", c.query, a.body)
		}
	}
	for _, by := range []string{"", "tenant"} {
		w.must(http.StatusBadRequest, "GET", "/v1/rejected?group_by="+by, "", bearer(keyR)...)
	}
}

// One answer counts so many records, and the next one goes on behind them.
func TestCountOfRefusalsIsBounded(t *testing.T) {
	const all = maxCounted + 7000
	_, value, headers := topics.RejectedRecord(&topics.Record{
		Topic: "waterclock.commands", Key: []byte("k"), Value: []byte("x"),
	}, &trigger.Error{Code: trigger.CodeNotFound})
	read := func(_ context.Context, p int32, from, until int64, f func(*kgo.Record) error) error {
		for at := from; at < until; at++ {
			r := &kgo.Record{Key: []byte("k"), Value: value, Partition: p, Offset: at, Timestamp: time.Unix(at, 0)}
			for _, h := range headers {
				r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
			}
			if err := f(r); err != nil {
				return err
			}
		}
		return nil
	}
	scans := []*refusalScan{{backward: backward{from: all}}, {backward: backward{partition: 1, from: 100}}}
	for _, want := range []int{maxCounted, all + 100 - maxCounted} {
		walk := refusalWalk{q: &refusalQuery{}, scans: scans, read: read}
		walk.atOnce = walk.share()
		var sums counts
		n, err := walk.count(t.Context(), &sums)
		if _, more := walk.rest(2); err != nil || n < want-refusalsCounted || n > want+refusalsCounted ||
			more != (want == maxCounted) {
			t.Errorf("%d were counted, and more is %v (%v), want about %d", n, more, err, want)
		}
		if got := sums.list(); len(got) != 1 || got[0].Count != int64(n) {
			t.Errorf("the groups are %+v, want %d of one", got, n)
		}
	}
}

// Of very many values so many are told apart, and the rest is counted together.
func TestCountsAreBounded(t *testing.T) {
	var sums counts
	for i := range 3 * maxGroups {
		sums.add(fmt.Sprint(i/2), trigger.Instant(i), GroupSample{Detail: fmt.Sprint(i)})
	}
	list := sums.list()
	if len(list) != maxGroups || sums.other != maxGroups {
		t.Errorf("%d groups and %d others", len(list), sums.other)
	}
	if list[0].Value != "0" || list[0].Count != 2 || list[0].Sample.Detail != "1" {
		t.Errorf("the first one is %+v", list[0])
	}
}
