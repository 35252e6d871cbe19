package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// Each coming occurrence has the note that a preview has of it: the planned one, of which the state keeps no note, too.
func TestOccurrencesHaveNotes(t *testing.T) {
	w := newWorld(t, nil)
	for id, body := range map[string]string{
		"gap":   `{"recurrence":"FREQ=DAILY","start":"2060-03-13T02:30","timezone":"America/New_York"}`,
		"first": `{"recurrence":"FREQ=DAILY","start":"2060-03-14T02:30","timezone":"America/New_York"}`,
		"once":  `{"fire_at":"2060-11-07T01:30","timezone":"America/New_York"}`,
		"plain": `{"recurrence":"every:1h","start":"2060-01-01T00:00:00Z"}`,
	} {
		w.must(http.StatusCreated, "PUT", "/v1/triggers/"+id, body)
	}
	for _, c := range []struct {
		id   string
		want []string
	}{
		{"gap", []string{"", "gap: shifted 1h", ""}},
		{"first", []string{"gap: shifted 1h", "", ""}},
		{"once", []string{"overlap: first pass"}},
		{"plain", []string{"", "", ""}},
	} {
		items := strings.Split(w.must(http.StatusOK, "GET", "/v1/triggers/"+c.id+"/occurrences?n=3", "").body, "},{")
		if len(items) != len(c.want) {
			t.Errorf("%s has %q, want %d", c.id, items, len(c.want))
			continue
		}
		for i, note := range c.want {
			if has := strings.Contains(items[i], `"note":`); has != (note != "") ||
				has && !strings.Contains(items[i], `"note":"`+note+`"`) {
				t.Errorf("%s: number %d is %s, want the note %q", c.id, i, items[i], note)
			}
		}
	}
	w.must(http.StatusCreated, "PUT", "/v1/triggers/skips", `{"recurrence":"FREQ=DAILY","start":"2060-03-13T02:30",`+
		`"timezone":"America/New_York","dst":{"gap":"skip"}}`)
	a := w.must(http.StatusOK, "GET", "/v1/triggers/skips/occurrences?n=2", "").body
	want := `"left_out":[{"at":"2060-03-14T07:00:00.000Z","local_time":"2060-03-14T02:30:00[America/New_York]",` +
		`"occurrence":"2060-03-14T02:30:00","note":"gap: skipped, clocks jump from 02:00 to 03:00"}]`
	if !strings.Contains(a, want) {
		t.Errorf("no %s in %s", want, a)
	}
	a = w.must(http.StatusOK, "GET", "/v1/triggers/skips/occurrences?n=1", "").body
	if strings.Contains(a, "left_out") {
		t.Errorf("the first one comes before: %s", a)
	}
	w.must(http.StatusOK, "POST", "/v1/triggers/first:skip", "")
	if a := w.must(http.StatusOK, "GET", "/v1/triggers/first/occurrences?n=1", ""); strings.Contains(a.body, "note") {
		t.Errorf("the next one is not in the gap: %s", a.body)
	}
}
