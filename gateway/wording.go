package gateway

import (
	"net/http"
	"net/url"
	"strings"
)

// wording is how a family of routes words its answers to writes, and where what
// was written is read.
type wording struct {
	path       string // the id follows
	registered func(*command, *verdict) any
	changed    func(*command, *verdict) any
	accepted   func(id string) any // it is durable, and not yet decided
}

var asTrigger = wording{
	path:       "/v1/triggers/",
	registered: func(c *command, v *verdict) any { return registered(c, v) },
	changed:    func(c *command, v *verdict) any { return changed(c, v) },
	accepted:   func(id string) any { return Accepted{id} },
}

// sendRegistered answers a register.
func (s *Server) sendRegistered(w http.ResponseWriter, c *command, v verdict, say *wording) error {
	if !v.decided {
		return say.sendAccepted(w, c, v)
	}
	w.Header().Set("Location", say.location(c.id))
	if v.state != nil {
		w.Header().Set("ETag", etag(v.state.Revision))
	}
	return sendJSON(w, v.statusOfRegister(), say.registered(c, &v))
}

// sendChanged answers any other write.
func (s *Server) sendChanged(w http.ResponseWriter, c *command, v verdict, say *wording) error {
	if !v.decided {
		return say.sendAccepted(w, c, v)
	}
	if v.state != nil {
		w.Header().Set("ETag", etag(v.state.Revision))
	}
	return sendJSON(w, http.StatusOK, say.changed(c, &v))
}

// sendAccepted answers a write that is durable and to be decided.
func (say *wording) sendAccepted(w http.ResponseWriter, c *command, v verdict) error {
	w.Header().Set("Location", say.location(c.id))
	if v.async {
		applied(w)
	}
	return sendJSON(w, http.StatusAccepted, say.accepted(c.id))
}

// respondAsync is the preference there is (RFC 7240).
const respondAsync = "respond-async"

func applied(w http.ResponseWriter) { w.Header().Set("Preference-Applied", respondAsync) }

// location is where a trigger is read; a ':' in its id is encoded, since a verb
// may follow the last one.
func (say *wording) location(id string) string {
	return say.path + strings.ReplaceAll(url.PathEscape(id), ":", "%3A")
}
