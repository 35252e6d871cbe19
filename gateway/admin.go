package gateway

import (
	"context"
	"net"
	"net/http"

	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/trigger"
)

// adminPaths are for those who run us. They need no credential, so the API's
// own listener serves them on loopback alone, and not beside auth; else they
// belong on admin.listen.
var adminPaths = map[string]bool{"/healthz": true, "/readyz": true, "/metrics": true}

type insideKey struct{}

// AdminHandler serves /healthz, /readyz and /metrics to anybody who can reach
// it: keep its listener inside.
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

// onlyInside hides the admin paths on addresses beyond loopback, and where there is
// auth: there a proxy may bring anybody to loopback.
func (s *Server) onlyInside(r *http.Request) error {
	if onAdminListener(r) {
		return nil
	}
	if s.opts.Auth != nil {
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

var errNoPath = problem.New(http.StatusNotFound, trigger.CodeNotFound, "", "no such path; /docs has them all")
