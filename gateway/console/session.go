package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/waterclock/waterclock/internal/sealed"
)

// Cookie is the name of the session's cookie. Browsers take a name that begins so only from
// this host, over TLS (or on the machine itself), and for all paths.
const Cookie = "__Host-waterclock"

// sessionFor is how long a session lasts. A credential that is revoked before ends it at once,
// because each request presents it.
const sessionFor = 12 * time.Hour

// mostCredential bounds the bytes of a credential: browsers keep cookies of at most 4,096 bytes.
const mostCredential = 2900

// sessions turn credentials into cookies and back. A cookie is the credential with the time it
// ends, sealed: only instances can read it. What an instance keeps is which sessions were ended
// before their time, and which have requests under way.
type sessions struct {
	api http.Handler
	box *sealed.Box
	now func() time.Time

	mu    sync.Mutex
	ended map[sessionSum]endedSession
	open  map[sessionSum]map[*http.Request]context.CancelFunc // by the request as it came
}

// sessionSum is a sum of what a cookie has.
type sessionSum [sha256.Size]byte

func sumOf(credential string, ends time.Time) sessionSum {
	return sha256.Sum256(plain(credential, ends))
}

// endedSession is a session that was ended before its time.
type endedSession struct {
	ends  time.Time // by itself
	owner owner
}

// owner is whose a session was; empty where the API did not say.
type owner struct {
	Tenant string `json:"tenant"`
	Actor  string `json:"actor"`
}

// mostEnded bounds how many ended sessions are kept.
const mostEnded = 10_000

// ownerWithin is how long the end of a session waits for the API to say whose it is.
const ownerWithin = 500 * time.Millisecond

func newSessions(o *Options) *sessions {
	s := &sessions{
		api: o.API, box: sealed.NewBox("waterclock console session 1", o.Secrets), now: o.Now,
		ended: map[sessionSum]endedSession{}, open: map[sessionSum]map[*http.Request]context.CancelFunc{},
	}
	if s.now == nil {
		s.now = time.Now
	}
	return s
}

// session begins a session with POST and the credential in Authorization, and ends it with DELETE.
func (c *console) session(w http.ResponseWriter, r *http.Request) {
	safely(w.Header())
	if c.foreign.Check(r) != nil {
		http.Error(w, "cross-origin requests are not allowed here", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodPost:
		c.sessions.begin(w, r)
	case http.MethodDelete:
		c.sessions.end(r)
		setCookie(w, "", -1)
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Allow", "POST, DELETE")
		http.Error(w, "begin a session with POST, end it with DELETE", http.StatusMethodNotAllowed)
	}
}

// begin asks the API who the credential belongs to, and answers as it does. Only a credential
// that it knows becomes a cookie.
func (s *sessions) begin(w http.ResponseWriter, r *http.Request) {
	_, credential, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if credential == "" || len(credential) > mostCredential {
		http.Error(w, "send an API key or a token of at most 2,900 bytes as Authorization: Bearer",
			http.StatusBadRequest)
		return
	}
	answer := ask(r.Context(), s.api, r, "v1/whoami")
	if answer.status == http.StatusOK {
		setCookie(w, s.seal(credential, s.now().Add(sessionFor)), int(sessionFor/time.Second))
	}
	for _, name := range []string{"Content-Type", "Retry-After"} {
		if value := answer.header.Get(name); value != "" {
			w.Header().Set(name, value)
		}
	}
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body.Bytes())
}

// end ends the session of a request on this instance, also for copies of its cookie, with its requests
// that are under way.
func (s *sessions) end(r *http.Request) {
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return
	}
	credential, ends, ok := s.read(cookie.Value)
	if !ok {
		return
	}
	whose := s.ownerOf(r, credential)
	sum := sumOf(credential, ends)
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.ended[sum]; !known && len(s.ended) >= mostEnded {
		s.forget()
	}
	s.ended[sum] = endedSession{ends, whose}
	for _, cancel := range s.open[sum] {
		cancel()
	}
}

