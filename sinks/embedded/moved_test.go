package embedded

import (
	"testing"
	"time"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// An erase leaves no key with the user's id, also of a notification that had another position in the list before.
func TestEraseRemovesEveryPosition(t *testing.T) {
	s := openTest(t, Options{Dir: t.TempDir()})
	at := trigger.At(time.Now().Add(-time.Hour))
	for i, e := range []topics.Event{
		{Type: string(trigger.DeadLettered), State: "FAILED"},
		{Type: string(trigger.OccurrenceFired), State: "IN_FLIGHT", FirstFired: at.String()},
		{Type: string(trigger.ErasedFact), State: "ERASED"},
	} {
		e.Trigger, e.Tenant, e.Seq = "k", "default", int64(i+1)
		e.EventUS = int64(at)*1000 + int64(i)*1_000_000
		if e.State != "ERASED" {
			e.UserID, e.Occurrence, e.Channel = "ann", "o", "push"
		}
		if i == 0 {
			e.EventUS -= 1_000_000
		}
		if err := s.Apply(t.Context(), []sinks.EventRecord{{Event: e, Offset: int64(i)}}); err != nil {
			t.Fatal(err)
		}
		keys := 0
		if err := s.scan([]byte{tableByUser}, after([]byte{tableByUser}), func(_, _ []byte) error {
			keys++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 2, 0}[i]; keys != want {
			t.Errorf("after %s the list has %d keys, want %d", e.Type, keys, want)
		}
	}
}
