package gateway

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

const namesUS = `{"recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","calendars":{"names":["us"],"on":"skip"}}`

// calendarWorld has calendar us, in Kafka and where triggers are decided.
func calendarWorld(t *testing.T, change func(*Options)) *world {
	w := newWorld(t, change)
	if err := w.engine.machine.Timetable.PutCalendar("us", []string{"2060-12-25"}); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":["2060-12-25"]}`)
	return w
}

func TestDeleteCalendar(t *testing.T) {
	w := calendarWorld(t, nil)
	w.must(http.StatusNotFound, "DELETE", "/v1/calendars/none", "")
	for i := range 7 {
		w.must(http.StatusCreated, "PUT", fmt.Sprintf("/v1/triggers/t%d", i), namesUS)
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/other", at(""))
	a := w.must(http.StatusConflict, "DELETE", "/v1/calendars/us", "")
	for name, want := range map[string]string{
		"code": "conflict", "field": "name", "triggers": `["t0","t1","t2","t3","t4"]`, "trigger_count": "7",
		"detail": "7 triggers name the calendar, such as t0, t1, t2, t3, t4: cancel them, or register them without it",
	} {
		if got := a.get(t, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	w.must(http.StatusOK, "GET", "/v1/calendars/us", "")
	for i := range 6 {
		w.must(http.StatusOK, "DELETE", fmt.Sprintf("/v1/triggers/t%d", i), "")
	}
	if a = w.must(http.StatusConflict, "DELETE", "/v1/calendars/us", ""); a.get(t, "trigger_count") != "1" {
		t.Error(a.body)
	}
	w.must(http.StatusOK, "PUT", "/v1/triggers/t6", at("")) // names it no more
	a = w.must(http.StatusOK, "DELETE", "/v1/calendars/us", "")
	if a.body != `{"name":"us","dates":["2060-12-25"]}`+"\n" {
		t.Errorf("answer %s", a.body)
	}
	w.must(http.StatusNotFound, "GET", "/v1/calendars/us", "")
	w.must(http.StatusNotFound, "DELETE", "/v1/calendars/us", "")
	if a := w.must(http.StatusOK, "GET", "/v1/calendars", ""); a.body != `{"items":[]}`+"\n" {
		t.Errorf("the list is %s", a.body)
	}
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":[]}`)
}

// Only an operator deletes, and learns of other tenants' triggers their number.
func TestDeleteCalendarOfTenants(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	auth := func(key string) []string { return []string{"Authorization", "Bearer " + key} }
	if err := w.engine.machine.Timetable.PutCalendar("us", []string{}); err != nil {
		t.Fatal(err)
	}
	w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":[]}`, auth(keyO)...)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/t", namesUS, auth(keyB)...)
	w.must(http.StatusForbidden, "DELETE", "/v1/calendars/us?scope=cluster", "", auth(keyA)...)
	a := w.must(http.StatusConflict, "DELETE", "/v1/calendars/us", "", auth(keyO)...)
	if a.get(t, "trigger_count") != "1" || a.get(t, "triggers") != "" || a.get(t, "detail") !=
		"1 trigger of another tenant names the calendar: cancel them, or register them without it" {
		t.Error(a.body)
	}
}

// racing registers a trigger while the delete waits for partitions to apply it.
type racing struct {
	*engine
	key trigger.Key
}

func (r racing) Partitions() []peer.PartitionStatus {
	r.set(func() {
		r.states[r.key] = &trigger.State{Key: r.key, Status: trigger.Pending, Spec: trigger.Spec{
			When: trigger.When{Kind: trigger.WhenRecurrence, Calendars: &trigger.Calendars{Names: []string{"us"}}},
		}}
	})
	return r.engine.Partitions()
}

// A register that arrives after the check keeps its calendar.
func TestDeleteCalendarPutsBack(t *testing.T) {
	w := calendarWorld(t, nil)
	_, url := w.gateway(racing{w.engine, "late"}, nil)
	if a := w.callAt(url, "DELETE", "/v1/calendars/us", ""); a.status != http.StatusConflict ||
		a.get(t, "triggers") != `["late"]` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.must(http.StatusOK, "GET", "/v1/calendars/us",
		""); a.body != `{"name":"us","dates":["2060-12-25"]}`+"\n" {
		t.Errorf("it was not put back: %s", a.body)
	}
}

// edited changes the calendar while a delete looks for triggers that name it.
type edited struct {
	racing
	once *sync.Once
	edit func()
}

func (e edited) Scan(ctx context.Context, p int32, after trigger.Key, f func(*trigger.State) bool) error {
	e.once.Do(e.edit)
	return e.racing.Scan(ctx, p, after, f)
}

// A delete that is refused takes nobody's edit back.
func TestRefusedDeleteOfWhatWasEdited(t *testing.T) {
	w := calendarWorld(t, nil)
	_, url := w.gateway(edited{racing{w.engine, "late"}, &sync.Once{}, func() {
		w.must(http.StatusOK, "PUT", "/v1/calendars/us", `{"dates":["2061-01-01"]}`)
	}}, nil)
	if a := w.callAt(url, "DELETE", "/v1/calendars/us", ""); a.status != http.StatusConflict {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := w.must(http.StatusOK, "GET", "/v1/calendars/us", ""); !strings.Contains(a.body, "2061-01-01") {
		t.Errorf("the edit is lost: %s", a.body)
	}
}

// A partition that does not apply the deletion may yet decide a register by the
// calendar: nothing is deleted.
func TestDeleteCalendarNotApplied(t *testing.T) {
	old := appliedWithin
	appliedWithin = 200 * time.Millisecond
	defer func() { appliedWithin = old }()
	w := calendarWorld(t, nil)
	w.engine.set(func() { w.engine.control = 0 })
	if a := w.must(http.StatusServiceUnavailable, "DELETE", "/v1/calendars/us", ""); a.header.Get("Retry-After") == "" {
		t.Error(a.body)
	}
	w.must(http.StatusOK, "GET", "/v1/calendars/us", "")
	w.engine.set(func() { w.engine.control = 1 << 40; w.engine.foreign[1] = true }) // no owner: nobody can say
	w.must(http.StatusServiceUnavailable, "DELETE", "/v1/calendars/us", "")
	w.must(http.StatusOK, "GET", "/v1/calendars/us", "")
}

// An instance that owns nothing asks those that do.
func TestDeleteCalendarInACluster(t *testing.T) {
	w, urls, _ := newCluster(t)
	if err := w.engine.machine.Timetable.PutCalendar("us", []string{}); err != nil {
		t.Fatal(err)
	}
	if a := w.callAt(urls[2], "PUT", "/v1/calendars/us", `{"dates":[]}`); a.status != http.StatusOK {
		t.Fatal(a.body)
	}
	for i := range 8 {
		if a := w.callAt(urls[i%3], "PUT", fmt.Sprintf("/v1/triggers/t%d", i),
			namesUS); a.status != http.StatusCreated {
			t.Fatal(a.body)
		}
	}
	a := w.callAt(urls[2], "DELETE", "/v1/calendars/us", "")
	if a.status != http.StatusConflict || a.get(t, "trigger_count") != "8" ||
		a.get(t, "triggers") != `["t0","t1","t2","t3","t4"]` {
		t.Fatalf("%d %s", a.status, a.body)
	}
	for i := range 8 {
		w.callAt(urls[0], "DELETE", fmt.Sprintf("/v1/triggers/t%d", i), "")
	}
	if a := w.callAt(urls[2], "DELETE", "/v1/calendars/us", ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
}

// A delete is charged for the triggers that it visits, here and where another instance owns them. For a tenant's own
// calendar these are the tenant's own triggers.
func TestDeleteCalendarIsPaidFor(t *testing.T) {
	for _, tenant := range []struct{ name, auth string }{
		{"acme", "Bearer " + keyA}, {trigger.DefaultTenant, "Bearer " + keyD},
	} {
		for _, c := range []struct {
			own, others int
			want        int // of the read behind the delete
		}{
			{40_000, 0, http.StatusTooManyRequests}, // paid off after 30 s
			{10, 12_000, http.StatusOK},
		} {
			for _, owns := range []bool{true, false} {
				w, urls, _ := newClusterWith(t, func(o *Options) {
					o.Auth, o.CalendarInterval = testKeys(t), time.Nanosecond
					o.ReadRate = func(string) float64 { return 1000 } // and ten times that at once
				})
				w.engine.many(tenant.name, c.own)
				w.engine.many("a", c.others/2) // a/… sorts before acme/…, and among those of tenant default
				w.engine.many("zoo", c.others/2)
				base := w.url
				if !owns {
					base = urls[2]
				}
				call := func(method, path, body string) answer {
					return w.callAt(base, method, path, body, "Authorization", tenant.auth)
				}
				if a := call("PUT", "/v1/calendars/us", `{"dates":[]}`); a.status != http.StatusOK {
					t.Fatal(a.body)
				}
				w.engine.set(func() {
					if err := w.engine.machine.Timetable.PutCalendar(trigger.OwnCalendar(tenant.name, "us"),
						[]string{}); err != nil {
						t.Fatal(err)
					}
				})
				if a := call("PUT", "/v1/triggers/user", namesUS); a.status != http.StatusCreated {
					t.Fatal(a.body)
				}
				if a := call("DELETE", "/v1/calendars/us", ""); a.status != http.StatusConflict ||
					a.get(t, "triggers") != `["user"]` {
					t.Fatalf("%d %s", a.status, a.body)
				}
				if a := call("GET", "/v1/triggers?limit=1", ""); a.status != c.want {
					t.Errorf("%s, %+v, owns %t: the next read is %d %s", tenant.name, c, owns, a.status, a.body)
				}
				if a := call("DELETE", "/v1/calendars/us", ""); c.want == http.StatusTooManyRequests &&
					(a.status != c.want || a.header.Get("Retry-After") == "") {
					t.Errorf("%s: the next delete is %d %s", tenant.name, a.status, a.body)
				}
			}
		}
	}
}

// many adds n triggers of a tenant that name no calendar.
func (e *engine) many(tenant string, n int) {
	e.set(func() {
		for i := range n {
			key := trigger.Key(fmt.Sprintf("%s/%05d", tenant, i))
			if tenant == trigger.DefaultTenant {
				key = trigger.Key(fmt.Sprintf("b%05d", i))
			}
			e.states[key] = &trigger.State{Key: key, Status: trigger.Pending, Spec: trigger.Spec{Channel: "default"}}
		}
	})
}

// slow takes for ever to read its triggers, from one scan on.
type slow struct {
	*engine
	scans *atomic.Int64 // that are left
}

func (s slow) Scan(ctx context.Context, p int32, after trigger.Key, f func(*trigger.State) bool) error {
	if s.scans.Add(-1) < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.engine.Scan(ctx, p, after, f)
}

// A delete that cannot find out in time who names the calendar says so, before and after it has deleted, and
// the calendar stays.
func TestDeleteCalendarOfTooManyTriggers(t *testing.T) {
	old := usersWithin
	usersWithin = 200 * time.Millisecond
	defer func() { usersWithin = old }()
	w := calendarWorld(t, nil)
	for _, scans := range []int64{0, testPartitions - 1, testPartitions, 2*testPartitions - 1} {
		left := &atomic.Int64{}
		left.Store(scans)
		_, url := w.gateway(slow{w.engine, left}, nil)
		began := time.Now()
		a := w.callAt(url, "DELETE", "/v1/calendars/us", "")
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" ||
			!strings.Contains(a.get(t, "detail"), "takes longer than 200ms, so it stays") {
			t.Errorf("after %d scans: %d %s", scans, a.status, a.body)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %s", took)
		}
		if a := w.must(http.StatusOK, "GET", "/v1/calendars/us",
			""); a.body != `{"name":"us","dates":["2060-12-25"]}`+"\n" {
			t.Errorf("after %d scans: %s", scans, a.body)
		}
	}
}
