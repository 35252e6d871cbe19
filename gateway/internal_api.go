package gateway

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
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
//	forecast?partition&…   ForecastQuery
//	partitions             PartitionStatus of every partition of the instance
//	calendar-use?partition&tenant&calendar   CalendarUse
const internalPath = "/internal/v1/"

// internalAPI exposes this process's Owner to other instances. Who is not the
// owner answers 421.
type internalAPI struct {
	own    Owner
	secret []byte
	times  func() *trigger.Timetable
	log    *slog.Logger
}

func (a *internalAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !checkPeer(a.secret, r, time.Now()) {
		http.Error(w, "the shared secret does not fit, or clocks are over a minute apart", http.StatusUnauthorized)
		return
	}
	what, ok := strings.CutPrefix(r.URL.Path, internalPath)
	answer := internalAnswers[what]
	if !ok || answer == nil || r.Method != http.MethodGet {
		http.NotFound(w, r)
		return
	}
	out := &lateWriter{w: w}
	if err := answer(a, out, r, r.URL.Query()); err != nil {
		a.fail(out, r, err)
	}
}

var internalAnswers = map[string]func(*internalAPI, io.Writer, *http.Request, url.Values) error{
	"trigger":    (*internalAPI).trigger,
	"outcomes":   (*internalAPI).outcomes,
	"find":       (*internalAPI).find,
	"forecast":   (*internalAPI).forecast,
	"partitions": (*internalAPI).partitions,

	"calendar-use": (*internalAPI).calendarUse,
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

func (a *internalAPI) fail(w *lateWriter, r *http.Request, err error) {
	e, ok := errors.AsType[*trigger.Error](err)
	switch {
	case w.begun:
		panic(http.ErrAbortHandler)
	case ok && e.Code == trigger.CodeNotOwner:
		http.Error(w.w, "not the owner", http.StatusMisdirectedRequest)
	case r.Context().Err() != nil: // nobody waits any more
	default:
		a.log.Error("internal read failed", "path", r.URL.Path, "error", err)
		http.Error(w.w, "the read failed; the owner's log says why", http.StatusInternalServerError)
	}
}

func (a *internalAPI) trigger(w io.Writer, r *http.Request, q url.Values) error {
	s, err := a.own.Get(r.Context(), trigger.Key(q.Get("key")))
	if err != nil {
		return err
	}
	var p Page
	if s != nil {
		p.Items = []Found{{UserCursor{Key: s.Key}, s}}
	}
	return writePage(w, &p)
}

func (a *internalAPI) outcomes(w io.Writer, r *http.Request, q url.Values) error {
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
	if err := outcomes(ctx, a.own, partition, list); err != nil && ctx.Err() == nil || moved(err) {
		return err
	}
	wires := make([]outcomeWire, len(list))
	for i := range list {
		if wires[i], err = wireOutcome(&list[i]); err != nil {
			return err
		}
	}
	return json.NewEncoder(w).Encode(wires)
}

func (a *internalAPI) find(w io.Writer, r *http.Request, v url.Values) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := queryFrom(v)
	if err != nil {
		return err
	}
	page, err := find(r.Context(), a.own, partition, &q)
	if err != nil {
		return err
	}
	return writePage(w, &page)
}

func (a *internalAPI) forecast(w io.Writer, r *http.Request, v url.Values) error {
	partition, err := partitionParam(v)
	if err != nil {
		return err
	}
	q, err := forecastQueryFrom(v)
	if err != nil {
		return err
	}
	f, err := forecast(r.Context(), a.own, partition, &q, a.times)
	if err != nil {
		return err
	}
	return json.NewEncoder(w).Encode(f)
}

func (a *internalAPI) partitions(w io.Writer, _ *http.Request, _ url.Values) error {
	return json.NewEncoder(w).Encode(a.own.Partitions())
}

func partitionParam(q url.Values) (int32, error) {
	p, err := strconv.ParseInt(q.Get("partition"), 10, 32)
	return int32(p), err
}

// addTo and queryFrom spell a Query as parameters and back.
func (q *Query) addTo(v url.Values) {
	v.Set("tenant", q.Tenant)
	v.Set("user", q.User)
	v.Set("states", strconv.Itoa(int(q.States)))
	v.Set("channel", q.Channel)
	for _, t := range q.Tags {
		v.Add("tag", t.Key+":"+t.Value)
	}
	v.Set("from", strconv.FormatInt(int64(q.From), 10))
	v.Set("to", strconv.FormatInt(int64(q.To), 10))
	v.Set("after_due", strconv.FormatInt(int64(q.After.Due), 10))
	v.Set("after_key", string(q.After.Key))
	v.Set("limit", strconv.Itoa(q.Limit))
	v.Set("budget", strconv.Itoa(q.Budget))
}

func queryFrom(v url.Values) (Query, error) {
	var errs []error
	number := func(name string) int64 {
		n, err := strconv.ParseInt(v.Get(name), 10, 64)
		errs = append(errs, err)
		return n
	}
	q := Query{
		Tenant: v.Get("tenant"), User: v.Get("user"), Channel: v.Get("channel"), States: StateSet(number("states")),
		From: trigger.Instant(number("from")), To: trigger.Instant(number("to")),
		After: UserCursor{trigger.Instant(number("after_due")), trigger.Key(v.Get("after_key"))},
		Limit: int(number("limit")), Budget: int(number("budget")),
	}
	for _, t := range v["tag"] {
		key, value, _ := strings.Cut(t, ":")
		q.Tags = append(q.Tags, trigger.Tag{Key: key, Value: value})
	}
	return q, errors.Join(errs...)
}

// peerSkew is how far the clocks of two instances may be apart, and so how
// long an overheard request could be repeated; all it could do is read again.
const peerSkew = time.Minute

// signPeer makes the bearer token of one request: <unix>.<hex HMAC-SHA-256 of
// unix and the request's URI>.
func signPeer(secret []byte, uri string, now time.Time) string {
	at := strconv.FormatInt(now.Unix(), 10)
	return at + "." + hex.EncodeToString(peerMAC(secret, at, uri))
}

func peerMAC(secret []byte, at, uri string) []byte {
	m := hmac.New(sha256.New, secret)
	m.Write([]byte("waterclock internal\n" + at + "\n" + uri))
	return m.Sum(nil)
}

func checkPeer(secret []byte, r *http.Request, now time.Time) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	at, sum, cut := strings.Cut(token, ".")
	unix, err1 := strconv.ParseInt(at, 10, 64)
	mac, err2 := hex.DecodeString(sum)
	if !ok || !cut || err1 != nil || err2 != nil || len(secret) == 0 {
		return false
	}
	age := now.Sub(time.Unix(unix, 0))
	return hmac.Equal(mac, peerMAC(secret, at, r.URL.RequestURI())) && age < peerSkew && age > -peerSkew
}
