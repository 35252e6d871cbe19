// Package console_test walks the web console in a real browser, against a dev server, and against instances of serve
// on a real Kafka.
package console_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/foreign"
)

func TestMain(m *testing.M) { code := m.Run(); built.Remove(); os.Exit(code) }

// server is a dev server.
type server struct {
	t      testing.TB
	url    string
	kafka  string // its brokers
	prefix string // of its topics
	ready  string // answers 200 when it is ready; "": url's own /readyz
	args   []string
	dir    string // where it runs; "": where the test does
	cmd    *exec.Cmd
	out    strings.Builder
}

// dev starts a server with settings, written key=value.
func dev(t *testing.T, settings ...string) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser")
	}
	s := &server{
		t: t, url: "http://" + built.FreeAddr(t), kafka: built.FreeAddr(t), prefix: "waterclock.", dir: t.TempDir(),
	}
	s.args = []string{"dev", "--listen", strings.TrimPrefix(s.url, "http://"), "--kafka-listen", s.kafka}
	for _, setting := range settings {
		s.args = append(s.args, "--set", setting)
	}
	s.startNow()
	return s
}

// startNow starts a server that lives as long as its test.
func (s *server) startNow() {
	s.t.Helper()
	s.t.Cleanup(func() {
		s.end(os.Interrupt)
		if s.t.Failed() {
			s.t.Log(s.out.String())
		}
	})
	s.start()
}

// end ends the server by a signal.
func (s *server) end(by os.Signal) {
	if s.cmd != nil {
		_ = s.cmd.Process.Signal(by)
		_ = s.cmd.Wait()
	}
	s.cmd = nil
}

// start starts it, and waits until it is ready.
func (s *server) start() {
	s.t.Helper()
	file, err := built.Waterclock()
	if err != nil {
		s.t.Fatal(err)
	}
	s.cmd = exec.Command(file, s.args...)
	s.cmd.Dir = s.dir
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if r, err := http.Get(cmp.Or(s.ready, s.url+"/readyz")); err == nil {
			_ = r.Body.Close()
			if r.StatusCode != http.StatusServiceUnavailable { // with log-in, readyz stands elsewhere
				return
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatal("it does not become ready")
		}
	}
}

// tab is a page of a browser of its own. What no page may do fails its test: an error on the
// browser's console, a report of a content security policy, a request to another origin.
type tab struct {
	run    func(within time.Duration, actions ...chromedp.Action) error
	more   func() *tab // opens another tab of the same browser
	close  func()
	t      *testing.T
	server *server
	clicks int
	keys   bool // nothing is done with a pointer

	mu      sync.Mutex
	faults  []string
	allowed []string // parts of faults that the test causes
	asked   []string // what the page has requested
	refused []string // what was answered with 400 and above
}

func (s *server) open(t *testing.T, width, height int, flags ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	file, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatalf("%v: test/setup.sh installs it", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(file), chromedp.NoSandbox,
		chromedp.WindowSize(width, height), chromedp.Flag("force-device-scale-factor", "1"))
	allocator, stop := chromedp.NewExecAllocator(t.Context(), append(options, flags...)...)
	t.Cleanup(stop)
	// Its errors are events of newer browsers that it does not know.
	ctx, stop := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(stop)
	if err := chromedp.Run(ctx); err != nil { // the browser lives as long as ctx
		t.Fatal(err)
	}
	return s.tab(ctx, t, width, height)
}

// tab is the tab of a context.
func (s *server) tab(ctx context.Context, t *testing.T, width, height int) *tab {
	t.Helper()
	b := &tab{t: t, server: s}
	b.more = func() *tab {
		next, stop := chromedp.NewContext(ctx)
		t.Cleanup(stop)
		if err := chromedp.Run(next); err != nil {
			t.Fatal(err)
		}
		return s.tab(next, t, width, height)
	}
	b.close = func() { _ = chromedp.Cancel(ctx) }
	b.run = func(within time.Duration, actions ...chromedp.Action) error {
		ctx, stop := context.WithTimeout(ctx, within)
		defer stop()
		return chromedp.Run(ctx, actions...)
	}
	chromedp.ListenTarget(ctx, b.watch)
	b.do(network.Enable(), log.Enable(), runtime.Enable(), chromedp.EmulateViewport(int64(width), int64(height)))
	t.Cleanup(b.judge)
	return b
}

func (b *tab) watch(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.fault("exception: " + e.ExceptionDetails.Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.fault(fmt.Sprint("console: ", e.Args))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.LevelError || e.Entry.Source == log.SourceSecurity {
			b.fault(fmt.Sprintf("log: %s %s", e.Entry.Text, e.Entry.URL))
		}
	case *network.EventResponseReceived:
		if e.Response.Status >= http.StatusBadRequest {
			b.note(&b.refused, fmt.Sprint(e.Response.Status, " ", strings.TrimPrefix(e.Response.URL, b.server.url)))
		}
	case *network.EventRequestWillBeSent:
		b.note(&b.asked, strings.TrimPrefix(e.Request.URL, b.server.url))
		if !strings.HasPrefix(e.Request.URL, b.server.url+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			b.fault("request to " + e.Request.URL)
		}
	}
}

