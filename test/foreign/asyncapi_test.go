package foreign

import (
	"os"
	"strings"
	"testing"
)

// TestAsyncAPI: the official parser finds nothing wrong with the document, and
// finds what a wrong example says.
func TestAsyncAPI(t *testing.T) {
	document, err := os.ReadFile("../../schemas/asyncapi.json")
	if err != nil {
		t.Fatal(err)
	}
	if got := ParseAsyncAPI(t, t.Context(), document); len(got.Faults) > 0 || got.Channels < 9 ||
		got.Operations != got.Channels || got.Examples < 15 {
		t.Errorf("%+v", got)
	}
	broken := strings.Replace(string(document), `"op": "register"`, `"op": "regster"`, 1)
	if got := ParseAsyncAPI(t, t.Context(), []byte(broken)); broken == string(document) || len(got.Faults) == 0 {
		t.Errorf("an example with an unknown op passes: %+v", got)
	}
}
