package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// These bound what a page waits for, and how much of it one answer may be. What is not in the page
// is asked for by the page.
const (
	firstWithin = 500 * time.Millisecond
	mostFirst   = 64 << 10
)

// firstData is what a page would ask the API for at once: it has the answers with it.
type firstData struct {
	At      time.Time                  `json:"at"`
	Answers map[string]json.RawMessage `json:"answers"` // by the path that the page asks for
}

// first asks the API, with the caller's own rights. json.Marshal escapes <, > and &, so nothing in
// it can end the element that it stands in.
func (c *console) first(r *http.Request) []byte {
	r, end := c.sessions.asCredential(r)
	defer end()
	ctx, cancel := context.WithTimeout(r.Context(), firstWithin)
	defer cancel()
	d := firstData{At: c.sessions.now().UTC(), Answers: map[string]json.RawMessage{}}
	add := func(path string) bool {
		if ctx.Err() != nil {
			return false
		}
		answer := ask(ctx, c.api, r, path)
		body := answer.body.Bytes()
		if answer.status != http.StatusOK || len(body) > mostFirst || !json.Valid(body) {
			return false
		}
		d.Answers[path] = body
		return true
	}
	if !add("v1/whoami") {
		return emptyFirst // a page that may not know who asks has nothing else
	}
	var who struct {
		Rights  []string `json:"rights"`
		History bool     `json:"history"`
	}
	_ = json.Unmarshal(d.Answers["v1/whoami"], &who)
	for _, path := range firstPaths(r.URL, slices.Contains(who.Rights, "operate"), who.History) {
		add(path)
	}
	b, err := json.Marshal(d)
	if err != nil {
		return emptyFirst
	}
	return b
}

var emptyFirst = []byte("{}")

// firstPaths are the paths that the page of an address asks for at once, as it spells them.
func firstPaths(at *url.URL, operates, history bool) []string {
	switch strings.Trim(strings.TrimPrefix(at.Path, Root), "/") {
	case "":
		paths := []string{"v1/lateness?window=1h", "v1/forecast?bucket=1m&n=10"}
		if history {
			paths = append(paths, "v1/dead-letters?group_by=code&fresh=false")
		}
		if operates {
			paths = append(paths, "v1/partitions?fresh=false", "v1/endpoints?fresh=false")
		}
		return paths
	case "trigger":
		if id := at.Query().Get("id"); id != "" {
			path, one := "v1/triggers/"+component(id), ""
			if occurrence := at.Query().Get("occurrence"); occurrence != "" {
				one = "&occurrence=" + component(occurrence)
			}
			return []string{path + "?fresh=false&payload=false", path + "/explain?fresh=false" + one}
		}
	case "search":
		if q := at.Query().Get("q"); q != "" {
			return []string{"v1/search?fresh=false&q=" + component(q)}
		}
	}
	return nil
}

// component is encodeURIComponent of browsers.
func component(s string) string {
	return unescaped.Replace(url.QueryEscape(s))
}

var unescaped = strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*")

// ask asks the API on behalf of a request, with its credential and nothing else of its headers.
func ask(ctx context.Context, api http.Handler, r *http.Request, path string) *recorder {
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "/"+path, http.NoBody)
	if err != nil {
		answer.status = http.StatusInternalServerError
		return answer
	}
	q.Host, q.RemoteAddr, q.TLS = r.Host, r.RemoteAddr, r.TLS
	q.Header.Set("Accept", "application/json")
	for _, name := range []string{"Authorization", "X-Api-Key"} {
		if value := r.Header.Get(name); value != "" {
			q.Header.Set(name, value)
		}
	}
	api.ServeHTTP(answer, q)
	return answer
}
