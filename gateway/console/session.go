package console

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/http"
	"strings"
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
// ends, sealed: only instances can read it, and none keeps anything.
type sessions struct {
	api http.Handler
	box *sealed.Box
	now func() time.Time
}

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
		http.Error(w, "a page of another origin may not do this", http.StatusForbidden)
		return
	}
	switch r.Method {
	case http.MethodPost:
		c.sessions.begin(w, r)
	case http.MethodDelete:
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
	ask, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "/v1/whoami", http.NoBody)
	if err != nil {
		http.Error(w, "not now", http.StatusInternalServerError)
		return
	}
	ask.Host, ask.RemoteAddr, ask.TLS = r.Host, r.RemoteAddr, r.TLS
	ask.Header.Set("Authorization", r.Header.Get("Authorization"))
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	s.api.ServeHTTP(answer, ask)
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
	if !ok {
		return r, func() {}
	}
	ctx, cancel := context.WithTimeout(r.Context(), ends.Sub(s.now()))
	r = r.Clone(ctx)
	r.Header.Set("Authorization", "Bearer "+credential)
	return r, cancel
}

func (s *sessions) seal(credential string, ends time.Time) string {
	return s.box.Seal(append(binary.BigEndian.AppendUint64(nil, uint64(ends.Unix())), credential...), nil)
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
