package sinks

import (
	"strings"
	"testing"

	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestContentOf checks that a record whose id cannot be a row's key has only a position. Others
// may write to a channel's topic, and no store could ever accept the row.
func TestContentOf(t *testing.T) {
	for _, c := range []struct {
		name, occurrence string
		has              bool
	}{
		{"an engine's", "2026-11-20T09:00:00", true},
		{"the longest", strings.Repeat("o", maxKey-len("k@")), true},
		{"too long", strings.Repeat("o", maxKey-len("k@")+1), false},
		{"not UTF-8", "\xff", false},
	} {
		key, value, headers := topics.DueRecord(&trigger.Fire{
			Key: "k", Occurrence: c.occurrence, Attempt: 1, Fired: 1000, Nominal: 1000, Revision: 1,
			Spec: &trigger.Spec{UserID: "u", Payload: []byte(`{"title":"x"}`)},
		}, topics.DueEnv{Cluster: "c"})
		r := ContentOf(&topics.Record{
			Topic: "due.push", Offset: 7, Timestamp: 1000, Key: key, Value: value, Headers: headers,
		})
		if r.Has != c.has || r.Topic != "due.push" || r.Offset != 7 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestContentRowMerge checks that the read order of emissions does not matter. The later emission
// gives the content and its expiry, and the first one gives the start of the notification.
func TestContentRowMerge(t *testing.T) {
	first := ContentRow{US: 1000, Content: topics.NotificationContent{Title: "a"}, Created: 1}
	later := ContentRow{US: 2000, Content: topics.NotificationContent{Title: "b"}}
	for name, order := range map[string][2]ContentRow{"in order": {first, later}, "the other way": {later, first}} {
		row := order[0]
		row.Merge(&order[1])
		if row.US != 2000 || row.Content.Title != "b" || row.Created != 1 {
			t.Errorf("%s: %+v", name, row)
		}
	}
}
