package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/waterclock/waterclock/trigger"
)

// request is one request with who sent it and what its path names.
type request struct {
	*http.Request
	who   Caller
	names map[string]string

	conditional bool // If-Match or If-None-Match: a conflict is a 412
}

// id is the trigger's id as the path has it.
func (r *request) id() string { return r.names["id"] }

// Handler serves every route.
func (s *Server) Handler() http.Handler {
	foreign := http.NewCrossOriginProtection() // browsers' pages of other origins
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer s.survive(w, r)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if err := foreign.Check(r); err != nil {
			problem(http.StatusForbidden, codeForbidden, "", "a page of another origin may not do this").send(w)
			return
		}
		if err := s.serve(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) error {
	if err := s.checkHost(r); err != nil {
		return err
	}
	route, names, missing := s.routes.find(r.Method, r.URL.EscapedPath())
	if missing != nil && r.Method == http.MethodOptions && missing.allow != "" {
		w.Header().Set("Allow", missing.allow)
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if missing != nil {
		return missing
	}
	req := &request{Request: r, names: names}
	if route.role != 0 {
		who, err := s.authenticate(r)
		if err != nil {
			return err
		}
		if who.Role < route.role {
			s.audit(r, who, "role too low")
			return problem(http.StatusForbidden, codeForbidden, "", "this needs the role "+route.role.String()+"; yours is "+who.Role.String())
		}
		req.who = who
	}
	return route.handle(s, w, req)
}

// refuse answers with the problem that err is.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := asProblem(err)
	switch {
	case p.Status == http.StatusInternalServerError:
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", p.cause)
	case p.cause != nil && r.Context().Err() == nil:
		s.log.Warn("request not answered", "method", r.Method, "status", p.Status, "code", string(p.Code), "error", p.cause)
	}
	if p.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // what is left of the body is not read
	}
	p.send(w)
}

// survive answers 500 where a handler panicked, and logs where.
func (s *Server) survive(w http.ResponseWriter, r *http.Request) {
	switch v := recover(); {
	case v == nil:
	case v == any(http.ErrAbortHandler):
		panic(v)
	default:
		s.log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		problem(http.StatusInternalServerError, codeInternal, "", "this should not happen; the server's log says more").send(w)
	}
}

// checkHost refuses names that are not ours where nobody proves who they are:
// a web page could point a name of its own at 127.0.0.1.
func (s *Server) checkHost(r *http.Request) error {
	if s.opts.Auth != nil {
		return nil
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if host == "localhost" || net.ParseIP(host) != nil || slices.Contains(s.opts.Hosts, host) {
		return nil
	}
	return problem(http.StatusForbidden, codeForbidden, "", "without auth this server answers only to localhost and addresses; this request was for "+quoted(host))
}

func (s *Server) authenticate(r *http.Request) (Caller, error) {
	if s.opts.Auth == nil {
		return Caller{Tenant: trigger.DefaultTenant, Role: Operator}, nil
	}
	who, err := s.opts.Auth.Authenticate(r)
	if err != nil {
		s.log.Info("audit", "event", "unauthenticated", "remote", r.RemoteAddr, "path", r.URL.Path, "error", err)
		if p, ok := errors.AsType[*Problem](err); ok {
			return Caller{}, p
		}
		return Caller{}, problem(http.StatusUnauthorized, codeUnauthenticated, "", "send an API key or a token as Authorization: Bearer")
	}
	return who, nil
}

// audit notes an attempt at what is not the caller's.
func (s *Server) audit(r *http.Request, who Caller, what string) {
	s.log.Warn("audit", "event", what, "tenant", who.Tenant, "actor", who.Name, "remote", r.RemoteAddr, "method", r.Method, "path", r.URL.Path)
}

// key is the trigger an id of the caller's means. Ids of the default tenant
// have no '/': what stands before one would be another tenant.
func (s *Server) key(r *request, id string) (trigger.Key, error) {
	key, err := trigger.ParseKey([]byte(trigger.NewKey(r.who.Tenant, id)))
	switch {
	case err != nil:
		return "", err
	case key.Tenant() != r.who.Tenant || key.ID() != id:
		s.audit(r.Request, r.who, "another tenant's trigger")
		p := notFound(id)
		p.Detail = "no such trigger; an id of the default tenant has no '/'"
		return "", p
	}
	return key, nil
}

// read is the trigger that the path names, as every acknowledged write left it.
func (s *Server) read(r *request) (*trigger.State, error) {
	key, err := s.key(r, r.id())
	if err != nil {
		return nil, notFound(r.id())
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.opts.ReadWithin)
	defer cancel()
	st, err := s.router.Get(ctx, key)
	if err != nil {
		return nil, err
	}
	if st == nil || !shown.has(st.Status) {
		return nil, notFound(r.id())
	}
	return st, nil
}

// number is a query parameter within bounds.
func (r *request) number(name string, def, least, most int) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, badParameter(name, fmt.Sprintf("%s is a whole number from %d to %d", name, least, most))
	}
	return n, nil
}

// onlyParameters refuses query parameters nobody reads: a filter with a typing
// error in its name would show everything.
func (r *request) onlyParameters(known ...string) error {
	for name := range r.URL.Query() {
		if !slices.Contains(known, name) {
			return problem(http.StatusBadRequest, trigger.CodeUnknownField, name, quoted(name)+" is no parameter here; there are "+strings.Join(known, ", "))
		}
	}
	return nil
}

// quoted clips and quotes what came from outside.
func quoted(s string) string {
	if len(s) > 48 {
		s = s[:48] + "…"
	}
	return strconv.Quote(s)
}
