package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Value is one setting as it stands.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"` // masked if it is a secret
	Source string `json:"source"`
}

// masked stands for a secret that is set.
const masked = "********"

// Values lists every setting with its value and source, in the order of the
// documentation; of <name> settings those of the names there are.
func (c *Config) Values() []Value {
	var out []Value
	for _, s := range rows {
		for _, name := range c.namesOf(s) {
			key := strings.Replace(s.Key, namePart, name, 1)
			out = append(out, Value{Key: key, Value: c.shown(s, name), Source: c.Source(key).String()})
		}
	}
	return out
}

// Digest tells whether two processes have the same settings. Secrets do not count,
// and neither does where a value came from.
func (c *Config) Digest() string {
	h := sha256.New()
	for _, v := range c.Values() {
		fmt.Fprintf(h, "%s=%s\n", v.Key, v.Value)
	}
	return hex.EncodeToString(h.Sum(nil)[:6])
}

// Source is where the value of a key came from.
func (c *Config) Source(key string) Source {
	if s, ok := c.sources[key]; ok {
		return s
	}
	return Source{Kind: "default"}
}

func (c *Config) namesOf(s *Setting) []string {
	switch {
	case !s.Named():
		return []string{""}
	case strings.HasPrefix(s.Key, "channels."):
		return sortedKeys(c.Channels)
	case strings.HasPrefix(s.Key, "endpoints."):
		return sortedKeys(c.Endpoints)
	}
	return sortedKeys(c.Tenants)
}

func (c *Config) shown(s *Setting, name string) string {
	text := s.text(c, name)
	if !s.Secret || text == "" {
		return Masked(text)
	}
	if u, err := url.Parse(text); err == nil && u.Host != "" { // of an address the host may be seen
		return u.Scheme + "://" + masked + "@" + u.Host + u.Path
	}
	return masked
}

// users and parameters are where an address may hold what is not for all to
// see. A password with a '/' that should have been escaped is one too.
var (
	users      = regexp.MustCompile(`://[^,\s]*@`)
	parameters = regexp.MustCompile(`(://[^?,\s]*)\?[^,\s]*`)
)

// Masked is a text in which addresses show neither users nor passwords, nor
// parameters.
func Masked(text string) string {
	if !strings.Contains(text, "://") {
		return text
	}
	text = users.ReplaceAllString(text, "://"+masked+"@")
	return parameters.ReplaceAllString(text, "$1?"+masked)
}
