package console

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const key = "0123456789abcdef0123456789abcdef"

// world is a console over an API that knows one key and says what it was asked.
type world struct {
	t       *testing.T
	handler http.Handler
	now     time.Time
	secrets [][]byte
}

func newWorld(t *testing.T, prefix string) *world {
	t.Helper()
	return newWorldAt(t, prefix, http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			http.Error(out, "who?", http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(out, r.Method+" "+r.URL.Path)
	}))
}

func newWorldOver(t *testing.T, api http.Handler) *world {
	t.Helper()
	return newWorldAt(t, "", api)
}

func newWorldAt(t *testing.T, prefix string, api http.Handler) *world {
	t.Helper()
	w := &world{t: t, now: time.Unix(1_800_000_000, 0), secrets: [][]byte{[]byte("a secret of the cluster")}}
	var err error
	w.handler, err = New(Options{
		API: api, Prefix: prefix, Secrets: func() [][]byte { return w.secrets }, Now: func() time.Time { return w.now },
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) do(method, path string, headers ...string) *answer {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, http.NoBody)
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := httptest.NewRecorder()
	w.handler.ServeHTTP(out, r)
	a := &answer{StatusCode: out.Code, Header: out.Header(), body: out.Body.String()}
	for _, line := range out.Header().Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			w.t.Error(err)
			continue
		}
		a.cookies = append(a.cookies, cookie)
	}
	return a
}

// answer is what a request got.
type answer struct {
	StatusCode int
	Header     http.Header
	body       string
	cookies    []*http.Cookie
}

// login returns the cookie of a new session, as a browser sends it.
func (w *world) login() string {
	w.t.Helper()
	r := w.do("POST", "/console/session", "Authorization", "Bearer "+key)
	if r.StatusCode != http.StatusOK || len(r.cookies) != 1 {
		w.t.Fatalf("%d, %v", r.StatusCode, r.cookies)
	}
	return r.cookies[0].Name + "=" + r.cookies[0].Value
}

// A copy of the cookie of a session that was ended is none. Other sessions go on.
func TestEndedSession(t *testing.T) {
	w := newWorld(t, "")
	ended := w.login()
	w.now = w.now.Add(time.Second)
	other := w.login()
	reads := func(cookie string) bool {
		return w.do("GET", "/v1/triggers", "Cookie", cookie).StatusCode == http.StatusOK
	}
	if !reads(ended) || !reads(other) {
		t.Fatal("a session does not begin")
	}
	if r := w.do("DELETE", "/console/session", "Cookie", ended); r.StatusCode != http.StatusNoContent {
		t.Fatalf("the end of a session: %d", r.StatusCode)
	}
	// The last character of base64 has bits that no reader counts.
	last := ended[len(ended)-1]
	for c := range 256 {
		if copied := ended[:len(ended)-1] + string(rune(c)); (byte(c) == last || c > ' ' && c < 0x7f && c != ';') &&
			reads(copied) {
			t.Errorf("%q after %q ended", copied, ended)
		}
	}
	if !reads(other) {
		t.Error("another session has ended too")
	}
}

