package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waterclock/waterclock/gateway/auth"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/gateway/problem"
	"github.com/waterclock/waterclock/internal/printable"
	"github.com/waterclock/waterclock/internal/tracing"
	"github.com/waterclock/waterclock/trigger"
)

// request is one request with its caller and the names in its path.
type request struct {
	*http.Request
	who   auth.Caller
	names map[string]string
	query url.Values
	span  tracing.Span
	route string // its pattern

	read *read // set on a costly route
	body int64 // its bytes that count (bodies.held)
	act  *act  // for the audit; nil on a route without callers

	conditional bool // If-Match or If-None-Match: a conflict is a 412

	prefersAway error // why preferences could not be read: other lines of a batch do not wait for them
}

// id is the trigger's id as the path has it.
func (r *request) id() string { return r.names["id"] }

// Handler serves every route, and the console if it is on.
func (s *Server) Handler() http.Handler {
	if s.console != nil {
		return s.console
	}
	return s.api()
}

// api serves every route.
func (s *Server) api() http.Handler {
	foreign := http.NewCrossOriginProtection() // refuses browser pages of other origins
	return s.observe(func(w *observed, r *http.Request) {
		defer s.survive(w, r)
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if err := foreign.Check(r); err != nil {
			problem.New(http.StatusForbidden, problem.CodeForbidden, "",
				"cross-origin requests are not allowed here").Send(w)
			return
		}
		if err := s.serve(w, r); err != nil {
			s.refuse(w, r, err)
		}
	})
}

func (s *Server) serve(w *observed, r *http.Request) error {
	if err := s.checkHost(r); err != nil {
		return err
	}
	route, names, missing := s.routes.find(r.Method, r.URL.EscapedPath())
	if missing != nil && r.Method == http.MethodOptions && missing.Allow() != "" {
		w.Header().Set("Allow", missing.Allow())
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if missing != nil {
		return missing
	}
	s.onRoute(w, r, route)
	query, err := route.query(r)
	if err != nil {
		return err
	}
	if err := route.unread(r); err != nil {
		return err
	}
	req := &request{Request: r, names: names, query: query, span: w.span, route: route.pattern}
	if route.right != 0 {
		req.act = s.acts.begin(req, route)
		w.act = req.act
		who, err := s.authenticate(r)
		if err != nil {
			return err
		}
		req.who = who
		req.act.caller(req)
		if !who.May(route.right) {
			return s.auditor.forbid(req, route.right, "this needs")
		}
		w.tenant, w.pages = who.Tenant, s.reads.pages
	}
	if wait, why := s.opts.Overloaded(); wait > 0 && route.right != 0 && route.right != auth.Operate {
		return problem.TooMany(trigger.CodeOverloaded, why, wait)
	}
	if why := s.opts.NoRoom(); why != "" && route.writes() {
		return problem.Unavailable(nil, why)
	}
	if err := req.act.refusal(); err != nil {
		return err
	}
	req.act.begins()
	defer s.writes.bodies.answered(req)
	h := route.handle
	if route.costly {
		h = func(w http.ResponseWriter, r *request) error { return s.reads.costly(w, r, route.handle) }
	}
	if route.mayShare(req) {
		err = s.answers.send(w, req, h)
	} else {
		err = h(w, req)
	}
	if _, was := s.auditor.trespass(req, err); was {
		req.act.tried()
	}
	if err != nil && route.writes() {
		err = s.filledUp(err)
	}
	return err
}

// filledUp is why a write failed that something did not answer. If the disk has filled up meanwhile, that is the
// reason.
func (s *Server) filledUp(err error) error {
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok || p.Status != http.StatusServiceUnavailable || p.Unwrap() == nil {
		return err
	}
	if why := s.opts.NoRoom(); why != "" {
		return problem.Unavailable(nil, why).About(p.TriggerID)
	}
	return err
}

// refuse answers with the problem that err is.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Of(err)
	switch {
	case p.Status == http.StatusInternalServerError:
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", p.Unwrap())
	case p.Unwrap() != nil && r.Context().Err() == nil:
		s.log.Warn("request not answered", "method", r.Method, "status", p.Status, "code", string(p.Code), "error",
			p.Unwrap())
	}
	if p.Status == http.StatusRequestEntityTooLarge {
		w.Header().Set("Connection", "close") // the rest of the body is not read
	}
	p.Send(w)
}

// survive answers 500 after a panic of a handler, and logs where it happened.
func (s *Server) survive(w http.ResponseWriter, r *http.Request) {
	switch v := recover(); {
	case v == nil:
	case v == any(http.ErrAbortHandler):
		panic(v)
	default:
		s.panicked(r, v)
		problem.Internal(nil).Send(w)
	}
}

func (s *Server) panicked(r *http.Request, v any) {
	s.log.Error("handler panicked", "method", r.Method, "path", r.URL.Path, "panic", fmt.Sprint(v), "stack",
		string(debug.Stack()))
}

// checkHost refuses names that are not ours. Otherwise a web page could point a name of its
// own at our address, and use what admits its visitor.
func (s *Server) checkHost(r *http.Request) error {
	if OwnHost(r.Host, s.opts.OwnHost) {
		return nil
	}
	return problem.New(http.StatusForbidden, problem.CodeForbidden, "",
		"this server accepts localhost, IP addresses and the names in http.hosts; this request was for "+
			printable.Quoted(r.Host))
}

