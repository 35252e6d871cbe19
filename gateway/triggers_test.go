package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const farAhead = "2061-07-28T09:00:00.000Z"

func at(body string) string { return `{"fire_at":"` + farAhead + `"` + body + `}` }

func TestRegisterAnswers(t *testing.T) {
	w := newWorld(t, nil)
	a := w.must(http.StatusCreated, "POST", "/v1/triggers", `{"id":"a","fire_at":"`+farAhead+`","payload":{"n":1}}`)
	if a.body != `{"trigger_id":"a","fire_at":"`+farAhead+`","revision":1}`+"\n" {
		t.Errorf("answer %s", a.body)
	}
	if a.header.Get("ETag") != `"1"` || a.header.Get("Location") != "/v1/triggers/a" {
		t.Errorf("ETag %q, Location %q", a.header.Get("ETag"), a.header.Get("Location"))
	}
	repeat := w.must(http.StatusOK, "POST", "/v1/triggers", `{"id":"a","fire_at":"`+farAhead+`","payload":{"n":1}}`)
	if repeat.body != a.body {
		t.Errorf("the repeat answers %s", repeat.body)
	}
	w.engine.fire("a")
	if repeat = w.must(http.StatusOK, "POST", "/v1/triggers",
		`{"id":"a","fire_at":"`+farAhead+`","payload":{"n":1}}`); repeat.body != a.body {
		t.Errorf("the repeat after the firing answers %s", repeat.body)
	}
}

func TestIDs(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct{ name, id, path, want string }{
		{"plain", "hold-8c4", "hold-8c4", "hold-8c4"},
		{"with a colon", "order:42", "order%3A42", "order:42"},
		{"a colon as it is", "order:43", "order:43", "order:43"},
		{"like a verb", "x:snooze", "x%3Asnooze", "x:snooze"},
		{"space and percent", "a b%c", "a%20b%25c", "a b%c"},
		{"not ASCII", "später", "sp%C3%A4ter", "später"},
		{"dots", "...", "%2E..", "..."},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/"+c.path, at(""))
			if got := w.must(http.StatusOK, "GET", "/v1/triggers/"+c.path, "").get(t, "trigger_id"); got != c.want {
				t.Errorf("trigger_id %q, want %q", got, c.want)
			}
			if got := w.must(http.StatusOK, "POST", "/v1/triggers/"+c.path+":pause", "").get(t,
				"state"); got != "PAUSED" {
				t.Errorf("state %q after :pause", got)
			}
		})
	}
	made := w.must(http.StatusCreated, "POST", "/v1/triggers", at("")).get(t, "trigger_id")
	if !strings.HasPrefix(made, "trg_") || len(made) != 30 {
		t.Errorf("made id %q", made)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusNotFound, "DELETE", "/v1/triggers/never", "")
	w.must(http.StatusNotFound, "GET", "/v1/triggers/never", "") // though its cancel is remembered
	w.must(http.StatusCreated, "PUT", "/v1/triggers/d", at(""))
	if a := w.must(http.StatusOK, "DELETE", "/v1/triggers/d", ""); a.get(t, "state") != "CANCELLED" {
		t.Errorf("answer %s", a.body)
	}
	w.must(http.StatusOK, "DELETE", "/v1/triggers/d", "")
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/d", ""); a.get(t, "state") != "CANCELLED" {
		t.Errorf("then %s", a.body)
	}
	for _, channel := range []string{"default", "sms"} { // FIRED, and IN_FLIGHT
		id := "fired-" + channel
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, at(`,"channel":"`+channel+`"`))
		w.engine.fire("fired-default")
		if channel == "sms" {
			w.engine.fire("fired-sms")
		}
		if a := w.must(http.StatusConflict, "DELETE", "/v1/triggers/"+id, ""); a.get(t, "code") != "already_fired" ||
			a.get(t, "trigger_id") != id {
			t.Errorf("after the firing on %s: %s", channel, a.body)
		}
		if channel == "default" {
			break
		}
	}
}

