package slo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/waterclock/waterclock/analytics"
)

// The report says what it does not know: what had expired before the export began, and gaps that
// were accepted. What was before the window does not matter.
func TestReportNamesWhatIsMissing(t *testing.T) {
	l := newLake(t, 1)
	produce := func(hours ...int) {
		for _, hour := range hours {
			due := noon.Add(time.Duration(hour) * time.Hour)
			l.add(0, due.Add(time.Second), fired("k", due, time.Second))
		}
		if err := l.cl.ProduceSync(t.Context(), l.all...).FirstErr(); err != nil {
			t.Fatal(err)
		}
		l.all = nil
	}
	expire := func(below int64) {
		at := kadm.Offsets{}
		at.Add(kadm.Offset{Topic: topic, At: below})
		if _, err := kadm.NewClient(l.cl).DeleteRecords(t.Context(), at); err != nil {
			t.Fatal(err)
		}
	}
	produce(-20, -19, -18) // offsets 0 to 2
	expire(1)
	l.export(8)
	produce(-17, -16, -15)
	expire(5)
	accept := []analytics.Acceptance{{Partition: 0, Offset: 3}}
	_, err := analytics.New(analytics.Options{
		Client: l.cl, Topic: topic, Dir: l.dir, Span: 8, AcceptGaps: accept,
	}).Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	produce(6, 7, 8, 9, 10) // offsets 6 to 10: a file behind the gap is sealed
	from := l.export(8)
	begins := utc(noon.Add(-19*time.Hour + time.Second))
	for _, c := range []struct {
		name string
		from time.Duration
		want string
	}{
		{"all of it", -24 * time.Hour, "[{0 3 5}] " + begins},
		{"from where the export begins", -19*time.Hour + 2*time.Second, "[{0 3 5}] "},
		{"behind the gap", -15*time.Hour + 2*time.Second, "[] "},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := options()
			o.From = noon.Add(c.from)
			r, err := Read(t.Context(), from, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(r.Gaps, " ", r.Begins); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			var b bytes.Buffer
			if err := r.HTML(&b); err != nil {
				t.Fatal(err)
			}
			gap := strings.Contains(b.String(), "The offsets 3 to 4 of partition 0 had expired")
			begin := strings.Contains(b.String(), "The export begins at")
			if begin != (r.Begins != "") || gap != (len(r.Gaps) > 0) {
				t.Errorf("the page names the gap %v, the beginning %v", gap, begin)
			}
		})
	}
}
