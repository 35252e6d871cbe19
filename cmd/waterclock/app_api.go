package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// api calls the HTTP API at --url.
type api struct {
	base   string
	key    string
	within time.Duration // timeout of a call that is not a stream
	client *http.Client
}

// answerWithin bounds most calls. The API itself answers within 2 s.
const answerWithin = 15 * time.Second

func newAPI(c *config.Config) *api {
	return &api{base: strings.TrimSuffix(c.URL, "/"), key: c.APIKey, within: answerWithin, client: &http.Client{}}
}

// triggerPath returns the URL path of a trigger. It also encodes each ':' of the id, because the
// last ':' of a path separates the verb.
func triggerPath(key string) string {
	return "/v1/triggers/" + strings.ReplaceAll(url.PathEscape(key), ":", "%3A")
}

func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// call sends a request with a JSON body, or without a body if it is nil. If the status is 400 or
// above, the error is the problem document that the API returned.
func (a *api) call(ctx context.Context, method, path string, header http.Header, body any) (status int, answer []byte,
	err error,
) {
	ctx, cancel := context.WithTimeout(ctx, a.within)
	defer cancel()
	resp, err := a.send(ctx, method, path, header, body)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil, fmt.Errorf("read the answer of %s: %w", a.base, err)
	}
	if resp.StatusCode >= 400 {
		return resp.StatusCode, nil, problem(resp, answer)
	}
	return resp.StatusCode, answer, nil
}

// open is like call, for a streamed answer: it has no timeout.
func (a *api) open(ctx context.Context, method, path string, header http.Header, body any) (io.ReadCloser, error) {
	resp, err := a.send(ctx, method, path, header, body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= 400 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		return nil, problem(resp, text)
	}
	return resp.Body, nil
}

// get calls the API and decodes the JSON answer into a value.
func (a *api) get(ctx context.Context, path string, into any) error {
	return a.ask(ctx, http.MethodGet, path, into)
}

func (a *api) ask(ctx context.Context, method, path string, into any) error {
	_, answer, err := a.call(ctx, method, path, nil, nil)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(answer))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("the answer of %s is not from a Waterclock API: %w", a.base, err)
	}
	return nil
}

func (a *api) send(ctx context.Context, method, path string, header http.Header, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, content)
	if err != nil {
		return nil, usagef("--url %s: %v", a.base, err)
	}
	req.Header.Set("User-Agent", "waterclock/"+buildVersion())
	for name, values := range header {
		req.Header[name] = values
	}
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if a.key != "" {
		req.Header.Set("Authorization", "Bearer "+a.key)
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, a.explain(err)
	}
	return resp, nil
}

// explain turns a connection error into a message that says what to do.
func (a *api) explain(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		return &failure{Exit: exitFailed, Passing: true, Msg: fmt.Sprintf(
			"no API answers at %s: start one with `waterclock dev`, or name yours with --url", a.base)}
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		return failf("%s has a certificate of an authority that this machine does not trust: "+
			"if it is yours, name its PEM file in SSL_CERT_FILE", a.base)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return failf("%s has not answered within %s", a.base, a.within)
	}
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || strings.Contains(err.Error(), "malformed HTTP") {
		return &failure{
			Exit: exitFailed, Passing: true,
			Msg: a.base + " closed the connection without an HTTP answer: if this is a broker's port, name it with " +
				"--brokers",
			Err: err,
		}
	}
	return err
}

// problem turns RFC 9457 problem details into an error.
func problem(resp *http.Response, body []byte) error {
	var p struct{ Code, Detail, Title, Field string }
	if json.Unmarshal(body, &p) != nil || p.Code == "" && p.Title == "" && p.Detail == "" {
		p.Detail = strings.TrimSpace(string(body))
	}
	if p.Detail == "" {
		p.Detail = p.Title
	}
	if resp.StatusCode == http.StatusUnauthorized {
		const advice = "; set your API key in WATERCLOCK_API_KEY, or as api_key in the settings file"
		p.Detail = strings.TrimPrefix(p.Detail+advice, "; ")
	}
	if p.Code == "" {
		p.Code = strings.ToLower(strings.ReplaceAll(http.StatusText(resp.StatusCode), " ", "_"))
	}
	if p.Field != "" {
		p.Code += " (" + p.Field + ")"
	}
	return &failure{
		Exit: exitOfStatus(resp.StatusCode, p.Code), Msg: strings.TrimSuffix(p.Code+": "+p.Detail, ": "),
		Passing: resp.StatusCode >= http.StatusBadGateway && resp.StatusCode <= http.StatusGatewayTimeout,
	}
}

