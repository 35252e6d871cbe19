package problem

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// What turns a line around or is not seen is escaped, and decodes to what it was.
func TestProblemsShowWhatIsHidden(t *testing.T) {
	id := "a\u202eb\u200b\u2028\u00a0ü😀\U000e0041\"<\\"
	p := NotFound(id)
	w := httptest.NewRecorder()
	p.Send(w)
	b := w.Body.Bytes()
	if strings.ContainsAny(string(b), "\u202e\u200b\u2028\u00a0\U000e0041") {
		t.Errorf("hidden characters: %s", b)
	}
	for _, want := range []string{`\u202e`, `\u200b`, `\u00a0`, `\udb40\udc41`, "ü😀"} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s has no %s", b, want)
		}
	}
	var got Problem
	if err := json.Unmarshal(b, &got); err != nil || got.TriggerID != id {
		t.Errorf("got %q, %v", got.TriggerID, err)
	}
}
