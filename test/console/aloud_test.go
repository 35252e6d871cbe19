package console_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var update = flag.Bool("update", false, "write docs/console/*.txt as the pages are")

// named are the roles of what somebody works with, or goes to by its name.
var named = []string{
	"button", "link", "textbox", "searchbox", "combobox", "listbox", "slider", "checkbox", "dialog", "navigation",
	"region", "table", "DisclosureTriangle",
}

// axNode is a node of the accessibility tree: what a screen reader has of an element.
type axNode struct {
	ID         string   `json:"nodeId"`
	Children   []string `json:"childIds"`
	Ignored    bool     `json:"ignored"`
	Role       axValue  `json:"role"`
	Name       axValue  `json:"name"`
	Properties []struct {
		Name  string  `json:"name"`
		Value axValue `json:"value"`
	} `json:"properties"`
}

type axValue struct {
	Value any `json:"value"`
}

// tree is the accessibility tree of the page, in the order of the document. The types of chromedp
// refuse what newer browsers say.
func (b *tab) tree() []axNode {
	b.t.Helper()
	var all struct {
		Nodes []axNode `json:"nodes"`
	}
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &all)
	}))
	return all.Nodes
}

// readAloud walks the accessibility tree: every control has a name, the page has one main heading,
// and no heading is more than one level below the one before.
func (b *tab) readAloud(page string) {
	b.t.Helper()
	controls, level, titles := 0, 0, 0
	for _, n := range b.tree() {
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		if n.Ignored {
			continue
		}
		if slices.Contains(named, role) {
			controls++
			if name == "" {
				b.t.Errorf("%s: a %s has no name", page, role)
			}
		}
		if role != "heading" {
			continue
		}
		for _, p := range n.Properties {
			if at, ok := p.Value.Value.(float64); ok && p.Name == "level" {
				if int(at) > level+1 {
					b.t.Errorf("%s: heading %q of level %v follows one of level %d", page, name, at, level)
				}
				if level = int(at); level == 1 {
					titles++
				}
			}
		}
	}
	if controls < 10 || titles != 1 {
		b.t.Errorf("%s: %d controls, %d main headings", page, controls, titles)
	}
}

// outline is what somebody meets who walks a page without seeing it: its regions, headings, controls, and the columns
// of its tables. It has no rows and no running text, because they differ from run to run.
func (b *tab) outline() string {
	b.t.Helper()
	all := b.tree()
	byID := map[string]*axNode{}
	for i := range all {
		byID[all[i].ID] = &all[i]
	}
	var out strings.Builder
	var walk func(n *axNode, depth int)
	walk = func(n *axNode, depth int) {
		role, _ := n.Role.Value.(string)
		name, _ := n.Name.Value.(string)
		name = varying.ReplaceAllString(name, "…")
		if role == "row" && !slices.ContainsFunc(n.Children, func(id string) bool {
			return byID[id] != nil && byID[id].Role.Value == "columnheader"
		}) {
			return
		}
		if !n.Ignored && slices.Contains(outlined, role) {
			out.WriteString(strings.TrimRight(strings.Repeat("  ", depth)+role+" "+name, " ") + n.level() + "\n")
			depth++
		}
		for _, id := range n.Children {
			if next := byID[id]; next != nil {
				walk(next, depth)
			}
		}
	}
	walk(&all[0], 0)
	return out.String()
}

// varying are the instants of captions, and ids of events.
var varying = regexp.MustCompile(`\w{3} \d{4}-\d\d-\d\d [\d:]+ UTC|\d+-\d{12,}`)

// outlined are the roles that an outline has.
var outlined = append([]string{
	"RootWebArea", "banner", "main", "search", "heading", "form", "group", "status", "alert", "columnheader",
}, named...)

// level is that of a heading.
func (n *axNode) level() string {
	for _, p := range n.Properties {
		if n.Role.Value == "heading" && p.Name == "level" {
			return fmt.Sprintf(", level %v", p.Value.Value)
		}
	}
	return ""
}

// The outline of each page is the one in docs/console. Who changes a page sees in the change what a screen reader
// has of it; go test ./test/console -run TestOutlines -update writes them.
func TestOutlines(t *testing.T) {
	s := dev(t)
	s.call(http.MethodPut, "/v1/triggers/pills", daily)
	s.call(http.MethodPut, "/v1/triggers/soon", `{"delay":"90m","channel":"orders","user_id":"u_82"}`)
	s.call(http.MethodPost, "/v1/triggers/soon:run", "")
	s.refused("quick", `{"recurrence":"every:1s","channel":"orders"}`)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) { // until it is counted
		b, _ := json.Marshal(s.call(http.MethodGet, "/v1/forecast?by=channel", ""))
		if strings.Contains(string(b), "orders") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing is due: %s", b)
		}
	}
	b := s.open(t, 1200, 900)
	b.do(emulation.SetTimezoneOverride("Asia/Tokyo"))
	for _, p := range pages {
		b.visit(p.path)
		b.await(p.selector, p.text)
		switch p.name {
		case "now":
			b.await("#facts .newest", "Nothing yet")
		case "trigger":
			b.await("main", "Here, Asia/Tokyo")
			b.await("#evidence a", "event ") // the rows of events are there
		case "forecast":
			b.await("main table", "orders")
		}
		b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
		b.hasOutline(p.name)
	}
	b = guarded(t).open(t, 1200, 900)
	b.allowed = []string{"status of 401"}
	b.visit("")
	b.await("main", "API key or token")
	b.hasOutline("login")
}

// hasOutline compares the outline of the page with the one in docs/console, or writes it.
func (b *tab) hasOutline(name string) {
	b.t.Helper()
	got, file := b.outline(), filepath.Join("..", "..", "docs", "console", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			b.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	if got != string(want) {
		b.t.Errorf("%s is\n%s\nwant, from %s\n%s", name, got, file, want)
	}
}