func TestVerbs(t *testing.T) {
	w := newWorld(t, nil)
	series := `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","timezone":"Europe/Berlin"}`
	w.must(http.StatusCreated, "PUT", "/v1/triggers/s", series)
	for _, c := range []struct {
		name, path, body string
		want             int
		field, value     string
	}{
		{"pause", "s:pause", `{"note":"holiday"}`, 200, "state", "PAUSED"},
		{"resume", "s:resume", ``, 200, "state", "PENDING"},
		{"skip the next", "s:skip", ``, 200, "fire_at", "2060-01-02T08:00:00.000Z"},
		{"skip a day", "s:skip", `{"occurrence":"2060-01-03"}`, 200, "fire_at", "2060-01-02T08:00:00.000Z"},
		{"rezone", "s:rezone", `{"timezone":"Asia/Tokyo"}`, 200, "fire_at", "2060-01-02T00:00:00.000Z"},
		{"snooze", "s:snooze", `{"for":"10m"}`, 200, "state", "PENDING"},
		{"snooze without a time", "s:snooze", `{}`, 422, "code", "conflicting_time"},
		{"snooze with a rule", "s:snooze", `{"for":"1m","recurrence":"every:1h"}`, 422, "field", "recurrence"},
		{"run", "s:run", ``, 200, "state", "PENDING"},
		{"ack of nothing in flight", "s:ack", ``, 200, "state", "PENDING"},
		{"ack of nothing", "none:ack", ``, 404, "code", "not_found"},
		{"no such zone", "s:rezone", `{"timezone":"Mars/Olympus"}`, 422, "code", "unknown_zone"},
		{"of nothing", "none:pause", ``, 404, "code", "not_found"},
		{"no such verb", "s:explode", ``, 404, "code", "not_found"},
		{"no verb", "s", ``, 405, "code", "method_not_allowed"},
		{"not an object", "s:pause", `[]`, 400, "code", "malformed"},
		{"actor is ours", "s:pause", `{"actor":"root"}`, 422, "code", "unknown_field"},
		{"erase", "s:erase", ``, 200, "state", "ERASED"},
		{"erase what is erased", "s:erase", ``, 200, "state", "ERASED"},
		{"erase what nobody knows", "nobody:erase", ``, 200, "state", "ERASED"},
		{"ack of what is erased", "s:ack", ``, 200, "state", "ERASED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			a := w.must(c.want, "POST", "/v1/triggers/"+c.path, c.body)
			if got := a.get(t, c.field); got != c.value {
				t.Errorf("%s is %q, want %q: %s", c.field, got, c.value, a.body)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		name, method, path, body string
		want                     int
		code, field              string
	}{
		{"empty", "POST", "/v1/triggers", ``, 400, "malformed", ""},
		{"a list", "POST", "/v1/triggers", `[1]`, 400, "malformed", ""},
		{"cut off", "POST", "/v1/triggers", `{"delay":"1m"`, 400, "malformed", ""},
		{"two objects", "POST", "/v1/triggers", `{"delay":"1m"}{}`, 400, "malformed", ""},
		{"not UTF-8", "POST", "/v1/triggers", "{\"delay\":\"1m\",\"payload\":\"\xff\"}", 400, "malformed", ""},
		{"unknown field", "POST", "/v1/triggers", `{"delay":"1m","chanel":"x"}`, 422, "unknown_field", "chanel"},
		{"twice", "POST", "/v1/triggers", `{"delay":"1m","delay":"2m"}`, 422, "invalid", "delay"},
		{"wrong type", "POST", "/v1/triggers", `{"delay":{}}`, 422, "invalid", "delay"},
		{"no time", "POST", "/v1/triggers", `{}`, 422, "conflicting_time", "fire_at"},
		{
			"two times", "POST", "/v1/triggers", `{"delay":"1m","fire_at":"2061-01-01T00:00:00Z"}`, 422,
			"conflicting_time", "fire_at",
		},
		{
			"fire_at and dates", "POST", "/v1/triggers",
			`{"fire_at":"2061-01-01T00:00:00Z","include":["2061-01-02T00:00:00Z"]}`, 422, "conflicting_time", "fire_at",
		},
		{
			"no such zone", "POST", "/v1/triggers", `{"fire_at":"2061-01-01T00:00","timezone":"Mars/Olympus"}`, 422,
			"unknown_zone", "timezone",
		},
		{"bad rule", "POST", "/v1/triggers", `{"recurrence":"FREQ=SOMETIMES"}`, 422, "invalid_rule", "recurrence"},
		{"op", "POST", "/v1/triggers", `{"op":"cancel","id":"x"}`, 422, "unknown_field", "op"},
		{
			"large payload", "POST", "/v1/triggers", `{"delay":"1m","payload":"` + strings.Repeat("x", 4<<10) + `"}`,
			413,
			"too_large", "payload",
		},
		{
			"large body", "POST", "/v1/triggers", `{"delay":"1m","payload":"` + strings.Repeat("x", 300<<10) + `"}`,
			413,
			"too_large", "",
		},
		{"deep", "POST", "/v1/triggers", `{"delay":"1m","payload":` + strings.Repeat("[", 1000) +
			strings.Repeat("]", 1000) + `}`, 422, "invalid", "payload"},
		{
			"deeper", "POST", "/v1/triggers", `{"delay":"1m","payload":` + strings.Repeat("[", 100_000), 400,
			"malformed",
			"",
		},
		{"id of another type", "POST", "/v1/triggers", `{"delay":"1m","id":7}`, 422, "invalid", "id"},
		{"id empty", "POST", "/v1/triggers", `{"delay":"1m","id":""}`, 422, "invalid", "id"},
		{"id with control characters", "POST", "/v1/triggers", `{"delay":"1m","id":"a\u0001"}`, 422, "invalid_key", ""},
		{"id of a tenant", "POST", "/v1/triggers", `{"delay":"1m","id":"acme/x"}`, 422, "invalid_key", "id"},
		{"id not the path's", "PUT", "/v1/triggers/p", `{"delay":"1m","id":"q"}`, 422, "invalid", "id"},
		{"path of a tenant", "PUT", "/v1/triggers/acme%2Fx", `{"delay":"1m"}`, 404, "not_found", ""},
		{"read of a tenant", "GET", "/v1/triggers/acme%2Fx", ``, 404, "not_found", ""},
		{"long id", "PUT", "/v1/triggers/" + strings.Repeat("x", 256), `{"delay":"1m"}`, 422, "invalid_key", ""},
		{"unknown", "GET", "/v1/triggers/none", ``, 404, "not_found", ""},
		{"patch of nothing", "PATCH", "/v1/triggers/none", `{"payload":1}`, 404, "not_found", ""},
		{"no path", "GET", "/v2/triggers", ``, 404, "not_found", ""},
		{"no method", "PUT", "/v1/triggers", `{}`, 405, "method_not_allowed", ""},
		{
			"short form, text", "POST", "/v1/triggers", `{"callbackUrl":"https://x.example/","delaySeconds":"5"}`, 422,
			"invalid", "delaySeconds",
		},
		{
			"short form, negative", "POST", "/v1/triggers", `{"callbackUrl":"https://x.example/","delaySeconds":-5}`,
			422,
			"invalid", "delaySeconds",
		},
		{
			"short form, refused later", "POST", "/v1/triggers",
			`{"callbackUrl":"https://x.example/","delaySeconds":1e30}`, 422, "invalid", "delaySeconds",
		},
		{
			"short form, user info", "POST", "/v1/triggers",
			`{"callbackUrl":"https://a:b@x.example/","delaySeconds":1}`,
			422, "forbidden_url", "callbackUrl",
		},
		{
			"short form, mixed", "POST", "/v1/triggers",
			`{"callbackUrl":"https://x.example/","delaySeconds":5,"user_id":"u"}`, 422, "unknown_field", "user_id",
		},
		{"short form, half", "POST", "/v1/triggers", `{"delaySeconds":5}`, 422, "invalid", "callbackUrl"},
		{
			"user info", "POST", "/v1/triggers", `{"delay":"1m","callback":{"url":"https://a:b@x.example/"}}`, 422,
			"forbidden_url", "callback",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := w.on(t)
			a := w.must(c.want, c.method, c.path, c.body)
			if a.get(t, "code") != c.code || a.get(t, "field") != c.field {
				t.Errorf("code %q field %q, want %q %q: %s", a.get(t, "code"), a.get(t, "field"), c.code, c.field,
					a.body)
			}
			if got := a.header.Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("Content-Type %q", got)
			}
			if a.get(t, "status") != fmt.Sprint(c.want) || a.get(t, "title") == "" {
				t.Errorf("status and title in %s", a.body)
			}
		})
	}
}

