package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Each page is whole for each role: it asks for nothing that the role may not have, and says what is
// not there.
func TestPagesOfEachRole(t *testing.T) {
	roles := []string{"viewer", "support", "reader", "writer", "operator"}
	key := func(role string) string { return (role + strings.Repeat("0123456789", 5))[:40] }
	var lines strings.Builder
	for _, role := range roles {
		fmt.Fprintf(&lines, "acme %s %s %s\n", key(role), role, role)
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := dev(t, "auth.keys_file="+file)
	as := []string{"Authorization", "Bearer " + key("writer")}
	s.call("PUT", "/v1/triggers/pills", daily, as...)
	s.call("PUT", "/v1/triggers/tea", `{"delay":"1h","channel":"orders","user_id":"u_82"}`, as...)
	s.call("POST", "/v1/triggers/tea:run", "", as...)
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 401"} // before log-in
	for _, role := range roles {
		b.visit("")
		b.await("main", "API key")
		b.fill("input[type=password]", key(role)+kb.Enter)
		b.await(".who", role)
		b.take(&b.refused)
		b.take(&b.asked)
		for _, p := range pages {
			text := p.text
			switch {
			case p.name == "new" && role != "writer" && role != "operator":
				p.selector, text = "main", "may not register"
			case p.name == "system" && role != "operator":
				text = "Only an operator sees the partitions"
			}
			b.visit(p.path)
			b.await(p.selector, text)
			if p.name == "now" {
				b.await("#health", "Healthy")
				b.await("#facts .newest", "Nothing yet")
			}
			if p.name == "system" {
				b.await("main", "In force")
			}
			b.do(chromedp.WaitNotPresent("main .wait", chromedp.ByQuery))
			for _, asked := range b.take(&b.asked) {
				if asked == "/v1/whoami" {
					t.Errorf("%s, page %s asks for %s, which it has with it", role, p.name, asked)
				}
			}
			for _, refused := range b.take(&b.refused) {
				t.Errorf("%s, page %s: %s", role, p.name, refused)
			}
		}
		b.logout()
	}
}
