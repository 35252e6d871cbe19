package gateway

import (
	"context"
	"net"
	"net/http"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// adminPaths are for operators. They need no credential, so the API's listener serves them
// only on loopback and only without auth. Otherwise they are on admin.listen.
var adminPaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

type insideKey struct{}

// AdminHandler serves /healthz, /readyz and /metrics to everybody who can reach it. Keep
// its listener inside your network.
func (s *Server) AdminHandler() http.Handler {
	api := s.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !adminPaths[r.URL.Path] {
			errNoPath.Send(w)
			return
		}
		r = r.WithContext(context.WithValue(r.Context(), insideKey{}, true))
		api.ServeHTTP(w, r)
	})
}

// onlyInside hides the admin paths beyond loopback and if auth is on. With auth, a proxy
// may bring any caller to loopback.
func (s *probes) onlyInside(r *http.Request) error {
	if onAdminListener(r) {
		return nil
	}
	if s.auth != nil {
		return errNoPath
	}
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if ok && !isLoopback(addr) {
		return errNoPath
	}
	return nil
}

func onAdminListener(r *http.Request) bool {
	inside, _ := r.Context().Value(insideKey{}).(bool)
	return inside
}

var errNoPath = problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "no such path; see /docs")
