package topics

import (
	"net/url"
	"time"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/trigger"
)

// Bounds on a callback.
const (
	maxCallbackTimeout = time.Minute
	maxCallbackRetries = 32
	maxCallbackWait    = 30 * 24 * time.Hour
)

// What callback.body may say: {"triggerId","payload"}, or the payload itself.
const (
	bodyEnvelope = "envelope"
	bodyRaw      = "raw"
)

func (d *draft) callback() *trigger.Callback {
	if !d.seen.has(fCallback) {
		return nil
	}
	c := &trigger.Callback{
		URL: d.callbackURL(), Timeout: d.duration(fTimeout), Recheck: d.bool(fRecheck),
		Raw: d.choice(fBody, bodyEnvelope, bodyRaw) == 1,
	}
	if d.seen.has(fTimeout) && (c.Timeout <= 0 || c.Timeout > maxCallbackTimeout) {
		d.refuse(trigger.CodeInvalid, "callback", "callback.timeout must be over 0 and at most 1m")
	}
	if !d.seen.has(fRetry) {
		return c
	}
	if len(d.retry) > maxCallbackRetries {
		d.refuse(trigger.CodeInvalid, "callback", "callback.retry has at most 32 entries")
		return c
	}
	c.Retry = make([]time.Duration, 0, len(d.retry))
	for _, text := range d.retry {
		c.Retry = append(c.Retry, d.wait(text))
	}
	return c
}

func (d *draft) wait(text string) time.Duration {
	w, err := calendar.ParseDuration(text)
	if err != nil {
		d.refuseError("callback", err)
	} else if w > maxCallbackWait {
		d.refuse(trigger.CodeInvalid, "callback", "each wait of callback.retry must be at most 30 days")
	}
	return w
}

// callbackURL checks the form of a URL. The gateway and the webhook worker check whether its
// origin is allowed.
func (d *draft) callbackURL() string {
	text := d.string(fURL, maxURL)
	u, err := url.Parse(text)
	switch {
	case text == "":
		d.refuse(trigger.CodeInvalid, "callback", "callback needs a url")
	case err != nil:
		d.refuse(trigger.CodeInvalid, "callback", "callback.url is not a URL: write https://host/path")
	case u.User != nil:
		d.refuse(trigger.CodeForbiddenURL, "callback", "callback.url must not contain a user name or a password")
	case u.Scheme != "http" && u.Scheme != "https":
		d.refuse(trigger.CodeForbiddenURL, "callback",
			"callback.url must begin with https://, or with http:// where that is allowed")
	case u.Hostname() == "":
		d.refuse(trigger.CodeInvalid, "callback", "callback.url has no host")
	}
	return text
}
