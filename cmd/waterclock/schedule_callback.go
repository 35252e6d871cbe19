package main

import (
	"strings"

	"github.com/spf13/pflag"
)

// callbackFlags are the fields of a callback.
type callbackFlags struct {
	url, timeout, retry, body string
	recheck                   bool
}

func (c *callbackFlags) bind(fs *pflag.FlagSet) {
	fs.StringVar(&c.url, "callback-url", "", "`URL` to post to, on channel webhook")
	fs.StringVar(&c.timeout, "callback-timeout", "",
		"`DURATION` until an answer must be there, at most 1m (default 10s)")
	fs.StringVar(&c.retry, "callback-retry", "",
		"`WAITS` before each further attempt, as 10s,2m; none for one attempt (default: those of channel webhook)")
	fs.StringVar(&c.body, "callback-body", "", "raw: post the payload as it is, without an envelope")
	fs.BoolVar(&c.recheck, "callback-recheck", false, "before each call, check whether the trigger was cancelled")
}

// put adds the callback to a register's fields.
func (c *callbackFlags) put(fields map[string]any) error {
	callback := map[string]any{}
	put(callback, "timeout", c.timeout)
	put(callback, "body", c.body)
	switch c.retry {
	case "":
	case "none":
		callback["retry"] = []string{}
	default:
		callback["retry"] = strings.Split(c.retry, ",")
	}
	if c.recheck {
		callback["recheck"] = true
	}
	if c.url == "" {
		if len(callback) > 0 {
			return usagef("--callback-timeout, --callback-retry, --callback-body and --callback-recheck " +
				"need --callback-url")
		}
		return nil
	}
	callback["url"] = c.url
	fields["callback"] = callback
	if _, named := fields["channel"]; !named {
		fields["channel"] = "webhook"
	}
	return nil
}
