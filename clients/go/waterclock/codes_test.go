package waterclock_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/clients/go/internal/conformance"
)

// codeRow matches a table row with one or more codes in its first column.
var codeRow = regexp.MustCompile("(?m)^\\| (`[a-z_]+`(?:, `[a-z_]+`)*) \\|")

// documentedCodes returns the codes of the table that follows a text on a page.
func documentedCodes(t *testing.T, page, text string) (codes []string) {
	t.Helper()
	b, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), text)
	if !ok {
		t.Fatalf("%s does not say %q", page, text)
	}
	_, rest, _ = strings.Cut(rest, "| code | means |\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	for _, row := range codeRow.FindAllStringSubmatch(table, -1) {
		codes = append(codes, strings.Split(strings.ReplaceAll(row[1], "`", ""), ", ")...)
	}
	if len(codes) == 0 {
		t.Fatalf("%s names no code behind %q", page, text)
	}
	return codes
}

// TestEveryCodeHasACase: for each documented code the conformance file has a case with its error
// type. A client that does not know the code fails the case.
func TestEveryCodeHasACase(t *testing.T) {
	typeOf := map[string]string{}
	for _, cs := range conformance.Cases(t, "wire") {
		if !strings.HasPrefix(cs.Name, "wire-code-") {
			continue
		}
		var body struct {
			Error struct {
				Type, Code string
				Status     int
			}
		}
		if err := json.Unmarshal(cs.Raw, &body); err != nil {
			t.Fatal(err)
		}
		e := body.Error
		byStatus := map[int]string{409: "conflict", 418: "invalid"}[e.Status]
		if byStatus == "" || byStatus == e.Type {
			t.Errorf("%s: its status %d is type %q by itself, so the case proves nothing", cs.Name, e.Status, byStatus)
		}
		typeOf[e.Code] = e.Type
	}
	codes := append(documentedCodes(t, "formats/rejected.md", "### Codes"),
		documentedCodes(t, "api.md", "those that only HTTP has")...)
	for _, code := range codes {
		if typeOf[code] == "" {
			t.Errorf("code %s has no case wire-code-… in clients/conformance/cases.jsonl", code)
		}
	}
	if len(codes) < 34 {
		t.Errorf("only %d codes were found: %v", len(codes), codes)
	}
}
