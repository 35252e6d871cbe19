package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/peer"
)

// leaving is an owner whose caller hangs up while it mends.
type leaving struct {
	*engine
	hangUp func()
}

func (l leaving) Reconcile(ctx context.Context, _ int32, _ bool) (peer.Reconciled, error) {
	l.hangUp()
	<-ctx.Done()
	return peer.Reconciled{}, ctx.Err()
}

// What may have mended something is on record, though its caller has not waited for it.
func TestReconcileOfACallerThatLeaves(t *testing.T) {
	w := newWorld(t, func(o *Options) { o.Auth = testKeys(t) })
	ctx, cancel := context.WithCancel(t.Context())
	server, _ := w.gateway(leaving{w.engine, cancel}, func(o *Options) { o.Auth = testKeys(t) })
	req := httptest.NewRequestWithContext(ctx, "POST", "http://127.0.0.1/v1/reconcile", nil)
	req.Header.Set("Authorization", "Bearer "+keyO)
	server.Handler().ServeHTTP(httptest.NewRecorder(), req)
	if all := w.audited(t, "limit=10&verb=reconcile", "Authorization", "Bearer "+keyO); len(all) != 1 {
		t.Errorf("%d records, want 1: %+v", len(all), all)
	}
}

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
