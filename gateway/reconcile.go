package gateway

import (
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/trigger"
)

// ReconcileBody says whether what differs is mended.
type ReconcileBody struct {
	DryRun bool `json:"dry_run,omitempty" doc:"Only report"`
}

// postReconcile has every partition compared by its owner, one after another, and streams a
// line for each.
func (s *cluster) postReconcile(w http.ResponseWriter, r *request) error {
	fs, err := s.bodies.optionalObject(w, r)
	if err != nil {
		return err
	}
	var b ReconcileBody
	for i := range fs {
		if err := b.set(fs[i].name, fs[i].value); err != nil {
			return err
		}
	}
	if !s.reconciling.TryLock() {
		return problem.Unavailable(nil, "this instance is reconciling already; try again when it is done")
	}
	defer s.reconciling.Unlock()
	out := http.NewResponseController(w)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK) // it is on record before anything is mended, though the caller may hang up
	ctx, stop := s.admits.during(r)
	defer stop()
	for partition := range s.partitions {
		_ = out.SetReadDeadline(time.Time{})
		_ = out.SetWriteDeadline(time.Now().Add(peer.ReconcileWithin + responseWithin))
		found, err := s.router.Reconcile(ctx, partition, b.DryRun)
		refused := withdrawn(ctx)
		switch {
		case refused != nil:
			err = refused
		case ctx.Err() != nil:
			return nil
		}
		if found.Partition = partition; err != nil {
			s.log.Warn("a partition was not reconciled", "partition", partition, "error", err)
			found.Error = problem.Of(err).Detail
		}
		if found.Leaks == nil {
			found.Leaks = []peer.Leak{}
		}
		_, _ = w.Write(append(spell(&found), '\n'))
		if err := out.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
			s.log.Debug("the caller of a reconciliation has disconnected", "error", err)
			return nil
		}
		if refused != nil {
			return nil
		}
	}
	return nil
}

// set reads one member of the body. null counts as absent.
func (b *ReconcileBody) set(name string, v jsontext.Value) error {
	if name != "dry_run" {
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeUnknownField, name,
			printable.Quoted(name)+" is not a field here; there is dry_run")
	}
	switch v.Kind() {
	case 'n':
	case 't', 'f':
		b.DryRun = v.Kind() == 't'
	default:
		return problem.New(http.StatusUnprocessableEntity, trigger.CodeInvalid, name, "dry_run must be true or false")
	}
	return nil
}