func TestSession(t *testing.T) {
	w := newWorld(t, "")
	r := w.do("POST", "/console/session", "Authorization", "Bearer "+key)
	c := r.cookies[0]
	if c.Name != Cookie || !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" ||
		c.Domain != "" || strings.Contains(c.Value, key) {
		t.Errorf("cookie %v", c)
	}
	if got := r.body; got != "GET /v1/whoami" {
		t.Errorf("answer %q", got)
	}
	cookie := w.login()
	if r := w.do("GET", "/v1/triggers", "Cookie", cookie); r.body != "GET /v1/triggers" {
		t.Errorf("with the session: %d", r.StatusCode)
	}
	if r := w.do("GET", "/v1/triggers", "Cookie", cookie, "Authorization", "Bearer other"); r.StatusCode != 401 {
		t.Errorf("a credential of its own counts: %d", r.StatusCode)
	}
	if r := w.do("GET", "/v1/triggers", "Cookie", cookie, "X-API-Key", "other"); r.StatusCode != 401 {
		t.Errorf("a key of its own counts: %d", r.StatusCode)
	}
	flipped := cookie[:len(cookie)-3] + string(cookie[len(cookie)-3]^1) + cookie[len(cookie)-2:]
	for name, bad := range map[string]string{
		"changed": flipped, "cut": cookie[:len(cookie)-4], "none": Cookie + "=", "junk": Cookie + "=%%%",
		"another's": newWorldWith(t, "another secret").login(),
	} {
		if r := w.do("GET", "/v1/triggers", "Cookie", bad); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	w.secrets = [][]byte{[]byte("a new secret"), w.secrets[0]}
	if r := w.do("GET", "/v1/triggers", "Cookie", cookie); r.StatusCode != http.StatusOK {
		t.Errorf("after the secret was changed: %d", r.StatusCode)
	}
	w.now = w.now.Add(sessionFor + time.Second)
	if r := w.do("GET", "/v1/triggers", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("too old: %d", r.StatusCode)
	}
	end := w.do("DELETE", "/console/session")
	if end.StatusCode != http.StatusNoContent || len(end.cookies) != 1 || end.cookies[0].MaxAge != -1 {
		t.Errorf("ended: %d, %v", end.StatusCode, end.cookies)
	}
}

// What a request of a session goes on with ends when the session does: a stream, for one.
func TestRequestsEndWithTheirSession(t *testing.T) {
	ended := make(chan time.Duration, 1)
	begun := time.Now()
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && r.URL.Path == "/v1/live" {
			<-r.Context().Done()
			ended <- time.Since(begun)
		}
	})
	now := time.Unix(1_800_000_000, 0)
	h, err := New(Options{
		API: api, Secrets: func() [][]byte { return [][]byte{[]byte("a secret of the cluster")} },
		Now: func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, handler: h}
	cookie := w.login()
	now = now.Add(sessionFor - 50*time.Millisecond)
	w.do("GET", "/v1/live", "Cookie", cookie)
	if after := <-ended; after < 40*time.Millisecond {
		t.Errorf("it ended after %v", after)
	}
}

func newWorldWith(t *testing.T, secret string) *world {
	w := newWorld(t, "")
	w.secrets = [][]byte{[]byte(secret)}
	return w
}

func TestSessionRefused(t *testing.T) {
	w := newWorld(t, "")
	for name, c := range map[string]struct {
		method string
		header []string
		want   int
	}{
		"no credential":      {"POST", nil, 400},
		"an unknown key":     {"POST", []string{"Authorization", "Bearer x"}, 401},
		"a large credential": {"POST", []string{"Authorization", "Bearer " + strings.Repeat("x", 3000)}, 400},
		"cross-origin": {
			"POST", []string{"Authorization", "Bearer " + key, "Sec-Fetch-Site", "cross-site"}, 403,
		},
		"an end from another": {"DELETE", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		"a read":              {"GET", nil, 405},
	} {
		r := w.do(c.method, "/console/session", c.header...)
		if r.StatusCode != c.want || len(r.cookies) != 0 {
			t.Errorf("%s: %d, %v", name, r.StatusCode, r.cookies)
		}
	}
}

// A page is the same below every address; it names its files by their hash, and they last.
func TestPagesAndFiles(t *testing.T) {
	for _, prefix := range []string{"", "/tools/clock"} {
		w := newWorld(t, prefix)
		page := w.do("GET", "/console/trigger?id=x")
		text := page.body
		h := page.Header
		if h.Get("Content-Security-Policy") != policy || h.Get("Cache-Control") != "no-store" {
			t.Errorf("page has %v", page.Header)
		}
		if strings.Contains(strings.ReplaceAll(text, ` src="`, ""), "<script>") || strings.Contains(text, "style=") {
			t.Errorf("the page has something inline: %s", text)
		}
		found := regexp.MustCompile(`(?:src|href)="([^"]+)"`).FindAllStringSubmatch(text, -1)
		if len(found) != 3 {
			t.Fatalf("files %v", found)
		}
		for _, f := range found {
			path, ok := strings.CutPrefix(f[1], prefix)
			r := w.do("GET", path)
			if !ok || r.StatusCode != 200 || !strings.Contains(r.Header.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %d %v", f[1], r.StatusCode, r.Header)
			}
			plain := r.body
			z, err := gzip.NewReader(strings.NewReader(w.do("GET", path, "Accept-Encoding", "gzip").body))
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(z); string(b) != plain {
				t.Errorf("%s differs when it is compressed", path)
			}
			if r := w.do("GET", path, "Accept-Encoding", "gzip;q=0"); r.body != plain {
				t.Errorf("%s: who refuses gzip gets %v", path, r.Header)
			}
			if r := w.do("HEAD", path); r.body != "" || r.StatusCode != 200 {
				t.Errorf("HEAD %s: %d", path, r.StatusCode)
			}
		}
		for path, want := range map[string]int{
			"/console/assets/0000/parts.js": 404, "/console/assets/": 404, "/console/assets/x": 404,
		} {
			if r := w.do("GET", path); r.StatusCode != want {
				t.Errorf("%s: %d", path, r.StatusCode)
			}
		}
		// Of another version, behind the same balancer: its page would stay empty.
		r := w.do("GET", "/console/assets/0000/app.js")
		if kind := r.Header.Get("Content-Type"); r.StatusCode != 200 || !strings.Contains(r.body, "anew") ||
			r.Header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(kind, "text/javascript") {
			t.Errorf("app.js of another version: %d %v %s", r.StatusCode, r.Header, r.body)
		}
		if r := w.do("POST", "/console/triggers"); r.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST to a page: %d", r.StatusCode)
		}
	}
}

