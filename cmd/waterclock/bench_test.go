package main

import (
	"strings"
	"testing"
)

// A benchmark with a size of zero, or beyond the limits, is refused before anything is started.
func TestBenchBounds(t *testing.T) {
	for _, row := range []struct{ line, want string }{
		{"bench --triggers 0", "--triggers 0: write 1 to 100000000"},
		{"bench --triggers -5", "--triggers -5: write 1 to"},
		{"bench --payload -1", "--payload -1: write 0 to 524288"},
		{"bench --payload 10000000", "--payload 10000000: write 0 to 524288"},
		{"bench --window -1s", "--window -1s: write 0s to 24h0m0s"},
		{"bench --rate -1", "--rate -1: write 0 to"},
		{"bench fairness --herd 0", "--herd 0: write 1 to"},
		{"bench fairness --probes 0", "--probes 0: write 1 to"},
		{"bench fairness --payload -1", "--payload -1: write 0 to"},
		{"bench redrive --letters 0", "--letters 0: write 1 to"},
		{"bench redrive --rate 0", "--rate 0: write 1 to"},
		{"bench redrive --brokers kafka-1:9092", "which has its own broker"},
		{"bench webhook --behind 0", "--behind 0: write 1 to"},
		{"bench webhook --for 1h", "--behind 0: write 1 to"},
		{"bench webhook --behind 10", "--rate 0: write 1 to"},
		{"bench webhook --behind 10 --rate 10 --for 0s", "--for 0s: write 1s to"},
		{"bench webhook --behind 10 --rate 10 --hanging 1", "--behind goes with"},
		{"bench notify --pushes 0", "--pushes 0: write 1 to"},
		{"bench notify --mails 0", "--mails 0: write 1 to"},
		{"bench notify --at-once 0", "--at-once 0: write 1 to"},
		{"bench notify --body 5000", "--body 5000: write 1 to 2048"},
		{"bench reminders --rate 0", "--rate 0: write 1 to"},
		{"bench reminders --for 0s", "--for 0s: write 1s to"},
		{"bench campaign --low 0", "--low 0: write 1 to"},
		{"bench campaign --rate 0", "--rate 0: write 1 to"},
		{"bench campaign --for 0s", "--for 0s: write 1s to"},
		{"bench campaign --payload 0", "--payload 0: write 1 to"},
		{"bench console --for 0s", "--for 0s: write 1s to"},
		{"bench console --pending 0", "--pending 0: write 1 to"},
		{"bench console --fires 0", "--fires 0: write 1 to"},
		{"bench console --rate 0", "--rate 0: write 1 to"},
		{"bench console --consoles 251", "--consoles 251: write 1 to 250"},
		{"bench console --brokers kafka-1:9092", "which has its own broker"},
		{"bench http --for 0s", "--for 0s: write 1s to 1h0m0s"},
		{"bench http --connections 0", "--connections 0: write 1 to"},
		{"bench http --batches -1", "--batches -1: write 0 to"},
		{"bench http --rate 0", "--rate 0: write 1 to"},
		{"bench http --pending -1", "--pending -1: write 0 to"},
		{"bench http --payload 524289", "--payload 524289: write 0 to"},
		{"bench http --steady -1s", "--steady -1s: write 0s to"},
	} {
		t.Run(row.line, func(t *testing.T) {
			cli(t, nil, "", strings.Fields(row.line)...).want(t, exitUsage,
				row.want)
		})
	}
}
