package peer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ReconcileWithin bounds the check of one partition.
const ReconcileWithin = 10 * time.Minute

// writeWithin is how long the answer of a reconciliation may take to be written.
const writeWithin = time.Minute

// Reconciled is what was found in one partition, and mended.
type Reconciled struct {
	Partition int32  `json:"partition"`
	Triggers  int64  `json:"triggers"`
	Timers    int64  `json:"timers"`
	Overdue   int64  `json:"overdue"                 doc:"Timers that are late by more than 10 minutes; no leak, the engine knows of them"`
	InFlight  int64  `json:"in_flight_overdue"       doc:"Of these, time-outs of receipts"`
	Rows      int64  `json:"rows"                    doc:"Rows of the history that were compared"`
	RowsWhy   string `json:"rows_not_compared,omitempty" doc:"Why rows were not compared"`
	Earlier   int64  `json:"rows_before_history"     doc:"Triggers that changed last before the history and topic events begin; no leak"`
	Found     int64  `json:"leaks_found"`
	Mended    int64  `json:"leaks_mended"`
	Leaks     []Leak `json:"leaks"                   doc:"At most 1,000 timers and 1,000 rows; another run finds the rest"`
	Error     string `json:"error,omitempty"         doc:"Why the partition was not checked, or not to the end"`
}

// Leak is one thing that differs.
type Leak struct {
	Kind       string `json:"kind" enum:"timer_missing,timer_stray,timer_passed,state_damaged,row_differs,events_missing,notification_differs,content_missing"`
	TriggerID  string `json:"trigger_id,omitempty"`
	Tenant     string `json:"tenant,omitempty"`
	Due        string `json:"due,omitempty"        format:"date-time"`
	Occurrence string `json:"occurrence,omitempty"`
	Detail     string `json:"detail,omitempty"`
	Mended     bool   `json:"mended"`
}

// Reconcile has the owner of a partition compare timers, states and rows.
func (r *Router) Reconcile(ctx context.Context, partition int32, dry bool) (found Reconciled, err error) {
	err = r.ask(ctx, partition, SearchTimeout,
		func() error { found, err = r.own.Reconcile(ctx, partition, dry); return err },
		func(addr string) error { found, err = r.peer.reconcile(ctx, addr, partition, dry); return err })
	return found, err
}

func (c *client) reconcile(ctx context.Context, addr string, partition int32, dry bool) (found Reconciled, err error) {
	q := url.Values{"partition": {strconv.Itoa(int(partition))}, "dry": {strconv.FormatBool(dry)}}
	err = c.askJSON(ctx, addr, "reconcile", q, &found)
	return found, err
}

func (h *handler) reconcile(w io.Writer, r *http.Request, q url.Values) error {
	partition, err := partitionParam(q)
	if err != nil {
		return err
	}
	found, err := h.own.Reconcile(r.Context(), partition, q.Get("dry") != "false")
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(found)
}
