package waterclock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Client calls the HTTP API. It is safe for concurrent use.
type Client struct {
	base      url.URL // Path has no trailing slash
	http      *http.Client
	token     string
	userAgent string
	retries   int
	backoff   time.Duration
	maxWait   time.Duration
	timeout   time.Duration
	maxAnswer int64
}

// ClientOption configures a Client.
type ClientOption func(*Client)

// Token sets an API key or a JWT, which is sent as a bearer token.
func Token(t string) ClientOption { return func(c *Client) { c.token = t } }

// HTTPClient replaces the default client, which has the settings of http.DefaultTransport. Do not
// set its Timeout, because that would end streams: use AttemptTimeout. Redirects are never
// followed.
func HTTPClient(h *http.Client) ClientOption { return func(c *Client) { own := *h; c.http = &own } }

// Retries sets how many more requests a call may send if that is safe. The default is 3; 0 sends
// only one request.
func Retries(n int) ClientOption { return func(c *Client) { c.retries = max(0, n) } }

// Backoff sets the wait before the first retry, if the server names none. The wait doubles with
// each retry, up to 32 times the first. Half of it is random. The default is 100 ms.
func Backoff(d time.Duration) ClientOption { return func(c *Client) { c.backoff = max(0, d) } }

// MaxWait is the longest Retry-After that the client waits for. If the server asks for more, the
// call returns its error at once. The default is 30 s.
func MaxWait(d time.Duration) ClientOption { return func(c *Client) { c.maxWait = d } }

// AttemptTimeout bounds one request including its answer. The context bounds the whole call. The
// default is 15 s, and 60 s for a batch.
func AttemptTimeout(d time.Duration) ClientOption { return func(c *Client) { c.timeout = d } }

// MaxAnswer bounds the bytes of an answer after decompression, and of one event of a stream. A
// longer one is an error of type ServerFault. The default is 64 MiB; a stream's bound is at most 1
// GiB.
func MaxAnswer(bytes int64) ClientOption {
	return func(c *Client) { c.maxAnswer = min(max(1, bytes), math.MaxInt64-1) }
}

// UserAgent sets the User-Agent header, which names the caller in the server's logs.
func UserAgent(name string) ClientOption { return func(c *Client) { c.userAgent = name } }

// New creates a client of the server at this address, such as http://127.0.0.1:8080. It sends no
// request.
func New(address string, opts ...ClientOption) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, refuse("invalid", "address", "it is not a URL: "+err.Error())
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return nil, refuse("invalid", "address", fmt.Sprintf("%q is not a URL: write http://host:port", u.Redacted()))
	}
	c := &Client{
		base: url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")},
		http: &http.Client{}, userAgent: "waterclock-go",
		retries: 3, backoff: 100 * time.Millisecond, maxWait: 30 * time.Second, maxAnswer: 64 << 20,
	}
	for _, opt := range opts {
		opt(c)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

// request is one call.
type request struct {
	method string
	path   []string // unescaped segments; the verb follows the last one
	verb   string
	query  url.Values
	header http.Header
	body   []byte
	kind   string // content type of the body
	repeat repeatable
	write  bool
}

func (r *request) set(name, value string) {
	if r.header == nil {
		r.header = http.Header{}
	}
	r.header.Set(name, value)
}

// escape returns the canonical encoding of a path segment: everything but unreserved bytes is
// percent-encoded. url.PathEscape would leave ':' and others, and an id may end like a verb.
func escape(segment string) string {
	var b strings.Builder
	for i := range len(segment) {
		switch c := segment[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._~", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func (c *Client) url(r *request) *url.URL {
	u := c.base
	raw := u.EscapedPath()
	for _, s := range r.path {
		u.Path += "/" + s
		raw += "/" + escape(s)
	}
	u.Path, u.RawPath = u.Path+r.verb, raw+r.verb
	u.RawQuery = r.query.Encode()
	return &u
}

// answer is a complete response.
type answer struct {
	status   int
	header   http.Header
	body     []byte
	attempts int
	unsure   bool // an earlier attempt may have been applied
}

// do sends the request until it gets a 2xx answer, or gives up.
func (c *Client) do(ctx context.Context, r *request) (*answer, error) {
	unsure := false
	for attempt := 1; ; attempt++ {
		a, sent, err := c.send(ctx, r)
		if err == nil {
			a.attempts, a.unsure = attempt, unsure
			return a, nil
		}
		err.Attempts = attempt
		unsure = unsure || r.write && err.leavesOpen(sent)
		err.MaybeApplied = unsure
		wait, ok := c.retry(err, r.repeat, sent)
		if !ok || !sleep(ctx, wait) {
			return nil, err
		}
	}
}

// leavesOpen reports whether a write that ended so may have been applied.
func (e *Error) leavesOpen(sent bool) bool {
	return sent && (e.Status < 300 || e.Status >= 500 || e.Status == http.StatusRequestTimeout)
}

// send makes one attempt. sent reports whether the server may have received it.
func (c *Client) send(ctx context.Context, r *request) (a *answer, sent bool, e *Error) {
	timeout := c.timeout
	if timeout <= 0 {
		timeout = 15 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, sent, err := c.begin(ctx, r)
	if err != nil {
		return nil, sent, err
	}
	defer res.Body.Close()
	body, readErr := io.ReadAll(io.LimitReader(res.Body, c.maxAnswer+1))
	switch {
	case int64(len(body)) > c.maxAnswer:
		return nil, true, c.tooLong(res.StatusCode)
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, true, answered(res.StatusCode, res.Header, body)
	case readErr != nil:
		return nil, true, unreadable(res.StatusCode, fmt.Errorf("%w: %w", errCut, readErr))
	}
	return &answer{status: res.StatusCode, header: res.Header, body: body}, true, nil
}

// begin sends a request and returns the response before its body is read.
func (c *Client) begin(ctx context.Context, r *request) (res *http.Response, sent bool, e *Error) {
	var connected atomic.Bool // atomic, because a dial may continue after the request has failed
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(traced, r.method, "", body)
	if err != nil {
		return nil, false, refuse("invalid", "", err.Error())
	}
	req.URL = c.url(r)
	req.Host = req.URL.Host
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", c.userAgent)
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, application/problem+json")
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err = c.http.Do(req)
	if err != nil {
		var wrapped *url.Error // its text contains the URL, and with it the id
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, connected.Load(), &Error{
			Type: Unavailable, Detail: "no answer from " + c.base.Host + ": " + err.Error(), cause: err,
		}
	}
	return res, true, nil
}

// call sends r and decodes the answer into to.
func (c *Client) call(ctx context.Context, r *request, to any) (*answer, error) {
	a, err := c.do(ctx, r)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(a.body, to); err != nil {
		e := unreadable(a.status, err)
		e.MaybeApplied, e.Attempts = r.write, a.attempts
		return nil, e
	}
	return a, nil
}
