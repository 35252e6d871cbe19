package peer

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// checking is an owner that takes a while to reconcile.
type checking struct {
	Owner
	takes time.Duration
}

func (o checking) Reconcile(ctx context.Context, _ int32, _ bool) (Reconciled, error) {
	select {
	case <-ctx.Done():
		return Reconciled{}, ctx.Err()
	case <-time.After(o.takes):
		return Reconciled{Triggers: 7}, nil
	}
}

// The time-outs of the internal listener are for requests that are sent, and answers that are read, slowly. They do not
// end the check of a partition.
func TestReconcileTakesItsTime(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.Config.ReadTimeout, s.Config.WriteTimeout = 50*time.Millisecond, 100*time.Millisecond
	addr := s.Listener.Addr().String()
	s.Config.Handler = internalAt(t, checking{takes: 4 * s.Config.WriteTimeout}, addr)
	s.Start()
	defer s.Close()
	r := NewRouter(Config{
		Partitions: 1, Trust: trusting(t, Trust{Secrets: bytesOf(peerSecret), Plain: true}),
		LastOwner: func(context.Context, int32) (OwnerRecord, error) { return OwnerRecord{Address: addr}, nil },
	})
	if found, err := r.Reconcile(t.Context(), 0, true); err != nil || found.Triggers != 7 {
		t.Errorf("%+v, %v", found, err)
	}
}

// An answer that the owner did not make is not signed: it would be taken for one.
func TestNoAnswerIsNotSigned(t *testing.T) {
	h := internalAt(t, checking{takes: time.Hour}, peerAddress)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	rec := httptest.NewRecorder()
	defer func() {
		if err, _ := recover().(error); !errors.Is(err, http.ErrAbortHandler) || rec.Body.Len() > 0 ||
			rec.Header().Get(answerMAC) != "" {
			t.Errorf("%v, answer %d, signed %q", err, rec.Code, rec.Header().Get(answerMAC))
		}
	}()
	r := question("GET", internalPath+"reconcile?partition=0&dry=true", "", time.Now(), nil)
	h.ServeHTTP(rec, r.WithContext(ctx))
}
