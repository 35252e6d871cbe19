package examples

import (
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/topics"
)

var quoted = regexp.MustCompile("`([a-z-]+)`")

// TestPrincipalsPage: the table of principals on the security page has the topics that each role may write
// and read, as `topics plan --acls` grants them.
func TestPrincipalsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/operations/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(page), "| principal | writes | reads |\n|---|---|---|\n")
	if !found {
		t.Fatal("the security page has no table of principals")
	}
	rows := map[string][2]string{} // what it writes, and reads
	last := ""
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			break
		}
		name := strings.Trim(cells[1], " `")
		last = cmp.Or(name, last)
		was := rows[last]
		rows[last] = [2]string{was[0] + cells[2], was[1] + cells[3]}
	}
	names, left := topics.Names{Prefix: "waterclock."}, maps.Clone(rows) // what no ACL has granted yet
	for _, a := range topics.ACLs(topics.ACLOptions{
		Names: names, Group: "waterclock", Channels: []topics.ChannelACL{
			{Name: "print", Topics: []string{names.Due("print")}, Receipts: true},
		},
	}) {
		topic, ours := strings.CutPrefix(a.Name, names.Prefix)
		if a.Resource != "topic" || !ours || a.Prefixed || strings.HasPrefix(topic, "due.") {
			continue
		}
		says := rows[roleOnPage(a.Role)]
		if slices.Contains(a.Operations, "Write") && !strings.Contains(says[0], "`"+topic+"`") {
			t.Errorf("%s may write %s, and the page does not say so: %q", a.Role, topic, says[0])
		}
		reads := strings.Contains(says[1], "`"+topic+"`") ||
			strings.Contains(says[1], "what it writes") && strings.Contains(says[0], "`"+topic+"`")
		if slices.Contains(a.Operations, "Read") && !reads {
			t.Errorf("%s may read %s, and the page does not say so: %q", a.Role, topic, says[1])
		}
		without := left[roleOnPage(a.Role)]
		for at, operation := range []string{"Write", "Read"} {
			if slices.Contains(a.Operations, operation) {
				without[at] = strings.ReplaceAll(without[at], "`"+topic+"`", "")
			}
		}
		left[roleOnPage(a.Role)] = without
	}
	for _, role := range slices.Sorted(maps.Keys(left)) {
		for at, what := range []string{"write", "read"} {
			for _, m := range quoted.FindAllStringSubmatch(left[role][at], -1) {
				if role != "api" || m[1] != "commands" { // "but for"
					t.Errorf("the page says that %s may %s %s, and no ACL does", role, what, m[1])
				}
			}
		}
	}
}

func roleOnPage(role string) string {
	switch role {
	case topics.RolePush, topics.RoleSMS, topics.RoleEmail:
		return "push`, `sms`, `email"
	case topics.RoleChannel + "print":
		return "a channel's team"
	}
	return role
}
