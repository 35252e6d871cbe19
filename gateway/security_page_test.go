package gateway

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/gateway/auth"
)

// TestSecurityPageNamesRoutes: docs/operations/security.md names every route that needs no credential, and every one
// that is for operators alone, and no other ones in these lists.
func TestSecurityPageNamesRoutes(t *testing.T) {
	b, err := os.ReadFile("../docs/operations/security.md")
	if err != nil {
		t.Fatal(err)
	}
	open, operators := map[string]bool{}, map[string]bool{}
	for _, r := range newRouteTable(&parts{}).all() {
		switch r.right {
		case 0:
			open[r.pattern] = true
		case auth.Operate:
			operators[r.method+" "+r.pattern] = true
		}
	}
	for _, c := range []struct {
		from, to, form string
		want           map[string]bool
	}{
		{"These need no log-in", "Instead of `dev --kafka-listen`", "`(/[^`]*)`", open},
		{"An operator has a tenant", "It lists the dead letters", "`([A-Z]+ /[^`]*)`", operators},
	} {
		_, text, found := strings.Cut(string(b), c.from)
		text, _, ends := strings.Cut(text, c.to)
		if !found || !ends {
			t.Errorf("the page has no %q that ends before %q", c.from, c.to)
		}
		named := map[string]bool{}
		for _, m := range regexp.MustCompile(c.form).FindAllStringSubmatch(text, -1) {
			named[m[1]] = true
		}
		if !maps.Equal(named, c.want) {
			t.Errorf("%s: the page names %q, the routes are %q", c.from, slices.Sorted(maps.Keys(named)),
				slices.Sorted(maps.Keys(c.want)))
		}
	}
}