func TestShortForm(t *testing.T) {
	w := newWorld(t, nil)
	a := w.must(http.StatusCreated, "POST", "/v1/triggers",
		`{"callbackUrl":"https://x.example/hook","payload":{"a":1},"delaySeconds":420}`)
	id := a.get(t, "triggerId")
	if id == "" || a.get(t, "fireAt") == "" || a.get(t, "revision") != "1" || a.get(t, "trigger_id") != "" {
		t.Fatalf("answer %s", a.body)
	}
	g := w.must(http.StatusOK, "GET", "/v1/triggers/"+id, "")
	for path, want := range map[string]string{
		"channel": "webhook", "callback.url": "https://x.example/hook",
		"payload": `{"a":1}`, "delay": "420",
	} {
		if got := g.get(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

func TestGetShows(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/g", `{"recurrence":"FREQ=WEEKLY;BYDAY=MO","start":"2060-01-05T09:00","timezone":"America/New_York",
		"exclude":["2060-01-12"],"user_id":"u1","tags":{"team":"a"},"priority":"low","jitter":"1m","payload_base64":"AAE=","headers":{"x":"y"},
		"expires_after":"90s","misfire":"skip","dst":{"gap":"skip"},"correlation_id":"c"}`)
	a := w.must(http.StatusOK, "GET", "/v1/triggers/g", "")
	for path, want := range map[string]string{
		"trigger_id": "g", "tenant": "default", "state": "PENDING", "revision": "1", "channel": "default",
		"user_id": "u1",
		"fire_at": "2060-01-05T14:00:00.000Z", "local_time": "2060-01-05T09:00:00[America/New_York]",
		"timezone":   "America/New_York",
		"recurrence": "FREQ=WEEKLY;BYDAY=MO", "start": "2060-01-05T09:00:00", "exclude": `["2060-01-12"]`,
		"payload_base64": "AAE=", "payload": "",
		"tags": `{"team":"a"}`, "priority": "low", "misfire": "skip", "jitter": "1m", "expires_after": "1m30s",
		"headers": `{"x":"y"}`,
		"dst":     `{"gap":"skip"}`, "attempt": "0", "correlation_id": "c", "tzdata": calendarRelease,
	} {
		if got := a.get(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	if a.get(t, "created_at") == "" || a.get(t, "updated_at") == "" || a.get(t, "next_fire_at") < a.get(t, "fire_at") {
		t.Errorf("times in %s", a.body)
	}
}

func TestSilentOwner(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.AnswerWithin = 50 * time.Millisecond })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", at("")) // warm
	w.engine.freeze()
	a := w.must(http.StatusAccepted, "PUT", "/v1/triggers/late", at(""))
	if a.body != `{"trigger_id":"late"}`+"\n" || a.header.Get("Location") != "/v1/triggers/late" {
		t.Errorf("answer %s", a.body)
	}
	if a := w.must(http.StatusAccepted, "DELETE", "/v1/triggers/x", ""); a.body != `{"trigger_id":"x"}`+"\n" {
		t.Errorf("answer %s", a.body)
	}
	w.engine.thaw()
	w.must(http.StatusOK, "PUT", "/v1/triggers/late", at(""))
}

func TestRespondAsync(t *testing.T) {
	w := newWorld(t, nil)
	w.engine.freeze()
	w.must(http.StatusAccepted, "POST", "/v1/triggers", at(`,"id":"async"`), "Prefer", "respond-async")
	for _, preference := range []string{"respond-async", "Respond-Async", "wait=10, respond-async;x=1"} {
		w.must(http.StatusAccepted, "POST", "/v1/triggers/async:pause", "", "Prefer", preference)
	}
	w.engine.thaw()
	w.must(http.StatusOK, "PUT", "/v1/triggers/async", at(""))
	if a := w.must(http.StatusOK, "PUT", "/v1/triggers/async", at(""), "Prefer",
		`handling="no-respond-async"`); a.header.Get("Preference-Applied") != "" {
		t.Errorf("applied %s", a.header.Get("Preference-Applied"))
	}
}

func TestForgottenDecision(t *testing.T) {
	w := newWorld(t, nil)
	w.engine.forget()
	w.must(http.StatusOK, "PUT", "/v1/triggers/f", at(""))                                   // the state proves it
	w.must(http.StatusAccepted, "PUT", "/v1/triggers/f", at(`,"if_revision":9,"payload":1`)) // it does not
	w.must(http.StatusAccepted, "POST", "/v1/triggers/f:pause", "")
	w.must(http.StatusOK, "DELETE", "/v1/triggers/f", "")
}

func TestKafkaAway(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.ProduceWithin = 200 * time.Millisecond })
	w.must(http.StatusCreated, "PUT", "/v1/triggers/x", at(""))
	w.cluster.Close()
	a := w.must(http.StatusServiceUnavailable, "POST", "/v1/triggers", at(""))
	if a.header.Get("Retry-After") == "" || !strings.HasPrefix(a.get(t, "trigger_id"), "trg_") ||
		a.get(t, "code") != "unavailable" {
		t.Errorf("answer %s", a.body)
	}
}
