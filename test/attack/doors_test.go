package attack

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/rawbatch"
)

// bombed are bodies and batches that are small on the wire.
var bombed = sync.OnceValue(func() (b struct {
	body            string
	refused, filled [][]byte // by the broker; by the engine
},
) {
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	spaces := bytes.Repeat([]byte{' '}, 1<<20)
	for range 256 {
		_, _ = z.Write(spaces)
	}
	_ = z.Close()
	b.body = text.String()
	for codec, zeros := range map[string]int64{"zstd": 1<<31 - 1<<20, "gzip": 256 << 20} {
		for _, part := range rawbatch.Parts {
			record := rawbatch.Record{Key: []byte("attacker/k"), Value: []byte("{}"), Large: part}
			for _, n := range []int64{zeros, 8 << 20} {
				record.Zeros = n
				batch := rawbatch.Spec{Codec: codec, Records: []rawbatch.Record{record}}.Batch()
				if n == zeros {
					b.refused = append(b.refused, batch)
				} else {
					b.filled = append(b.filled, batch)
				}
			}
		}
	}
	return b
})

// encodedBodies decompress to 256 MiB each (security 3).
func encodedBodies(ctx context.Context, t *testing.T, a *tenant) {
	body := bombed().body
	got := a.many(ctx, 8, func(i int) answer {
		path := []string{"/v1/triggers", "/v1/triggers:batch", "/v1/preview"}[i%3]
		return a.try(ctx, "POST", path, body, "Content-Encoding", "gzip")
	})
	t.Logf("answers: %v", got)
	onlyAnswered(t, got, http.StatusUnsupportedMediaType)
}

// bombs are batches of up to 2 GiB decompressed, and such of 8 MiB, which fit (security 3). Who may
// write them has WRITE on the topic.
func bombs(ctx context.Context, t *testing.T, a *tenant) {
	all := bombed()
	cl, err := kgo.NewClient(kgo.SeedBrokers(a.n.kafka))
	if err != nil {
		t.Error(err)
		return
	}
	defer cl.Close()
	for sent := 0; ; {
		for i, batch := range slices.Concat(all.refused, all.filled) {
			_, err := rawbatch.Send(ctx, cl, "waterclock.commands", int32(i%4), batch)
			switch refused := i < len(all.refused); {
			case ctx.Err() != nil:
				t.Logf("%d batches", sent)
				return
			case refused && !errors.Is(err, kerr.MessageTooLarge):
				t.Errorf("batch %d: %v, want MESSAGE_TOO_LARGE", i, err)
			case !refused && err != nil:
				t.Errorf("batch %d: %v", i, err)
			}
			sent++
			pause(ctx, refusedFor)
		}
	}
}

// onlyAnswered holds that what was answered in time was answered so.
func onlyAnswered(t *testing.T, got map[int]int, want int) {
	t.Helper()
	for status := range got {
		if status != want {
			t.Errorf("answers: %v, want %d alone", got, want)
		}
	}
}

// assembled makes the bombs before anything is measured, and shows that each is one.
func assembled(t *testing.T, a *tenant) {
	all := bombed()
	if len(all.refused) != 6 || len(all.filled) != 6 || len(all.body) > 1<<20 {
		t.Fatalf("%d and %d batches, and a body of %d bytes", len(all.refused), len(all.filled), len(all.body))
	}
	a.must(t, http.StatusUnsupportedMediaType, "POST", "/v1/triggers", all.body, "Content-Encoding", "gzip")
}

// door is a request that must be refused, whoever the attacker is.
type door struct {
	key, method, path, body string
	want                    int
	code                    string // of the problem, if it matters
}

