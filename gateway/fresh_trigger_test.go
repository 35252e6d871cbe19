package gateway

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

// With fresh=false a trigger is read without the read barrier, and is the same.
func TestStaleTrigger(t *testing.T) {
	w := newWorld(t, nil)
	w.must(http.StatusCreated, "PUT", "/v1/triggers/a", at(""))
	fresh := w.must(http.StatusOK, "GET", "/v1/triggers/a", "")
	if n := w.engine.stale.Load(); n != 0 {
		t.Errorf("a fresh one: %d stale reads", n)
	}
	for _, query := range []string{"?fresh=true", ""} {
		w.must(http.StatusOK, "GET", "/v1/triggers/a"+query, "")
	}
	if n := w.engine.stale.Load(); n != 0 {
		t.Errorf("fresh ones: %d stale reads", n)
	}
	a := w.must(http.StatusOK, "GET", "/v1/triggers/a?fresh=false", "")
	if n := w.engine.stale.Load(); a.body != fresh.body || n != 1 {
		t.Errorf("a stale one: %s, want %s; %d stale reads", a.body, fresh.body, n)
	}
	w.must(http.StatusNotFound, "GET", "/v1/triggers/none?fresh=false", "")
	w.must(http.StatusBadRequest, "GET", "/v1/triggers/a?fresh=soon", "")
}

// mute is an owner that has the trigger and does not answer.
type mute struct{ *engine }

func (o mute) Stale() peer.Owner { return o }

func (o mute) Get(ctx context.Context, _ trigger.Key) (*trigger.State, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// An owner that does not answer within a second is explained, too.
func TestStaleExplanationOfASilentOwner(t *testing.T) {
	w := newWorld(t, nil)
	_, base := w.gateway(mute{w.engine}, nil)
	answer, err := http.Get(base + "/v1/triggers/a/explain?fresh=false")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), `"code":"restoring"`) {
		t.Errorf("%d %s", answer.StatusCode, body)
	}
}
