package egress

import (
	"errors"
	"net"
	"net/url"
)

// ParseBase reads the base URL of a service that the operator trusts with credentials: https,
// or http on loopback, perhaps with a path. It returns the URL's origin.
func ParseBase(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return Origin{}, errors.New(
			"is not a base URL: write scheme, host and optionally a path, such as https://proxy.example.com")
	}
	o, err := ParseOrigin(u.Scheme + "://" + u.Host)
	if err != nil {
		return Origin{}, err
	}
	ip := net.ParseIP(o.Host)
	if o.Scheme != "https" && o.Host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return Origin{}, errors.New(
			"must begin with https://, so that credentials are encrypted; http is for loopback only")
	}
	return o, nil
}
