package peer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/trigger"
)

// internalPath begins the paths instances ask each other by. All are GET:
//
//	trigger?key            one state, framed as a page, or an empty page
//	outcomes?key&partition&offsets&within   what was decided about commands
//	find?partition&…       Query; a page (frame.go)
//	find-next?partition&…  the same by next fire
//	forecast?partition&…   ForecastQuery
//	picture?partition&…    forecast.Answer
//	lateness?partition&…   lateness.Report
//	live?partition&…       LiveAnswer
//	partitions             PartitionStatus of every partition of the instance
//	reconcile?partition&dry  Reconciled; the only one that may write
//	calendar-use?partition&tenant&calendar&channel   Use
const internalPath = "/internal/v1/"

// handler exposes the Owner of this process to other instances. One that is not
// the owner answers 421.
type handler struct {
	own     Owner
	address string
	trust   *Credentials
	seen    replays
	times   func() *trigger.Timetable
	log     *slog.Logger
}

// NewHandler answers what other instances ask about the partitions of own. Only
// requests that are signed for this address by who has the secret are answered,
// and each once.
func NewHandler(own Owner, address string, trust *Credentials, timetable func() *trigger.Timetable, log *slog.Logger,
) http.Handler {
	return &handler{own: own, address: address, trust: trust, times: timetable, log: log}
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secret, sum, err := h.admit(w, r, time.Now())
	if err != nil {
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	// The listener's deadline to read would end r.Context(), although the asker waits and has nothing more to send.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if r.URL.Path == internalPath+"reconcile" {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(ReconcileWithin + writeWithin))
	}
	signed := signAnswer(w, secret, sum)
	h.serve(signed, r)
	signed.end()
}

// admit says which secret signed the request, and with what MAC.
func (h *handler) admit(w http.ResponseWriter, r *http.Request, now time.Time) (secret, sum []byte, err error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxQuestion))
	if err != nil {
		return nil, nil, errUnsigned
	}
	secret, sum, st, err := verify(h.trust.Secrets(), r, h.address, body, now)
	if err != nil {
		return nil, nil, err
	}
	return secret, sum, h.seen.admit(st, now)
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	what, ok := strings.CutPrefix(r.URL.Path, internalPath)
	answer := answers[what]
	if !ok || answer == nil || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	out := &lateWriter{w: w}
	if err := answer(h, out, r, r.URL.Query()); err != nil {
		h.fail(out, r, err)
	}
}

var answers = map[string]func(*handler, io.Writer, *http.Request, url.Values) error{
	"trigger":    (*handler).trigger,
	"outcomes":   (*handler).decisions,
	"find":       (*handler).find,
	"find-next":  (*handler).findNext,
	"forecast":   (*handler).forecast,
	"picture":    (*handler).picture,
	"lateness":   (*handler).lateness,
	"live":       (*handler).live,
	"partitions": (*handler).partitions,

	"calendar-use": (*handler).calendarUse,
	"reconcile":    (*handler).reconcile,
}

// lateWriter knows whether an answer has begun: then an error can only break
// it off.
type lateWriter struct {
	w     http.ResponseWriter
	begun bool
}

func (l *lateWriter) Write(b []byte) (int, error) {
	l.begun = true
	return l.w.Write(b)
}

func (h *handler) fail(w *lateWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*trigger.Error](err)
	switch {
	case w.begun:
		panic(http.ErrAbortHandler)
	case ok && e.Code == trigger.CodeNotOwner:
		http.Error(w.w, "not the owner", http.StatusMisdirectedRequest)
	case r.Context().Err() != nil: // nobody waits any more; an answer with nothing in it would be signed
		panic(http.ErrAbortHandler)
	default:
		h.log.Error("internal read failed", "path", r.URL.Path, "error", err)
		http.Error(w.w, "the read failed; see the owner's log", http.StatusInternalServerError)
	}
}

func (h *handler) trigger(w io.Writer, r *http.Request, q url.Values) error {
	own := h.own
	if q.Has("stale") {
		own = own.Stale()
	}
	s, err := own.Get(r.Context(), trigger.Key(q.Get("key")))
	if err != nil {
		return err
	}
	var p Page
	if s != nil {
		p.Items = []Found{{UserCursor{Key: s.Key}, s}}
	}
	return writePage(w, &p)
}

func (h *handler) decisions(w io.Writer, r *http.Request, q url.Values) error {
	partition, err := partitionParam(q)
	if err != nil {
		return err
	}
	list, err := unpackOffsets(q.Get("offsets"), trigger.Key(q.Get("key")))
	if err != nil {
		return err
	}
	ctx := r.Context()
	if within, err := time.ParseDuration(q.Get("within")); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	if err := decisions(ctx, h.own, partition, list); err != nil && ctx.Err() == nil || Moved(err) {
		return err
	}
	wires := make([]decisionWire, len(list))
	for i := range list {
		if wires[i], err = wireDecision(&list[i]); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(wires)
}

func (h *handler) find(w io.Writer, r *http.Request, v url.Values) error {
	return h.list(w, r, v, false)
}

func (h *handler) findNext(w io.Writer, r *http.Request, v url.Values) error {
	return h.list(w, r, v, true)
}

func (h *handler) list(w io.Writer, r *http.Request, v url.Values, byNextFire bool) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := queryFrom(v)
	if err != nil {
		return err
	}
	q.ByNextFire = byNextFire
	page, err := find(r.Context(), h.own, partition, &q)
	if err != nil {
		return err
	}
	page.Visited, page.Spent = q.Cost.Visited(), time.Duration(q.Cost.spent.Load())
	return writePage(w, &page)
}

func (h *handler) forecast(w io.Writer, r *http.Request, v url.Values) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := forecastQueryFrom(v)
	if err != nil {
		return err
	}
	f, err := countUpcoming(r.Context(), h.own, partition, &q, h.times)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(f)
}

func (h *handler) partitions(w io.Writer, _ *http.Request, _ url.Values) error {
	return json.NewEncoder(w).Encode(h.own.Partitions())
}

func partitionParam(q url.Values) (int32, error) {
	p, err := strconv.ParseInt(q.Get("partition"), 10, 32)
	return int32(p), err
}
