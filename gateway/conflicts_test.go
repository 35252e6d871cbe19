package gateway

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
)

// If-Match: * asks only that the trigger be there (RFC 9110, 13.1.1): who else
// changes it meanwhile is no reason for a 412.
func TestIfMatchOfAnyRevision(t *testing.T) {
	for _, c := range []struct{ name, method, path, body string }{
		{"put", "PUT", "/v1/triggers/m", at(`,"payload":%d`)},
		{"post", "POST", "/v1/triggers", at(`,"id":"m","payload":%d`)},
		{"patch", "PATCH", "/v1/triggers/m", `{"payload":%d}`},
		{"verb", "POST", "/v1/triggers/m:snooze", `{"until":"2060-01-01T00:00:%02dZ"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.must(http.StatusCreated, "PUT", "/v1/triggers/m", at(""))
			answers := make(chan int, 8)
			for i := range cap(answers) {
				go func() { answers <- w.call(c.method, c.path, fmt.Sprintf(c.body, i), "If-Match", "*").status }()
			}
			var got []int
			for range cap(answers) {
				got = append(got, <-answers)
			}
			if slices.Max(got) != http.StatusOK {
				t.Errorf("answers %v", got)
			}
		})
	}
}

// One of several revisions: the others are another matter as soon as it has
// passed.
func TestIfMatchOfSeveralRevisions(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/m", at(""))
	answers := make(chan int, 8)
	for i := range cap(answers) {
		go func() {
			answers <- w.call("PATCH", "/v1/triggers/m", fmt.Sprintf(`{"payload":%d}`, i), "If-Match",
				`"1", "2", "3"`).status
		}()
	}
	made := 0
	for range cap(answers) {
		switch s := <-answers; s {
		case http.StatusOK:
			made++
		case http.StatusPreconditionFailed:
		default:
			t.Errorf("status %d", s)
		}
	}
	if made != 3 {
		t.Errorf("%d were made, want those of revisions 1, 2 and 3", made)
	}
}
