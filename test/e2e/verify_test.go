package e2e

import (
	"context"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/check"
)

// verify records all topics and runs the history checker on them, with what the
// broker acknowledged. No command is compacted before seven days, so all
// commands are there; a hole among them is a loss.
func (l *load) verify(brokers []string, prefix string) (found []string) {
	l.t.Helper()
	end, dir := time.Now(), l.t.TempDir()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.FetchIsolationLevel(kgo.ReadUncommitted()),
		kgo.KeepControlRecords(),
		kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		l.t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := check.RecordLive(ctx, cl, check.RecordOptions{Dir: dir, Prefix: prefix}); err != nil {
		l.t.Fatal(err)
	}
	zones, err := check.LoadZones(calendar.EmbeddedZip())
	if err != nil {
		l.t.Fatal(err)
	}
	h, err := check.OpenDump(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	defer h.Close()
	// Nothing was due in the last seconds (Unread), but owners write down now and then
	// how far they are, and topics are not read at one instant.
	r, err := check.Verify(h, check.Options{
		Zones: zones, End: end.UnixMilli(), Unread: 5 * time.Second,
		Grace: 5 * time.Second, Acks: l.acks,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range r.Violations {
		v := &r.Violations[i]
		found = append(found, "checker: "+v.String()+"\n    "+strings.Join(v.Timeline, "\n    "))
	}
	l.t.Logf("checker: %d violations in %d records, %d triggers, %d due events; not judged %v", r.Total(), r.Records,
		r.Triggers, r.Fired, r.Skipped)
	if len(found) > 5 {
		found = append(found[:5], "checker: and more")
	}
	return found
}