// doorsOf are the rest of the list (security 5, 9, 11), and what was added since.
func doorsOf() []door {
	private := func(url string) door {
		return door{
			attackerKey, "POST", "/v1/triggers", `{"delay":"1d","callback":{"url":"` + url + `"}}`,
			http.StatusUnprocessableEntity, "forbidden_url",
		}
	}
	all := []door{
		private("http://169.254.169.254/latest/meta-data/"), private("https://10.0.0.1/"),
		private("https://2130706433/"),
		private("https://[::ffff:10.0.0.1]/"), private("https://kafka.internal/"),
		private("https://user:pw@example.com/"),
		private("http://example.com/"), private("https://example.com:22/"), private("file:///etc/passwd"),
	}
	return append(all, []door{
		{attackerKey, "GET", "/v1/triggers/first", "", http.StatusNotFound, ""},
		{attackerKey, "PATCH", "/v1/triggers/first", `{"delay":"2d"}`, http.StatusNotFound, ""},
		{attackerKey, "DELETE", "/v1/triggers/first", "", http.StatusNotFound, ""},
		{attackerKey, "GET", "/v1/partitions", "", http.StatusForbidden, ""},
		{attackerKey, "POST", "/v1/reconcile", "", http.StatusForbidden, ""},
		{attackerKey, "DELETE", "/v1/channels/default", "", http.StatusForbidden, ""},
		{attackerKey, "GET", "/v1/endpoints", "", http.StatusForbidden, ""},
		{attackerKey, "POST", "/v1/endpoints:test", `{"url":"http://127.0.0.1/"}`, http.StatusForbidden, ""},
		{attackerKey, "PUT", "/v1/calendars/holidays?scope=cluster", `{"dates":["2030-01-01"]}`, http.StatusForbidden, ""},
		{attackerKey, "DELETE", "/v1/calendars/holidays?scope=cluster", "", http.StatusForbidden, ""},
		{readerKey, "PUT", "/v1/triggers/x", `{"delay":"1d"}`, http.StatusForbidden, ""},
		{readerKey, "PUT", "/v1/preferences/u1", `{}`, http.StatusForbidden, ""},
		{readerKey, "POST", "/v1/dead-letters:redrive", `{}`, http.StatusForbidden, ""},
		{attackerKey, "GET", "/metrics", "", http.StatusNotFound, ""},
		{attackerKey, "GET", "/readyz", "", http.StatusNotFound, ""},
		{"", "GET", "/metrics", "", 0, ""},
		{"", "GET", "/v1/triggers", "", http.StatusUnauthorized, ""},
		{"", "GET", "/v1/preferences/u1", "", http.StatusUnauthorized, ""},
		{"", "GET", "/v1/users/u1/notifications", "", http.StatusUnauthorized, ""},
		{"", "GET", "/a/" + strings.Repeat("A", 64), "", 0, ""},
		{"", "POST", "/a/" + strings.Repeat("A", 64), "", 0, ""},
		{"", "POST", "/u/" + strings.Repeat("A", 64), "", 0, ""},
		{"", "POST", "/v1/providers/twilio/status", "MessageSid=SM1&MessageStatus=delivered", 0, ""},
		{attackerKey, "POST", "/v1/triggers", `{"delay":"1d","headers":{"a\nb":"x"}}`, 422, ""},
		{attackerKey, "POST", "/v1/triggers", `{"delay":"1d","headers":{"a":"x\r\nSet-Cookie: y"}}`, 422, ""},
		{attackerKey, "POST", "/v1/triggers", strings.Repeat(`{"payload":`, 20_000), http.StatusBadRequest, ""},
	}...)
}

// closedDoors tries each as often as it is answered.
func closedDoors(ctx context.Context, t *testing.T, a *tenant) {
	all := doorsOf()
	var next atomic.Int64
	var seen sync.Map
	a.many(ctx, 8, func(int) answer {
		i := int(next.Add(1)) % len(all)
		d := all[i]
		got := a.with(d.key).try(ctx, d.method, d.path, d.body)
		wrong := d.want != 0 && got.status != d.want || got.status < 400 || got.status >= 500 ||
			d.code != "" && got.problem().Code != d.code
		if _, before := seen.LoadOrStore(i, true); wrong && got.status != 0 && !before {
			t.Errorf("%s %s %.80s: %s, want %d %s", d.method, d.path, d.body, got, d.want, d.code)
		}
		return got
	})
	t.Logf("%d requests", next.Load())
	if int(next.Load()) < len(all) {
		t.Logf("not every door was tried in this round")
	}
}
