package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/internal/logtest"
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
	before := w.written(t, "", 1)
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
	if n := w.written(t, "", before); n != before {
		t.Errorf("%d commands were written meanwhile", n-before)
	}
	full.Store(false)
	w.must(http.StatusOK, "DELETE", "/v1/triggers/x", "")
}

// A write during which the disk fills up says so, and does not blame a broker that does not answer.
func TestRoomEndsDuringAWrite(t *testing.T) {
	const repeat = "the disk is full. Repeating it"
	for _, c := range []struct {
		method, path, body, says string
		times                    int
		fills                    kmsg.Key // the request during which the disk fills up
	}{
		{"PUT", "/v1/triggers/x", at(""), repeat, 1, kmsg.Produce},
		{
			"POST", "/v1/triggers:batch", `{"id":"x","delay":"1d"}` + "\n" + `{"id":"y","delay":"1d"}`, repeat, 2,
			kmsg.Produce,
		},
		{"PUT", "/v1/calendars/x", `{"dates":["2027-01-01"]}`, "the disk is full", 1, kmsg.Produce},
		{"DELETE", "/v1/users/ada", "", "the disk is full", 1, kmsg.ListOffsets},
	} {
		t.Run(c.path, func(t *testing.T) {
			var full atomic.Bool
			w, _, _ := eraseWorld(t, func(o *Options) {
				o.ProduceWithin = 3 * time.Second
				o.NoRoom = func() string {
					if full.Load() {
						return "the disk is full"
					}
					return ""
				}
			})
			w.cluster.ControlKey(int16(c.fills), func(kmsg.Request) (kmsg.Response, error, bool) {
				w.cluster.KeepControl()
				full.Store(true)
				return nil, errors.New("the connection ends"), true
			})
			a := w.call(c.method, c.path, c.body)
			if a.status >= 500 && a.status != http.StatusServiceUnavailable || strings.Contains(a.body, "Kafka") ||
				strings.Count(a.body, c.says) != c.times {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
}

// Moves and erasures of users that are under way while the disk fills up fail at once, and say why. They go on when
// there is room.
func TestRoomEndsDuringUserWork(t *testing.T) {
	log, heard := &logtest.Buffer{}, &userWork{}
	var full atomic.Bool
	w, _, _ := eraseWorld(t, func(o *Options) {
		o.Listener, o.Logger = heard, slog.New(slog.NewTextHandler(log, nil))
		o.ProduceWithin = time.Hour
		o.NoRoom = func() string {
			if full.Load() {
				return "the disk is full"
			}
			return ""
		}
	})
	const daily = `{"recurrence":"FREQ=DAILY","timezone":"Europe/Berlin","user_id":"ada","follow_user":true}`
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", daily)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/y", strings.Replace(daily, "ada", "bob", 1))
	w.must(http.StatusOK, "PUT", "/v1/preferences/ada", `{"timezone":"Asia/Tokyo"}`)
	w.must(http.StatusAccepted, "DELETE", "/v1/users/bob", "")
	w.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
		w.cluster.KeepControl()
		full.Store(true)
		return nil, errors.New("the connection ends"), true
	})
	runMoves(t, w.server)
	runErasures(t, w.server)
	heard.until(t, "the move and the erasure to fail", func() bool {
		return heard.failed[0] > 0 && heard.failed[1] > 0
	})
	for _, work := range []string{"moving triggers", "erasing a user"} {
		if said := log.String(); !strings.Contains(said, work) || strings.Count(said, "the disk is full") < 2 {
			t.Errorf("the log does not say why %s failed:\n%s", work, said)
		}
	}
}