// OwnHost reports whether a host, with or without port, is ours: an address, localhost, or
// a name that named accepts. An address hides no other name.
func OwnHost(host string, named func(string) bool) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return host == "localhost" || net.ParseIP(host) != nil || named != nil && named(host)
}

func (s *Server) authenticate(r *http.Request) (auth.Caller, error) {
	if s.opts.Auth == nil {
		return auth.Caller{Tenant: trigger.DefaultTenant, Role: auth.Operator}, nil
	}
	who, err := s.opts.Auth.Authenticate(r)
	if err != nil {
		s.auditor.audit(r, who, "unauthenticated", "error", err)
		if p, ok := errors.AsType[*problem.Problem](err); ok {
			return auth.Caller{}, p
		}
		return auth.Caller{}, problem.New(http.StatusUnauthorized, problem.CodeUnauthenticated, "",
			"send an API key or a token as Authorization: Bearer")
	}
	s.auditor.tenants.add(who.Tenant)
	return who, nil
}

// key is the trigger that a caller's id means. An id of the default tenant has no '/',
// because the text before it would be another tenant.
func (r *request) key(id string) (trigger.Key, error) {
	key, err := trigger.ParseKey([]byte(trigger.NewKey(r.who.Tenant, id)))
	switch {
	case err != nil:
		return "", err
	case key.Tenant() != r.who.Tenant || key.ID() != id:
		p := problem.NotFound(id)
		p.Detail = "no such trigger; an id of the default tenant must not contain '/'"
		return "", p
	}
	return key, nil
}

// lookup reads the trigger that a request names.
type lookup struct {
	readWithin time.Duration
	router     *peer.Router
}

// read returns the trigger that the path names, with every acknowledged write unless fresh=false asks for less.
func (s *lookup) read(r *request) (*trigger.State, error) {
	key, err := r.key(r.id())
	if err != nil {
		return nil, problem.NotFound(r.id())
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.readWithin)
	defer cancel()
	get := s.router.Get
	if r.stale() {
		get = s.router.Peek
	}
	st, err := get(ctx, key)
	if err != nil {
		return nil, err
	}
	if st == nil || !peer.Shown.Has(st.Status) {
		return nil, problem.NotFound(r.id())
	}
	return st, nil
}

// number is an integer parameter of the query, within bounds.
func (r *request) number(name string, def, least, most int) (int, error) {
	if !r.query.Has(name) {
		return def, nil
	}
	n, err := strconv.Atoi(r.query.Get(name))
	if err != nil || n < least || n > most {
		return 0, problem.BadParameter(name, fmt.Sprintf("%s is a whole number from %d to %d", name, least, most))
	}
	return n, nil
}

// query parses the parameters of a request. It refuses unknown ones, because a misspelt
// filter would show everything. It also refuses a repeated one, because one value would be
// lost.
func (r *route) query(req *http.Request) (url.Values, error) {
	if req.URL.RawQuery == "" || r.right == 0 {
		return nil, nil
	}
	all, err := url.ParseQuery(req.URL.RawQuery)
	if err != nil {
		return nil, problem.Malformed("the query of the URL is not correctly encoded")
	}
	for name, values := range all {
		i := slices.IndexFunc(r.doc.query, func(p parameter) bool { return p.name == name })
		switch {
		case i < 0 && len(r.doc.query) == 0:
			return nil, problem.New(http.StatusBadRequest, trigger.CodeUnknownField, name,
				printable.Quoted(name)+" is not a parameter here; there are none")
		case i < 0:
			return nil, problem.New(http.StatusBadRequest, trigger.CodeUnknownField, name,
				printable.Quoted(name)+" is not a parameter here; there are "+r.doc.parameterNames())
		case len(values) > 1 && r.doc.query[i].kind.Kind() != reflect.Slice:
			return nil, problem.BadParameter(name, name+" is given twice")
		case !r.doc.query[i].allows(values):
			return nil, problem.BadParameter(name, name+" is "+strings.Join(r.doc.query[i].oneOf, " or "))
		}
	}
	return all, nil
}

// meanings lists headers that change the meaning of a write, and what to use if a route
// does not support them.
var meanings = []struct{ header, instead string }{
	{
		idempotencyKey,
		"Idempotency-Key is only for registers; with If-Match any other change except :run is applied once; a line " +
			"of a batch has idempotency_key",
	},
	{ifMatch, "If-Match has no effect here; a line of a batch has if_revision"},
	{
		ifNoneMatch,
		"If-None-Match: * is only for registering what does not exist; a line of a batch has " +
			"if_absent",
	},
}

// unread refuses a write with a header that its route does not read. A write that is safe
// to repeat may always have a key.
func (r *route) unread(req *http.Request) error {
	if r.right == 0 || r.right == auth.Read {
		return nil
	}
	for _, m := range meanings {
		if m.header == idempotencyKey && (r.method == http.MethodDelete || r.method == http.MethodPut) {
			continue
		}
		if req.Header.Values(m.header) != nil && !slices.Contains(r.doc.headers, m.header) {
			return problem.BadParameter(m.header, m.instead)
		}
	}
	return nil
}

func (o *operation) parameterNames() string {
	var names []string
	for _, p := range o.query {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}
