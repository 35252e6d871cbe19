package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// CONTRACT 5: a dead-letter record is the due event plus wc-error-*. What had
// been applied when the event was decided is not remembered, so a dead letter
// does not say it.
func TestDeadLetterIsTheDueEvent(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	due, dead := w.Tail(w.Names.Due("r-push")), w.Tail(w.Names.DeadLetter())
	w.Send("k", `{"op":"register","delay":"10ms","channel":"r-push","payload":{"a":1},"headers":{"x":"y"},"tags":{"type":"t"},"expires_after":"1h"}`)
	var last *kgo.Record
	for attempt := 1; attempt <= 3; attempt++ {
		last = due.Next()
		w.Receipt("k", fmt.Sprintf(`{"due_id":%q,"channel":"r-push","outcome":"retry","attempt":%d,"code":"503"}`, pipelinetest.Header(last, "ce_id"), attempt))
	}
	letter := dead.Next()
	got, want := headersOf(letter, "wc-error-"), headersOf(last, "ce_wcbasis")
	if got != want || string(letter.Value) != string(last.Value) {
		t.Errorf("the dead letter is %s\n%s\nits due event\n%s", letter.Value, got, want)
	}
	if code := pipelinetest.Header(letter, "wc-error-code"); code != "503" {
		t.Errorf("wc-error-code %q", code)
	}
}

// headersOf are a record's, a line each, but for those that begin like without.
func headersOf(r *kgo.Record, without string) string {
	var b strings.Builder
	for _, h := range r.Headers {
		if !strings.HasPrefix(h.Key, without) {
			fmt.Fprintf(&b, "%s=%s\n", h.Key, h.Value)
		}
	}
	return b.String()
}