// ownerOf asks the API whose a credential is.
func (s *sessions) ownerOf(r *http.Request, credential string) (whose owner) {
	ctx, cancel := context.WithTimeout(r.Context(), ownerWithin)
	defer cancel()
	r = r.Clone(ctx)
	r.Header.Del("X-Api-Key")
	r.Header.Set("Authorization", "Bearer "+credential)
	answer := ask(ctx, s.api, r, "v1/whoami")
	if answer.status != http.StatusOK || json.Unmarshal(answer.body.Bytes(), &whose) != nil {
		return owner{}
	}
	return whose
}

// forget makes room for one more ended session. Those that have ended by themselves go. If there is none, the
// first goes of the caller who has ended the most in the tenant that has, so that none can make others' sessions
// go on.
func (s *sessions) forget() {
	maps.DeleteFunc(s.ended, func(_ sessionSum, e endedSession) bool { return !s.now().Before(e.ends) })
	if len(s.ended) < mostEnded {
		return
	}
	tenants, owners := map[string]int{}, map[owner]int{}
	for _, e := range s.ended {
		tenants[e.owner.Tenant]++
		owners[e.owner]++
	}
	order := func(a, b endedSession) int { // the one to forget is the least
		return cmp.Or(
			cmp.Compare(tenants[b.owner.Tenant], tenants[a.owner.Tenant]), cmp.Compare(a.owner.Tenant, b.owner.Tenant),
			cmp.Compare(owners[b.owner], owners[a.owner]), cmp.Compare(a.owner.Actor, b.owner.Actor),
			a.ends.Compare(b.ends),
		)
	}
	var first sessionSum
	for sum, e := range s.ended {
		if known, ok := s.ended[first]; !ok || order(e, known) < 0 {
			first = sum
		}
	}
	delete(s.ended, first)
}

// enter notes a request of a session, until it leaves: cancel is called if the session is ended before. ok is
// false if it was.
func (s *sessions) enter(sum sessionSum, r *http.Request, cancel context.CancelFunc) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ended := s.ended[sum]; ended {
		return nil, false
	}
	if s.open[sum] == nil {
		s.open[sum] = map[*http.Request]context.CancelFunc{}
	}
	s.open[sum][r] = cancel
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.open[sum], r); len(s.open[sum]) == 0 {
			delete(s.open, sum)
		}
	}, true
}

func setCookie(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: Cookie, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
	})
}

// asCredential returns a request that presents the credential of its session, unless it has one
// of its own, and that ends with the session. A cookie that cannot be read, or is too old, is as none.
func (s *sessions) asCredential(r *http.Request) (*http.Request, context.CancelFunc) {
	if r.Header.Get("Authorization") != "" || r.Header.Get("X-Api-Key") != "" {
		return r, func() {}
	}
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return r, func() {}
	}
	credential, ends, ok := s.read(cookie.Value)
	if !ok {
		return r, func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), ends.Sub(s.now()))
	leave, ok := s.enter(sumOf(credential, ends), r, cancel)
	if !ok {
		cancel()
		return r, func() {}
	}
	r = r.Clone(ctx)
	r.Header.Set("Authorization", "Bearer "+credential)
	return r, func() { leave(); cancel() }
}

func (s *sessions) seal(credential string, ends time.Time) string {
	return s.box.Seal(plain(credential, ends), nil)
}

// plain is what a cookie has. Two sessions of one credential that began in the same second are one.
func plain(credential string, ends time.Time) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(ends.Unix())), credential...)
}

// read reads the value of a cookie.
func (s *sessions) read(value string) (credential string, ends time.Time, ok bool) {
	text, ok := s.box.Open(value, nil)
	if !ok || len(text) < 8 {
		return "", ends, false
	}
	ends = time.Unix(int64(binary.BigEndian.Uint64(text)), 0)
	return string(text[8:]), ends, s.now().Before(ends)
}

// recorder keeps an answer.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
