package check_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/producer"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
)

// TestCancelBehindATransaction has an engine that waited long enough for a foreign transaction,
// and fires past it. Its clock is ahead within the permitted bound. So by the broker's clock the
// transaction ends before the due time. That is not a violation.
func TestCancelBehindATransaction(t *testing.T) {
	for _, c := range []struct {
		name    string
		ends    time.Duration // before the due time
		firings int
	}{
		{"that ends a moment before the due time", 500 * time.Millisecond, 2},
		{"that has ended", 1500 * time.Millisecond, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Partitions: 1})
				w.Start("a", func(o *pipeline.Options) {
					o.Now = func() time.Time { return time.Now().Add(900 * time.Millisecond) }
				})
				w.AwaitOwners()
				due := time.Now().Add(40 * time.Second)
				w.SendFree(0, "first", `{"op":"register","delay":"10s"}`) // held back for the maximum time
				w.SendFree(0, "x", `{"op":"register","fire_at":"`+due.UTC().Format(time.RFC3339Nano)+`"}`)
				end := foreign(t, w)
				time.Sleep(time.Until(due.Add(-10 * time.Second)))
				w.SendFree(0, "x", `{"op":"cancel"}`)
				time.Sleep(time.Until(due.Add(-c.ends)))
				end()
				time.Sleep(30 * time.Second)
				if n := len(w.Dump(w.Names.Due("default"))); n != c.firings {
					t.Errorf("%d firings, want %d", n, c.firings)
				}
				for _, v := range w.Verify().Violations {
					t.Error(v.String())
				}
			})
		})
	}
}

// foreign opens a transaction on topic commands.
func foreign(t *testing.T, w *sim.World) (end func()) {
	cl := w.Client(kgo.TransactionalID("flink"), kgo.TransactionTimeout(10*time.Minute))
	t.Cleanup(cl.Close)
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	r := &kgo.Record{Topic: w.Names.Commands(), Key: []byte("other"), Value: []byte(`{"op":"cancel"}`)}
	if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := producer.EndTransaction(context.Background(), cl, kgo.TryAbort, r); err != nil {
			t.Error(err)
		}
	}
}
