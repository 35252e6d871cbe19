package workertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workertest"
)

// handle is the handler under test. It needs a user and a number.
func handle(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
	numbers, ok := worker.BatchValue[map[string]string](ctx)
	switch {
	case e.User == "":
		return worker.Fail("no_user", "the trigger has no user_id"), nil
	case !ok:
		return worker.Result{}, errors.New("numbers are away")
	case numbers[e.User] == "":
		return worker.Suppress("no_number"), nil
	case e.Attempt > 1:
		panic("an attempt too many")
	}
	return worker.Accepted(), nil
}

func Example() {
	ctx := worker.WithBatchValue(context.Background(), map[string]string{"u_81": "+15550100"})
	e := workertest.Event(workertest.Key("acme/pills"), workertest.User("u_81"))
	r := workertest.Handle(ctx, handle, e)
	fmt.Println(r.DueID, r.Outcome)
	// Output: acme/pills@2026-11-20T14:00:00.000Z#0 accepted
}

// TestRequire: every result of a handler has its receipt.
func TestRequire(t *testing.T) {
	user := workertest.User("u_81")
	workertest.Require(t, handle, workertest.Event(), worker.OutcomeFailed, "no_user")
	r := workertest.Require(t, handle, workertest.Event(user), worker.OutcomeRetry, worker.CodeError)
	if r.Detail != "numbers are away" {
		t.Errorf("detail is %q", r.Detail)
	}
	none := func(ctx context.Context, e *worker.DueEvent) (worker.Result, error) {
		return handle(worker.WithBatchValue(ctx, map[string]string{"u_81": "+1"}), e)
	}
	workertest.Require(t, none, workertest.Event(workertest.User("u_82")), worker.OutcomeSuppressed, "no_number")
	late := workertest.Event(user, workertest.Attempt(2), workertest.Postponed(4), workertest.Step(1))
	r = workertest.Require(t, none, late, worker.OutcomeRetry, worker.CodePanic)
	if r.Attempt != 2 || r.Postponed != 4 || r.DueID != "trigger@2026-11-20T14:00:00.000Z#1" {
		t.Errorf("%+v", r)
	}
}

// TestEvent: the handler sees what the options set.
func TestEvent(t *testing.T) {
	at := time.Date(2026, 12, 24, 17, 0, 0, 0, time.UTC)
	e := workertest.Event(workertest.Key("acme/x"), workertest.TargetKey("u_1"), workertest.Scheduled(at),
		workertest.Payload("{}"), workertest.LocalTime("2026-12-24T18:00:00[Europe/Berlin]"),
		workertest.Expires(at.Add(time.Hour)), workertest.ReceiptBy(at.Add(2*time.Hour)),
		workertest.ContentType("application/json"), workertest.TraceParent("00-a-b-01"), workertest.High(),
		workertest.Header("wcx-tags", `{"type":"gift"}`))
	got := fmt.Sprint(e.Tenant, e.TriggerID(), string(e.RecordKey), e.Occurrence, string(e.Payload), e.LocalTime,
		e.Expires.Sub(at), e.ReceiptBy.Sub(at), e.ContentType, e.TraceParent, e.High, e.Tags())
	want := "acmexu_12026-12-24T17:00:00.000Z{}2026-12-24T18:00:00[Europe/Berlin]1h0m0s 2h0m0s" +
		"application/json00-a-b-01true map[type:gift]"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