// A page has the first answers of the API with it, as data that cannot become anything else, and with
// the rights of who asks.
func TestFirstData(t *testing.T) {
	const nasty = "</script><script>alert(1)</script><!--\u2028"
	var asked []string
	api := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		switch {
		case r.Header.Get("Authorization") != "Bearer "+key:
			http.Error(out, "who?", http.StatusUnauthorized)
		case r.URL.Path == "/v1/whoami":
			_, _ = io.WriteString(out, `{"rights":["read"]}`)
		case strings.HasSuffix(r.URL.Path, "/explain"):
			http.Error(out, "not now", http.StatusServiceUnavailable)
		case r.URL.Path == "/v1/search":
			<-r.Context().Done()
			http.Error(out, "too late", http.StatusServiceUnavailable)
		default:
			_ = json.NewEncoder(out).Encode(map[string]string{"trigger_id": nasty})
		}
	})
	h, err := New(Options{API: api, Secrets: func() [][]byte { return [][]byte{[]byte("a secret of the cluster")} }})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, handler: h}
	cookie := w.login()
	first := func(path string, headers ...string) (of firstData) {
		t.Helper()
		page := w.do("GET", path, headers...).body
		_, after, _ := strings.Cut(page, `<script type="application/json" id="first">`)
		text, rest, ok := strings.Cut(after, "</script>")
		if err := json.Unmarshal([]byte(text), &of); err != nil || !ok || strings.Contains(rest, "alert") {
			t.Fatalf("%s: %v in %s", path, err, page)
		}
		return of
	}
	if of := first("/console/"); len(of.Answers) != 0 {
		t.Errorf("nobody gets %v", of)
	}
	asked = nil
	id := `</script>a b+c/ü!'()*~`
	of := first("/console/trigger?id="+url.QueryEscape(id), "Cookie", cookie)
	const path = "v1/triggers/%3C%2Fscript%3Ea%20b%2Bc%2F%C3%BC!'()*~?fresh=false&payload=false"
	var got map[string]string
	_ = json.Unmarshal(of.Answers[path], &got)
	if len(of.Answers) != 2 || got["trigger_id"] != nasty || of.At.IsZero() {
		t.Errorf("the page has %v", of)
	}
	if len(asked) != 3 {
		t.Errorf("asked %q", asked)
	}
	asked = nil
	first("/console/", "Cookie", cookie)
	if all := strings.Join(asked, " "); strings.Contains(all, "partitions") || strings.Contains(all, "endpoints") {
		t.Errorf("asked for what this caller may not have: %s", all)
	}
	began := time.Now()
	if of := first("/console/search?q=x", "Cookie", cookie); len(of.Answers) != 1 || time.Since(began) > 5*time.Second {
		t.Errorf("after %v it has %v", time.Since(began), of)
	}
}

