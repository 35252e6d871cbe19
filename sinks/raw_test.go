package sinks

import (
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Raw is the record's JSON, unless Event differs from it.
func TestRaw(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        bool
	}{
		{
			"an event",
			`{"type":"trigger.registered","trigger":"k","tenant":"default","event_us":5,"of_a_newer_engine":1}`, true,
		},
		{"a key too long for a row", `{"type":"command.rejected","trigger":"` + strings.Repeat("k", 2000) +
			`","tenant":"default","event_us":5}`, false},
		{"a tenant too long for a row", `{"type":"command.rejected","trigger":"k","tenant":"` +
			strings.Repeat("k", 2000) + `","event_us":5}`, false},
		{"no event", `{`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec, _ := recordOf(&kgo.Record{Value: []byte(c.value), Timestamp: time.Unix(1, 0)})
			if got := string(rec.Raw) == c.value; got != c.want {
				t.Errorf("Raw is %.80q", rec.Raw)
			}
		})
	}
}
