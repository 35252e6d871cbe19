// Package console serves the web console: pages for people who ask what became of a trigger,
// and who act on one.
//
//	console.go   what a request is for: a page, a file of the console, a session, or the API
//	session.go   logging in: a credential becomes a cookie that scripts cannot read
//	first.go     the first answers of the API, which a page has with it
//	assets/      the pages, as ES modules that browsers load as they are: no build step
//	vendor.sh    fetches the two libraries of assets/vendor, Preact and htm, and checks them
//
// # Source of truth
//
// The API. The pages read and act through it alone, as any other client does, and with the
// caller's own rights. The console decides nothing: what it does not show, the API refuses.
//
// # Promises
//
//   - A page loads nothing from anywhere else, and runs no script but ours: the content security
//     policy says so, and Trusted Types forbid to make markup of text.
//   - A page has no data but what the API answers its caller: the first answers stand in it as
//     JSON, so that it shows something at once. No cache keeps it.
//   - Files are served under a name that has their hash, so a browser may keep them for ever.
//   - A credential is never readable by a script once it is exchanged, and never in a URL.
package console

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waterclock/waterclock/docs"
	"github.com/waterclock/waterclock/internal/gzipped"
)

//go:embed assets
var embedded embed.FS

// Options say where the console stands, and what it stands on.
type Options struct {
	API     http.Handler     // the API, as callers reach it
	Prefix  string           // the path that a proxy in front takes away, such as /tools/clock; "" for none
	Secrets func() [][]byte  // seal sessions, the same on all instances; the first one seals, all open
	Now     func() time.Time // nil: time.Now

	// OwnHost says whether a request's Host is ours: only then is it served. nil: every one is.
	OwnHost func(host string) bool
}

// policy is the content security policy of a page.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; " +
	"trusted-types 'none'"

// Root is the path of the console.
const Root = "/console/"

type console struct {
	api      http.Handler
	prefix   string
	sessions *sessions
	files    map[string]file
	assets   string    // the path of files
	shell    [2][]byte // before and after the first data
	foreign  *http.CrossOriginProtection
	ownHost  func(host string) bool
}

type file struct {
	plain, zipped []byte
	kind          string
}

// New returns a handler of the console and of everything that the API serves.
func New(o Options) (http.Handler, error) {
	c := &console{
		api: o.API, prefix: strings.TrimRight(o.Prefix, "/"), sessions: newSessions(&o),
		foreign: http.NewCrossOriginProtection(), ownHost: o.OwnHost,
	}
	var hash string
	var err error
	if c.files, hash, err = load(); err != nil {
		return nil, err
	}
	c.assets = Root + "assets/" + hash + "/"
	c.shell, err = shell(c.prefix + c.assets)
	return c, err
}

// load reads the files and the runbook, and returns the hash of them all.
func load() (files map[string]file, hash string, err error) {
	files = map[string]file{}
	sum := sha256.New()
	err = fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := embedded.ReadFile(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", name, len(b))
		sum.Write(b)
		files[strings.TrimPrefix(name, "assets/")] = file{b, zipped(b), kindOf(name)}
		return nil
	})
	sum.Write(docs.Runbook)
	files["runbook.md"] = file{docs.Runbook, zipped(docs.Runbook), kindOf("runbook.md")}
	return files, hex.EncodeToString(sum.Sum(nil)[:8]), err
}

// kinds are the media types of our files. The machine's own table may say anything, and a browser
// runs no module of another type.
var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml",
	".html": "text/html; charset=utf-8",
}

func kindOf(name string) string {
	return cmp.Or(kinds[path.Ext(name)], "text/plain; charset=utf-8")
}

func zipped(b []byte) []byte { return gzipped.Bytes(b, gzip.BestCompression) }

var shellPage = template.Must(template.New("shell").Parse(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Waterclock</title>
<link rel="icon" href="{{.}}icon.svg">
<link rel="stylesheet" href="{{.}}style.css">
<script type="application/json" id="first">` + firstMark + `</script>
<script type="module" src="{{.}}app.js"></script>
</head>
<body><noscript>This page needs JavaScript. The command line and the API do without.</noscript></body>
</html>
`))

// firstMark is where the first data stands.
const firstMark = `{"first":1}`

func shell(assets string) (parts [2][]byte, err error) {
	var b bytes.Buffer
	err = shellPage.Execute(&b, assets)
	parts[0], parts[1], _ = bytes.Cut(b.Bytes(), []byte(firstMark))
	return parts, err
}

func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := r.URL.Path
	switch {
	case c.ownHost != nil && !c.ownHost(r.Host):
		c.api.ServeHTTP(w, r) // refuses it, and says why; it never gets the credential of a session
	case at == Root+"session":
		c.session(w, r)
	case at == strings.TrimSuffix(Root, "/"):
		c.moved(w, r)
	case at == "/" && isRead(r) && prefersPage(r):
		c.moved(w, r)
	case strings.HasPrefix(at, Root):
		c.page(w, r)
	default:
		r, end := c.sessions.asCredential(r)
		defer end()
		c.api.ServeHTTP(w, r)
	}
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// prefersPage reports whether a browser asks: it names HTML, and before JSON if it names that.
func prefersPage(r *http.Request) bool {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	page, data := strings.Index(accept, "text/html"), strings.Index(accept, "json")
	return page >= 0 && (data < 0 || page < data)
}

func (c *console) moved(w http.ResponseWriter, r *http.Request) {
	safely(w.Header())
	http.Redirect(w, r, c.prefix+Root, http.StatusFound)
}

func safely(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-store")
}

// otherVersion stands in for app.js of another version, which has served the page: without it the page stays empty.
const otherVersion = "document.body.textContent = 'Waterclock is being upgraded, and two versions of it answer. " +
	"Load this page anew.';\n"

// page serves a file of the console, or the one page that all addresses below it are.
func (c *console) page(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	safely(h)
	if !isRead(r) {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the console is read; acts go to the API", http.StatusMethodNotAllowed)
		return
	}
	f := file{kind: "text/html; charset=utf-8"}
	if strings.HasPrefix(r.URL.Path, Root+"assets/") {
		name, current := strings.CutPrefix(r.URL.Path, c.assets)
		known, ok := c.files[name]
		switch {
		case current && ok:
			f = known
			h.Set("Cache-Control", "public, max-age=31536000, immutable")
		case !current && path.Base(r.URL.Path) == "app.js":
			f = file{plain: []byte(otherVersion), kind: kindOf("app.js")}
		default:
			http.Error(w, "no such file in this version of the console", http.StatusNotFound)
			return
		}
	} else {
		f.plain = slices.Concat(c.shell[0], c.first(r), c.shell[1])
	}
	h.Set("Content-Type", f.kind)
	body := f.plain
	if f.zipped != nil {
		h.Set("Vary", "Accept-Encoding")
		if gzipped.Taken(r.Header) {
			h.Set("Content-Encoding", "gzip")
			body = f.zipped
		}
	}
	h.Set("Content-Length", fmt.Sprint(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body)
	}
}