// Browsers are led to the console; whoever wants data is not.
func TestRoot(t *testing.T) {
	w := newWorld(t, "/tools")
	const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
	for _, path := range []string{"/", "/console"} {
		r := w.do("GET", path, "Accept", browser)
		if r.StatusCode != http.StatusFound || r.Header.Get("Location") != "/tools/console/" {
			t.Errorf("%s: %d %v", path, r.StatusCode, r.Header)
		}
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/json, text/html"} {
		if r := w.do("GET", "/", "Accept", accept); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q: %d", accept, r.StatusCode)
		}
	}
	if r := w.do("POST", "/", "Accept", browser); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("POST: %d", r.StatusCode)
	}
}

// What the machine's table of media types says changes nothing: a browser runs no module that is
// text/plain.
func TestKinds(t *testing.T) {
	for _, ext := range []string{".js", ".css", ".svg", ".html"} {
		before := mime.TypeByExtension(ext)
		if err := mime.AddExtensionType(ext, "text/plain"); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = mime.AddExtensionType(ext, before) })
	}
	files, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"app.js": "text/javascript; charset=utf-8", "style.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml",
		"vendor/LICENSE.htm": "text/plain; charset=utf-8",
	} {
		if got := files[name].kind; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := kindOf("x.html"); got != "text/html; charset=utf-8" {
		t.Errorf("x.html is %q", got)
	}
}

// The first load stays small: all files together, compressed. So does what the program carries.
func TestSize(t *testing.T) {
	files, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	first, carried := 0, 0
	for _, f := range files {
		first += len(f.zipped)
		carried += len(f.plain)
	}
	t.Logf("%d bytes compressed, %d in the program", first, carried)
	if first > 120<<10 {
		t.Errorf("%d bytes are loaded first", first)
	}
	if carried > 500<<10 { // the code has the rest of 0.6 MB
		t.Errorf("the program carries %d bytes", carried)
	}
}

// Each entry of the runbook that a page leads to is one.
func TestEntriesOfTheRunbook(t *testing.T) {
	files, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	known, slug := map[string]bool{}, strings.NewReplacer(" ", "-", "'", "")
	for line := range strings.Lines(string(files["runbook.md"].plain)) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			known[slug.Replace(strings.ToLower(strings.TrimSpace(heading)))] = true
		}
	}
	named := regexp.MustCompile(`entry="([a-z-]+)"|'(waterclock[a-z]+)'`)
	n := 0
	for name, f := range files {
		for _, m := range named.FindAllStringSubmatch(string(f.plain), -1) {
			if n++; !known[m[1]+m[2]] {
				t.Errorf("%s leads to %q, which the runbook has not", name, m[1]+m[2])
			}
		}
	}
	if n < 8 {
		t.Errorf("only %d links to the runbook", n)
	}
}

// The vendored files are those that were published, by the checksums that vendor.sh checks what it fetches with. The
// notices of both libraries are among them.
func TestVendored(t *testing.T) {
	sums, err := os.ReadFile("vendor.sha256")
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if base, ok := strings.CutPrefix(name, "vendor/"); ok {
			fmt.Fprintf(&got, "%x  %s\n", sha256.Sum256(files[name].plain), base)
		}
	}
	if got.String() != string(sums) {
		t.Errorf("the vendored files are\n%swant, from vendor.sha256,\n%s", got.String(), sums)
	}
	for name, notice := range map[string]string{"htm": "Apache License", "preact": "Jason Miller"} {
		if !strings.Contains(string(files["vendor/LICENSE."+name].plain), notice) {
			t.Errorf("the notice of %s is not there", name)
		}
	}
}

func FuzzSession(f *testing.F) {
	f.Add("")
	f.Add("AAAA")
	s := newSessions(&Options{Secrets: func() [][]byte { return [][]byte{[]byte("s")} }})
	f.Add(s.seal("x", time.Now().Add(time.Hour)))
	f.Fuzz(func(t *testing.T, value string) {
		if credential, _, ok := s.read(value); ok && credential != "x" {
			t.Errorf("%q opened as %q", value, credential)
		}
	})
}

// apiOf knows keys, by who has them.
func apiOf(actors map[string]string) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		actor, known := actors[strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")]
		if !known {
			http.Error(out, "who?", http.StatusUnauthorized)
			return
		}
		tenant, actor, _ := strings.Cut(actor, "/")
		_ = json.NewEncoder(out).Encode(map[string]string{"tenant": tenant, "actor": actor})
	})
}

