package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/waterclock/waterclock/internal/egress"
)

// Values that are not for a settings file stand elsewhere: env:NAME is a
// variable of the process, file:PATH a file. A file is read again while the
// process runs.
const (
	envRef  = "env:"
	fileRef = "file:"
)

// maxSecretFile bounds a file that holds one value.
const maxSecretFile = 64 << 10

// isReference says whether a text says where its value stands.
func isReference(text string) bool {
	return strings.HasPrefix(text, envRef) || strings.HasPrefix(text, fileRef)
}

// dereference is the value of env:NAME or file:PATH; any other text is itself.
func dereference(text string) (string, error) {
	if name, ok := strings.CutPrefix(text, envRef); ok {
		value, ok := os.LookupEnv(name)
		if !ok || value == "" {
			return "", fmt.Errorf("environment variable %s is unset", name)
		}
		return value, nil
	}
	path, ok := strings.CutPrefix(text, fileRef)
	if !ok {
		return text, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if err := OthersMayWrite(f); err != nil {
		return "", err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxSecretFile))
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(content), "\r\n")
	if value == "" {
		return "", fmt.Errorf("%s is empty", path)
	}
	return value, nil
}

// WebhookSecrets are the keys that sign a tenant's webhooks as they are now,
// whsec_ and base64 each, and the setting they are from. None means unsigned.
func (c *Config) WebhookSecrets(tenant string) (key string, secrets []string, err error) {
	key, text := "webhook.secret", c.Webhook.Secret
	if own := c.Tenant(tenant).WebhookSecret; own != "" {
		key, text = "tenants."+tenant+".webhook_secret", own
	}
	text, err = c.ReadSecret(key, text)
	switch {
	case err != nil:
	case strings.TrimSpace(text) == "" && c.secretFiles[key] != "": // else signing would end without a word
		err = errors.New("its file is empty")
	default:
		secrets, err = signingKeys(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", key, err)
	}
	return key, secrets, err
}

// minSigningKey is the least that Standard Webhooks allows.
const minSigningKey = 24

// maxSigningKeys is how many keys sign at a time: the old one and the new one.
const maxSigningKeys = 2

// signingKeys reads one or two keys, or where they stand. A file may hold both, so that a key is
// rotated without a restart. What is wrong with one is said without it.
func signingKeys(text string) ([]string, error) {
	var keys []string
	for _, ref := range splitList(text) {
		value, err := dereference(ref)
		if err != nil {
			return nil, err
		}
		keys = append(keys, splitList(value)...)
	}
	if len(keys) > maxSigningKeys {
		return nil, fmt.Errorf("has %d keys: at most two, separated by a comma", len(keys))
	}
	if len(keys) == 0 && text != "" {
		return nil, errNoSigningKey
	}
	for _, key := range keys {
		coded, ok := strings.CutPrefix(key, "whsec_")
		raw, err := base64.StdEncoding.DecodeString(coded)
		if !ok || err != nil || len(raw) < minSigningKey {
			return nil, errNoSigningKey
		}
	}
	return keys, nil
}

var errNoSigningKey = errors.New("is not a key: write whsec_ and base64 of 24 bytes or more (`echo whsec_$(openssl " +
	"rand -base64 32)` makes one), env:NAME or file:PATH")

func (l *loader) checkWebhookSecret(key, text string) {
	if _, err := signingKeys(text); err != nil {
		l.at(key, "%v", err)
	}
}

// EndpointHeaders are the headers of requests to an origin as they are now.
func (c *Config) EndpointHeaders(origin string) (http.Header, error) {
	e := c.Endpoints[origin]
	if e == nil {
		return nil, nil
	}
	h := http.Header{}
	for _, pair := range e.Headers {
		name, ref, _ := strings.Cut(pair, "=")
		if err := mayHeader(name, ref); err != nil {
			return nil, err
		}
		value, err := dereference(ref)
		if err != nil {
			return nil, fmt.Errorf("header %s: %w", name, err)
		}
		if !httpguts.ValidHeaderFieldValue(value) {
			return nil, fmt.Errorf("header %s: its value has a line end or another control character", name)
		}
		h.Set(name, value)
	}
	return h, nil
}

// ownHeaders are those of the request itself, which no setting may replace; so
// are all that begin with one of ownPrefixes.
var (
	ownHeaders = []string{
		"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "connection", "trailer",
		"te", "upgrade", "keep-alive", "expect", "accept-encoding", "user-agent", "traceparent", "proxy-authorization",
		"proxy-connection",
	}
	ownPrefixes = []string{"webhook-", "ce-", "x-trigger-"}
)

func mayHeader(name, ref string) error {
	lower := strings.ToLower(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is not a header name", name)
	case slices.Contains(ownHeaders, lower), slices.ContainsFunc(ownPrefixes, func(p string) bool {
		return strings.HasPrefix(lower, p)
	}):
		return fmt.Errorf("header %s is set by the worker", name)
	case !isReference(ref):
		return fmt.Errorf("header %s: write env:NAME or file:PATH, so that the settings contain no secret", name)
	}
	return nil
}

// checkEndpoints finds origins that are none, and headers that cannot be sent.
func (l *loader) checkEndpoints() {
	for _, origin := range sortedKeys(l.c.Endpoints) {
		key := "endpoints." + origin
		if o, err := egress.ParseOrigin(origin); err != nil || o.String() != origin {
			l.at(key, "%q is not an origin: write scheme, host and optionally a port, in lower case, an IPv6 "+
				"address in its shortest form, such as https://hooks.example.com", origin)
			continue
		}
		if _, err := l.c.EndpointHeaders(origin); err != nil {
			l.at(key+".headers", "%v", err)
		}
	}
}

// WebhookFiles are the files with signing keys and headers, which may change
// while a process runs.
func (c *Config) WebhookFiles() (files []string) {
	texts := []string{c.Webhook.Secret}
	keys := []string{"webhook.secret"}
	for _, name := range sortedKeys(c.Tenants) {
		texts = append(texts, c.Tenants[name].WebhookSecret)
		keys = append(keys, "tenants."+name+".webhook_secret")
	}
	for _, key := range keys {
		if file := c.secretFiles[key]; file != "" {
			files = append(files, file)
		}
	}
	refs := []string{}
	for _, text := range texts {
		refs = append(refs, splitList(text)...)
	}
	for _, origin := range sortedKeys(c.Endpoints) {
		for _, pair := range c.Endpoints[origin].Headers {
			_, ref, _ := strings.Cut(pair, "=")
			refs = append(refs, ref)
		}
	}
	for _, ref := range refs {
		if path, ok := strings.CutPrefix(ref, fileRef); ok && !slices.Contains(files, path) {
			files = append(files, path)
		}
	}
	return files
}
