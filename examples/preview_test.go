package examples

import (
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/calendar"
)

// previewNow is the clock of questions that name no `after`.
var previewNow = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// TestPreviewsInSemantics runs each question, a line that begins with {, and
// compares the lines below it with the answer.
func TestPreviewsInSemantics(t *testing.T) {
	holidays, err := calendar.NewDateSet([]string{"2026-12-25"})
	if err != nil {
		t.Fatal(err)
	}
	named := func(name string) (calendar.DateSet, bool) { return holidays, name == "us-holidays" }
	executed(t, semantics, "preview", func(_ *testing.T, block []string) (out []string) {
		for _, line := range block {
			if strings.HasPrefix(line, "{") {
				out = append(append(out, line), answer(named, line)...)
			}
		}
		return out
	})
}

func answer(named calendar.CalendarSource, question string) (out []string) {
	resp, refused := calendar.PreviewWith(calendar.Embedded(), named, []byte(question), previewNow)
	if refused != nil {
		return []string{"  " + string(refused.Code) + ", field " + refused.Field + ": " + refused.Msg}
	}
	for _, o := range resp.Occurrences {
		out = append(out, strings.TrimRight("  "+o.At+"  "+o.Local+"  "+o.Note, " "))
	}
	if out == nil {
		out = []string{"  (none)"}
	}
	return out
}
