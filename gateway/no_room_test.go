package gateway

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/auth"
)

// While the disk of the broker in this process is full, no write is taken: it would be
// answered 202 until the last byte is gone, and the broker with it. Reads go on.
func TestNoRoom(t *testing.T) {
	var full atomic.Bool
	w := newWorld(t, func(o *Options) {
		o.NoRoom = func() string {
			if full.Load() {
				return "the disk is full"
			}
			return ""
		}
	})
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", at(""))
	full.Store(true)
	before := w.written(t, "")
	for _, r := range newRouteTable(&parts{}).all() {
		if r.right != auth.Write && r.right != auth.Act || r.method == http.MethodGet {
			continue
		}
		a := w.call(r.method, strings.ReplaceAll(strings.ReplaceAll(r.pattern, "{id}", "x"), "{name}", "x"), "")
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
			!strings.Contains(a.body, "the disk is full") {
			t.Errorf("%s %s: %d %s", r.method, r.pattern, a.status, a.body)
		}
	}
	w.must(http.StatusOK, "GET", "/v1/triggers/x", "")
	w.must(http.StatusOK, "POST", "/v1/preview", `{"delay":"1h"}`)
	if n := w.written(t, ""); n != before {
		t.Errorf("%d commands were written meanwhile", n-before)
	}
	full.Store(false)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/x", "")
}

// A write during which the disk fills up says so, and does not blame a broker that does not answer.
func TestRoomEndsDuringAWrite(t *testing.T) {
	for _, c := range []struct{ method, path, body string }{
		{"PUT", "/v1/triggers/x", at("")},
		{"POST", "/v1/triggers:batch", `{"id":"x","delay":"1d"}` + "\n" + `{"id":"y","delay":"1d"}`},
	} {
		t.Run(c.path, func(t *testing.T) {
			var full atomic.Bool
			w := newWorld(t, func(o *Options) {
				o.ProduceWithin = 3 * time.Second
				o.NoRoom = func() string {
					if full.Load() {
						return "the disk is full"
					}
					return ""
				}
			})
			w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				full.Store(true)
				return nil, errors.New("the connection ends"), true
			})
			a := w.call(c.method, c.path, c.body)
			if said := strings.Count(a.body, "the disk is full. Repeating it"); said != strings.Count(c.body, "\n")+1 ||
				strings.Contains(a.body, "Kafka has not") {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}
