package console_test

import (
	"context"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/chromedp"
)

// named are the roles of what somebody works with, or goes to by its name.
var named = []string{
	"button", "link", "textbox", "searchbox", "combobox", "listbox", "slider", "checkbox", "dialog", "navigation",
	"region", "table", "DisclosureTriangle",
}

// axNode is a node of the accessibility tree: what a screen reader has of an element.
type axNode struct {
	Ignored    bool    `json:"ignored"`
	Role       axValue `json:"role"`
	Name       axValue `json:"name"`
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
