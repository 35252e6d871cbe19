package gateway

import (
	"net/http"
	"net/url"
	"strings"
)

// wording is how a family of routes answers writes, and the path of what was written.
type wording struct {
	path       string // the id is appended
	registered func(*command, *verdict) any
	changed    func(*command, *verdict) any
	accepted   func(id string) any // durable, and not decided yet
}

var asTrigger = wording{
	path:       "/v1/triggers/",
	registered: func(c *command, v *verdict) any { return registered(c, v) },
	changed:    func(c *command, v *verdict) any { return changed(c, v) },
	accepted:   func(id string) any { return Accepted{id} },
}

// sendRegistered answers a register.
func sendRegistered(w http.ResponseWriter, c *command, v verdict, say *wording) error {
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
func sendChanged(w http.ResponseWriter, c *command, v verdict, say *wording) error {
	if !v.decided {
		return say.sendAccepted(w, c, v)
	}
	if v.state != nil {
		w.Header().Set("ETag", etag(v.state.Revision))
	}
	return sendJSON(w, http.StatusOK, say.changed(c, &v))
}

// sendAccepted answers a write that is durable and not decided yet.
func (say *wording) sendAccepted(w http.ResponseWriter, c *command, v verdict) error {
	w.Header().Set("Location", say.location(c.id))
	if v.async {
		applied(w)
	}
	return sendJSON(w, http.StatusAccepted, say.accepted(c.id))
}

// respondAsync is the only preference that we support (RFC 7240).
const respondAsync = "respond-async"

func applied(w http.ResponseWriter) { w.Header().Set("Preference-Applied", respondAsync) }

// location is the path of a trigger. A ':' in its id is encoded, because a verb may follow
// the last one.
func (say *wording) location(id string) string {
	return say.path + strings.ReplaceAll(url.PathEscape(id), ":", "%3A")
}