func exitOfStatus(status int, code string) int {
	switch status {
	case http.StatusNotFound, http.StatusGone:
		return exitNotFound
	case http.StatusConflict, http.StatusPreconditionFailed:
		return exitConflict
	}
	code, _, _ = strings.Cut(code, " ")
	return exitOfCode(trigger.Code(code))
}

// follow reads server-sent events until done returns true, the server ends the stream, or ctx
// ends. If the trigger does not exist, it retries: a durable register may not be decided yet.
func (a *api) follow(ctx context.Context, path string, began func(), done func(*topics.Event) bool) error {
	for {
		err := a.stream(ctx, path, began, done)
		if exitOf(err) != exitNotFound {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("follow %s: %w", a.base, ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

// pollEvery is the time between two retries for a trigger that does not exist yet.
const pollEvery = 500 * time.Millisecond

// backWithin is for how long stream tries to get back to an API that it has lost.
const backWithin = 30 * time.Second

// stream is follow for a trigger that exists. When the answer breaks off, it comes back and continues behind the last
// event, so an API that restarts ends no watch.
func (a *api) stream(ctx context.Context, path string, began func(), done func(*topics.Event) bool) error {
	last := "" // id
	var heard time.Time
	begun := func() {
		if heard = time.Now(); began != nil {
			began()
		}
	}
	take := func(id, _, data string) (bool, error) {
		var e topics.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return false, fmt.Errorf("read an event of %s: %w", a.base, err)
		}
		last, heard = id, time.Now()
		return done(&e), nil
	}
	for {
		err := a.serverSent(ctx, path, last, begun, take)
		var f *failure
		if !errors.As(err, &f) || !f.Passing || last == "" || time.Since(heard) > backWithin {
			return err // without an id it would begin anew
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollEvery):
		}
	}
}

// serverSent reads server-sent events, behind the one whose id is last, until take returns done or an error. It is an
// error if the server ends the stream before that. It calls began, which may be nil, when the answer begins.
func (a *api) serverSent(ctx context.Context, path, last string, began func(),
	take func(id, event, data string) (done bool, err error),
) error {
	header := http.Header{"Accept": {"text/event-stream"}}
	if last != "" {
		header.Set("Last-Event-ID", last)
	}
	answer, err := a.open(ctx, http.MethodGet, path, header, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	if began != nil {
		began()
	}
	lines := bufio.NewScanner(answer)
	lines.Buffer(nil, 4<<20) // an event carries a payload of up to 512 KiB
	var id, event string
	for lines.Scan() {
		switch field, value, _ := strings.Cut(lines.Text(), ":"); field {
		case "id":
			id = strings.TrimPrefix(value, " ")
		case "event":
			event = strings.TrimPrefix(value, " ")
		case "data":
			if done, err := take(id, event, value); done || err != nil {
				return err
			}
			id = ""
		}
	}
	if err := lines.Err(); err != nil {
		passing := !errors.Is(err, bufio.ErrTooLong) && ctx.Err() == nil
		return &failure{Exit: exitFailed, Passing: passing, Msg: "follow " + a.base, Err: err}
	}
	return &failure{Exit: exitFailed, Passing: true, Msg: a.base + " ended the stream of events"}
}

// fetchPages reads a list page by page until it has limit items. A limit of 0 means all.
func fetchPages[T any](ctx context.Context, from *api, path string, q url.Values, limit int) (all []T, err error) {
	for limit <= 0 || len(all) < limit {
		var page struct {
			Items      []T    `json:"items"`
			NextCursor string `json:"next_cursor"`
		}
		size := pageSize
		if limit > 0 {
			size = min(size, limit-len(all))
		}
		q.Set("limit", strconv.Itoa(size))
		if err := from.get(ctx, path+"?"+q.Encode(), &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.NextCursor == "" {
			break
		}
		q.Set("cursor", page.NextCursor)
	}
	return all, nil
}
