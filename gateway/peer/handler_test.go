package peer

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

const peerSecret = "a secret of the cluster"

// keeper owns one trigger, or with nil none.
type keeper struct {
	Owner
	state *trigger.State
}

func (k *keeper) Get(context.Context, trigger.Key) (*trigger.State, error) {
	if k.state == nil {
		return nil, ErrNoOwner
	}
	return k.state, nil
}

func TestInternalAPIRefuses(t *testing.T) {
	own := &keeper{state: &trigger.State{Key: "a", Status: trigger.Pending}}
	h := NewHandler(own, []byte(peerSecret), nil, slog.New(slog.DiscardHandler))
	const path = internalPath + "trigger?key=a"
	now := time.Now()
	for _, c := range []struct {
		name, path, bearer string
		want               int
	}{
		{"right", path, sign([]byte(peerSecret), path, now), 200},
		{"none", path, "", 401},
		{"another secret", path, sign([]byte("another secret of 16"), path, now), 401},
		{"another path", path, sign([]byte(peerSecret), internalPath+"trigger?key=b", now), 401},
		{"old", path, sign([]byte(peerSecret), path, now.Add(-2*maxSkew)), 401},
		{"ahead", path, sign([]byte(peerSecret), path, now.Add(2*maxSkew)), 401},
		{"garbled", path, "1.zz", 401},
		{"no such question", internalPath + "x", sign([]byte(peerSecret), internalPath+"x", now), 404},
		{"no partition", internalPath + "find?x=1", sign([]byte(peerSecret), internalPath+"find?x=1", now), 500},
	} {
		r := httptest.NewRequest("GET", c.path, nil)
		r.Header.Set("Authorization", "Bearer "+c.bearer)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != c.want {
			t.Errorf("%s: status %d, want %d", c.name, rec.Code, c.want)
		}
	}
	own.state = nil
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+sign([]byte(peerSecret), path, now))
	rec := httptest.NewRecorder()
	if h.ServeHTTP(rec, r); rec.Code != http.StatusMisdirectedRequest {
		t.Errorf("not the owner: status %d", rec.Code)
	}
}
