package webhook

import (
	"encoding/json"
	"errors"
	"net/url"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/internal/egress"
)

// callbackHeader is the header that the engine writes for this worker (docs/formats/due.md).
const callbackHeader = "wcx-callback"

// defaultTimeout applies to a request unless its trigger sets another, and maxTimeout bounds what
// a trigger may set.
const (
	defaultTimeout = 10 * time.Second
	maxTimeout     = time.Minute
)

// callback has the settings of a due event's request.
type callback struct {
	text    string // as it was registered
	url     *url.URL
	origin  string // of url
	timeout time.Duration
	raw     bool // the body is only the payload
	recheck bool // ask the owner before sending
}

var errNoCallback = errors.New("the trigger has no callback: register it with callback.url, or on a channel that " +
	"needs none")

func callbackOf(e *worker.DueEvent) (callback, error) {
	text, ok := e.Header(callbackHeader)
	if !ok {
		return callback{}, errNoCallback
	}
	var says struct {
		URL     string `json:"url"`
		Timeout string `json:"timeout"`
		Body    string `json:"body"`
		Recheck bool   `json:"recheck"`
	}
	if err := json.Unmarshal([]byte(text), &says); err != nil {
		return callback{}, errors.New("header wcx-callback is not JSON")
	}
	u, err := url.Parse(says.URL)
	if err != nil || u.Host == "" {
		return callback{}, errors.New("callback.url is not a URL with a host")
	}
	timeout, err := time.ParseDuration(says.Timeout)
	if err != nil || timeout <= 0 {
		timeout = defaultTimeout
	}
	return callback{
		text: says.URL, url: u, origin: egress.OriginOfURL(u), timeout: min(timeout, maxTimeout),
		raw: says.Body == "raw", recheck: says.Recheck,
	}, nil
}

// groupOf names the bulkhead of an event: tenant and origin. Events without a URL share one.
func groupOf(e *worker.DueEvent) string {
	c, err := callbackOf(e)
	if err != nil {
		return e.Tenant
	}
	return e.Tenant + " " + c.origin
}
