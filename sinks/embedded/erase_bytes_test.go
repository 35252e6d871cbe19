package embedded

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/filetest"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// After an erase and a compaction, no file has a byte of the erased data, whether it came before
// or after the erase.
func TestEraseLeavesNoBytes(t *testing.T) {
	const canary, n = "canary4711", 50
	dir := t.TempDir()
	reopened := func(s *Store) *Store {
		t.Helper()
		if s != nil {
			if err := errors.Join(s.db.Flush(), s.Close()); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Open(Options{Dir: dir, SweepEvery: -1, Now: func() time.Time { return start.Add(time.Hour) }})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := reopened(nil)
	var events []sinks.EventRecord
	var contents []sinks.ContentRecord
	next := int64(0)
	add := func(key string, f trigger.FactType, edit func(*topics.Event)) {
		next++
		e := topics.Event{
			Type: string(f), Version: 1, Trigger: key, Tenant: "default", Seq: next, State: "IN_FLIGHT",
			EventUS: start.UnixMicro() + next,
		}
		edit(&e)
		events = append(events, sinks.EventRecord{Event: e, Offset: next})
	}
	for i := range n {
		key, occurrence := fmt.Sprint("k", i), "2026-11-01T00:00:00Z"
		said := func(e *topics.Event) {
			e.UserID, e.Tags = canary, map[string]string{"type": canary}
			e.CorrelationID, e.Detail, e.PayloadBase64 = canary, canary, canary
		}
		about := func(e *topics.Event) {
			step := 0
			said(e)
			e.Occurrence, e.Channel, e.Step, e.FirstFired = occurrence, "push", &step, trigger.At(start).String()
			e.ScheduledAt = e.FirstFired
		}
		add(key, trigger.Registered, said)
		add(key, trigger.OccurrenceFired, about)
		add(key, trigger.DeliveryFailed, about)
		contents = append(contents, sinks.ContentRecord{
			TopicPartition: sinks.TopicPartition{Topic: "due.push"}, Offset: int64(i), Has: true,
			Tenant: "default", Trigger: key, ID: topics.NotificationID(key, occurrence),
			ContentRow: sinks.ContentRow{
				US: start.UnixMicro() + 1, Created: trigger.At(start),
				Content: topics.NotificationContent{Title: canary, Body: canary, TemplateID: canary},
			},
		})
		l := topics.Letter{
			Tenant: "default", Trigger: key, DueID: key + "@" + occurrence + "#0", Attempt: 1,
			FailedAt: trigger.At(start), Offset: int64(i), Channel: "push", Code: "gone", Detail: canary,
		}
		events = append(events, sinks.EventRecord{Offset: next, Letter: &l})
	}
	apply(t, s, events...)
	if err := s.ApplyContent(context.Background(), contents); err != nil {
		t.Fatal(err)
	}
	s = reopened(s)
	if len(filetest.Holding(t, dir, canary)) == 0 {
		t.Fatal("the files do not have what is to be erased: nothing is tested")
	}
	events = nil
	for i := range n {
		add(fmt.Sprint("k", i), trigger.ErasedFact, func(e *topics.Event) { e.State = "ERASED" })
	}
	apply(t, s, events...)
	s = reopened(s)
	if err := s.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false); err != nil {
		t.Fatal(err)
	}
	if err := reopened(s).Close(); err != nil { // it has removed obsolete files
		t.Fatal(err)
	}
	if names := filetest.Holding(t, dir, canary); len(names) != 0 {
		t.Errorf("%v have what was erased", names)
	}
	s = reopened(nil)
	defer s.Close()
	page, err := s.Events(t.Context(), sinks.EventQuery{Tenant: "default", Trigger: "k7"})
	if err != nil || len(page.Events) != 4 {
		t.Errorf("the history has %d events of 4, %v", len(page.Events), err)
	}
}