// Whoever ends more sessions than are kept is alone in that copies of the first may go on. Others are logged out
// as ever: those of other tenants, and of the same one.
func TestEndedSessionsOfOthers(t *testing.T) {
	w := newWorldOver(t, apiOf(map[string]string{"f": "acme/flood", "a": "acme/ada", "b": "blue/bob", "c": "acme/cy"}))
	login := func(key string) string {
		r := w.do("POST", "/console/session", "Authorization", "Bearer "+key)
		if len(r.cookies) != 1 {
			t.Fatalf("%s: %d", key, r.StatusCode)
		}
		return r.cookies[0].Name + "=" + r.cookies[0].Value
	}
	logout := func(cookie string) { w.do("DELETE", "/console/session", "Cookie", cookie) }
	reads := func(cookie string) bool {
		return w.do("GET", "/v1/triggers", "Cookie", cookie).StatusCode == http.StatusOK
	}
	before := login("c")
	logout(before)
	for range mostEnded {
		w.now = w.now.Add(time.Second)
		logout(login("f"))
	}
	last := login("f")
	logout(last)
	for _, key := range []string{"a", "b"} {
		cookie := login(key)
		logout(cookie)
		if reads(cookie) {
			t.Errorf("%s is not logged out", key)
		}
	}
	if reads(before) || reads(last) {
		t.Errorf("logged out are no more: %v who came before, %v the flood's last", reads(before), reads(last))
	}
	if n := len(w.handler.(*console).sessions.ended); n > mostEnded {
		t.Errorf("%d ended sessions are kept", n)
	}
}

// A request of a session that is ended ends with it: a stream would show what happens for hours.
func TestLogOutEndsRequests(t *testing.T) {
	begun, ended := make(chan string), make(chan string)
	w := newWorldOver(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/live" {
			begun <- r.URL.RawQuery
			<-r.Context().Done()
			ended <- r.URL.RawQuery
		}
	}))
	one := w.login()
	w.now = w.now.Add(time.Second)
	other := w.login()
	for query, cookie := range map[string]string{"one": one, "two": one, "other": other} {
		go w.do("GET", "/v1/live?"+query, "Cookie", cookie)
		<-begun
	}
	w.do("DELETE", "/console/session", "Cookie", one)
	if first, second := <-ended, <-ended; first == "other" || second == "other" {
		t.Errorf("%s and %s have ended", first, second)
	}
	w.do("DELETE", "/console/session", "Cookie", other)
	if last := <-ended; last != "other" {
		t.Errorf("%s has ended", last)
	}
	sessions := w.handler.(*console).sessions
	for left := 1; left > 0; time.Sleep(time.Millisecond) { // the last request leaves
		sessions.mu.Lock()
		left = len(sessions.open)
		sessions.mu.Unlock()
	}
}

// Decision 18 compares a library with what is served: its figures are right to a tenth.
func TestDecisionHasTheSize(t *testing.T) {
	text, err := os.ReadFile("../../docs/decisions/0018-curves-are-our-own-svg.md")
	if err != nil {
		t.Fatal(err)
	}
	files, _, err := load()
	if err != nil {
		t.Fatal(err)
	}
	all := 0
	for name, f := range files {
		if ext := path.Ext(name); ext == ".js" || ext == ".css" || ext == ".svg" {
			all += len(f.zipped)
		}
	}
	of := func(row string) (kb float64) {
		m := regexp.MustCompile(`(?m)^\| ` + row + `[^|]*\| ([0-9]+) \|$`).FindSubmatch(text)
		if m == nil {
			t.Fatalf("there is no row %q", row)
		}
		kb, _ = strconv.ParseFloat(string(m[1]), 64)
		return kb
	}
	if kb := float64(all) / 1000; math.Abs(kb-of("all files of the console")) > kb/10 {
		t.Errorf("all files have %.1f KB", kb)
	}
	if kb := float64(len(files["bars.js"].zipped)) / 1000; math.Round(kb) != of("of these `bars.js`") {
		t.Errorf("bars.js has %.1f KB", kb)
	}
}
