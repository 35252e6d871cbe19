package pipeline_test

import (
	"testing"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// A calendar without dates is a calendar: triggers may name it, and it gets its
// dates later.
func TestEmptyCalendar(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1})
	n := w.Start("a")
	w.AwaitOwners()
	due := w.Tail(w.Names.Due("default"))
	w.Setting(topics.EncodeCalendar(topics.Calendar{Name: "empty"}))
	w.Eventually("the calendar is known", applied(n, 1))
	w.Send("far",
		`{"op":"register","recurrence":"FREQ=DAILY","timezone":"UTC","calendars":{"names":["empty"],"on":"skip"}}`)
	w.Send("soon", `{"op":"register","delay":"0s"}`)
	takeDue(t, due, []string{"soon"})
	if s, err := n.Get(w.Context(), "far"); err != nil || s == nil || s.Series.At == 0 {
		t.Errorf("the trigger was refused: %+v, %v", s, err)
	}
}
