package sinks

import (
	"testing"

	"github.com/waterclock/waterclock/topics"
)

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
