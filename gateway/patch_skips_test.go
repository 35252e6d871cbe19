package gateway

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/trigger"
)

// The same rule keeps its skips by itself. So a patch of its times leaves exclude as it is, however many there were.
func TestPatchOfTimesLeavesExclude(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/p",
		`{"recurrence":"FREQ=DAILY","start":"2060-03-01T09:00","exclude":["2060-01-01"]}`)
	for day := range 20 {
		w.must(http.StatusOK, "POST", "/v1/triggers/p:skip", fmt.Sprintf(`{"occurrence":"2060-03-%02d"}`, day+2))
	}
	for day := range 30 {
		w.must(http.StatusOK, "PATCH", "/v1/triggers/p", fmt.Sprintf(`{"until":"2060-05-%02dT09:00"}`, day+1))
	}
	g := w.must(http.StatusOK, "GET", "/v1/triggers/p", "")
	if got := g.get(t, "exclude"); got != `["2060-01-01"]` {
		t.Errorf("exclude is %s", got)
	}
	o := w.must(http.StatusOK, "GET", "/v1/triggers/p/occurrences?n=2", "").body
	if !strings.Contains(o, "2060-03-01T09:00:00.000Z") || !strings.Contains(o, "2060-03-22T09:00:00.000Z") {
		t.Errorf("it fires at %s", o)
	}
}

// Another rule keeps the skips as dates that are excluded, each once.
func TestPatchOfRuleExcludesSkipsOnce(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/p", `{"recurrence":"FREQ=DAILY","start":"2060-03-01T09:00"}`)
	w.must(http.StatusOK, "POST", "/v1/triggers/p:skip", `{"occurrence":"2060-03-02"}`)
	w.must(http.StatusOK, "POST", "/v1/triggers/p:skip", `{"occurrence":"2060-03-03"}`)
	for range 3 {
		w.must(http.StatusOK, "PATCH", "/v1/triggers/p", `{"recurrence":"FREQ=DAILY;BYHOUR=9,12"}`)
		w.must(http.StatusOK, "PATCH", "/v1/triggers/p", `{"recurrence":"FREQ=DAILY;BYHOUR=9"}`)
	}
	g := w.must(http.StatusOK, "GET", "/v1/triggers/p", "")
	if got := g.get(t, "exclude"); got != `["2060-03-02T09:00:00","2060-03-03T09:00:00"]` {
		t.Errorf("exclude is %s", got)
	}
}

// What has fired is among the skips of a new plan. It does not come by another rule, and need not be excluded.
func TestPatchOfRuleDoesNotExcludeWhatFired(t *testing.T) {
	st := &trigger.State{
		Spec: trigger.Spec{When: trigger.When{
			Kind: trigger.WhenRecurrence, Recurrence: "FREQ=DAILY", Exclude: []string{"2026-12-24"},
		}},
		Series: trigger.Series{Skip: []string{
			"2026-03-01T09:00:00", "2026-03-02T09:00:00", "2026-03-03T09:00:00", "2026-11-01T01:30:00+f1",
		}},
		Done: []trigger.Firing{
			{Occurrence: "2026-03-01T09:00:00~3-7"},
			{Occurrence: "2026-03-02T09:00:00~3-7"},
			{Occurrence: "run-3-9~3-7"},
		},
	}
	_, fs, _, err := patched(st, fields{{"recurrence", []byte(`"FREQ=WEEKLY"`)}})
	if got := string(fs.value("exclude")); err != nil || got != `["2026-12-24","2026-03-03T09:00:00"]` {
		t.Errorf("exclude is %s, %v", got, err)
	}
}