func (b *tab) fault(text string) { b.note(&b.faults, text) }

func (b *tab) note(list *[]string, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	*list = append(*list, text)
}

// take returns a list and empties it.
func (b *tab) take(list *[]string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := *list
	*list = nil
	return all
}

// judge fails the test for what the page should not have done.
func (b *tab) judge() {
	b.mu.Lock()
	defer b.mu.Unlock()
next:
	for _, f := range b.faults {
		for _, a := range b.allowed {
			if strings.Contains(f, a) {
				continue next
			}
		}
		b.t.Error(f)
	}
}

func (b *tab) do(actions ...chromedp.Action) {
	b.t.Helper()
	if err := b.run(time.Minute, actions...); err != nil {
		var html string
		_ = b.run(5*time.Second, chromedp.Text("body", &html, chromedp.ByQuery))
		b.t.Fatalf("%v\nthe page says:\n%s", err, html)
	}
}

// visit shows an address of the console, and waits for its heading.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.server.url+"/console/"+path), chromedp.WaitVisible("h1", chromedp.ByQuery))
}

// await waits until something on the page has a text.
func (b *tab) await(selector, text string) {
	b.t.Helper()
	var got string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		b.do(chromedp.Evaluate(fmt.Sprintf(`(document.querySelector(%q) || {}).textContent || ''`, selector), &got))
		if strings.Contains(got, text) {
			return
		}
	}
	var page string
	b.do(chromedp.Text("main", &page, chromedp.ByQuery))
	b.t.Fatalf("%s is %q, want %q in it; the page says:\n%s", selector, got, text, page)
}

// click clicks the link or button whose text is so.
func (b *tab) click(text string) {
	b.t.Helper()
	if b.keys {
		b.tabUntil(fmt.Sprintf(`e.closest('main, header, dialog') && ['A', 'BUTTON'].includes(e.tagName) && `+
			`e.textContent.trim() === %q`, text))
		b.enter()
		return
	}
	b.clicks++
	path := fmt.Sprintf(`//main//*[self::a or self::button][normalize-space()=%[1]q] | //header//*[self::a or `+
		`self::button][normalize-space()=%[1]q]`, text)
	b.do(chromedp.Click(path, chromedp.BySearch, chromedp.NodeVisible))
}

// gone waits until no table has a link of that text.
func (b *tab) gone(text string) {
	b.t.Helper()
	b.do(chromedp.WaitNotPresent(fmt.Sprintf(`//main//table//a[normalize-space()=%q]`, text), chromedp.BySearch))
}

// logout logs out, and waits until that is answered: whoever leaves the page before keeps the cookie.
func (b *tab) logout() {
	b.t.Helper()
	b.click("Log out")
	b.await("main", "API key")
}

// fill writes a text over what an input has.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	if b.keys {
		b.tabUntil(fmt.Sprintf(`e.matches(%q)`, selector))
		b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(input.ModifierCtrl)), chromedp.KeyEvent(text))
		return
	}
	b.do(chromedp.WaitVisible(selector, chromedp.ByQuery),
		chromedp.Evaluate(fmt.Sprintf(`document.querySelector(%q).select()`, selector), nil), chromedp.KeyEvent(text))
}

// press clicks what a selector finds.
func (b *tab) press(selector string) {
	b.t.Helper()
	if b.keys {
		b.tabUntil(fmt.Sprintf(`e.matches(%q)`, selector))
		b.enter()
		return
	}
	b.clicks++
	b.do(chromedp.Click(selector, chromedp.ByQuery, chromedp.NodeVisible))
}

// dismiss closes the dialog, and waits until it is gone: until then the page takes no click.
func (b *tab) dismiss() {
	b.t.Helper()
	b.press("dialog button[type=button]")
	b.do(chromedp.WaitNotPresent("dialog", chromedp.ByQuery))
}

// enter presses Enter: where something has the focus, that is a click.
func (b *tab) enter() {
	b.t.Helper()
	b.clicks++
	b.do(chromedp.KeyEvent(kb.Enter))
}

// tabUntil presses Tab until a condition holds for e, the element that has the focus.
func (b *tab) tabUntil(condition string) {
	b.t.Helper()
	var seen []string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); {
		var at struct {
			There bool
			Text  string
		}
		b.do(chromedp.KeyEvent(kb.Tab), chromedp.Evaluate(`(() => { const e = document.activeElement;
			return {there: !!(`+condition+`), text: e.tagName + ' ' + e.textContent.trim().slice(0, 20)}; })()`, &at))
		if at.There {
			return
		}
		seen = append(seen, at.Text)
	}
	b.t.Fatalf("no Tab leads to where %s: %q", condition, seen)
}

// axe is axe-core, for tests alone.
var axe = sync.OnceValues(func() (string, error) {
	modules, err := foreign.NodeModules("axe-core")
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(filepath.Join(modules, "axe-core", "axe.min.js"))
	return string(b), err
})

// awaitPromise makes Evaluate wait for what a promise becomes.
func awaitPromise(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }
