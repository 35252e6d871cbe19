package gateway

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/peer"
)

// A reconciliation answers a line for each partition, with what its owner found, whichever
// instance that is.
func TestReconcile(t *testing.T) {
	w := newWorld(t, nil)
	for body, mended := range map[string]bool{"": true, `{"dry_run":true}`: false, `{"dry_run":null}`: true} {
		a := w.must(http.StatusOK, "POST", "/v1/reconcile", body)
		lines := strings.Split(strings.TrimSpace(a.body), "\n")
		if len(lines) != testPartitions {
			t.Fatalf("%q: %d lines", body, len(lines))
		}
		for i, line := range lines {
			var r peer.Reconciled
			if err := json.Unmarshal([]byte(line), &r); err != nil || r.Partition != int32(i) || r.Triggers != 10 {
				t.Fatalf("%q: %s, %v", body, line, err)
			}
			if leaks := len(r.Leaks); (leaks == 1) != (i == 1) || leaks == 1 && r.Leaks[0].Mended != mended {
				t.Errorf("%q: %s", body, line)
			}
		}
	}
	w.must(http.StatusUnprocessableEntity, "POST", "/v1/reconcile", `{"dry_run":"yes"}`)
	w.must(http.StatusUnprocessableEntity, "POST", "/v1/reconcile", `{"dry":true}`)
}
