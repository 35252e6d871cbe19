package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
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
// before their time.
type sessions struct {
	api http.Handler
	box *sealed.Box
	now func() time.Time

	mu    sync.Mutex
	ended map[[sha256.Size]byte]time.Time // by sum of what the cookie has: when it would end by itself
}

// mostEnded bounds how many ended sessions are kept.
const mostEnded = 10_000

func newSessions(o *Options) *sessions {
	s := &sessions{api: o.API, box: sealed.NewBox("waterclock console session 1", o.Secrets), now: o.Now}
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

// end ends the session of a request on this instance, also for copies of its cookie. Beyond
// mostEnded sessions, the cookie is only taken from the browser.
func (s *sessions) end(r *http.Request) {
	cookie, err := r.Cookie(Cookie)
	if err != nil {
		return
	}
	credential, ends, ok := s.open(cookie.Value)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) >= mostEnded {
		maps.DeleteFunc(s.ended, func(_ [sha256.Size]byte, ends time.Time) bool { return !s.now().Before(ends) })
	}
	if s.ended == nil {
		s.ended = map[[sha256.Size]byte]time.Time{}
	}
	if len(s.ended) < mostEnded {
		s.ended[sha256.Sum256(plain(credential, ends))] = ends
	}
}

// goesOn reports whether nobody has ended a session on this instance.
func (s *sessions) goesOn(credential string, ends time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ended) == 0 {
		return true
	}
	_, ended := s.ended[sha256.Sum256(plain(credential, ends))]
	return !ended
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
	credential, ends, ok := s.open(cookie.Value)
	if !ok || !s.goesOn(credential, ends) {
		return r, func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), ends.Sub(s.now()))
	r = r.Clone(ctx)
	r.Header.Set("Authorization", "Bearer "+credential)
	return r, cancel
}

func (s *sessions) seal(credential string, ends time.Time) string {
	return s.box.Seal(plain(credential, ends), nil)
}

// plain is what a cookie has. Two sessions of one credential that began in the same second are one.
func plain(credential string, ends time.Time) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(ends.Unix())), credential...)
}

func (s *sessions) open(value string) (credential string, ends time.Time, ok bool) {
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
