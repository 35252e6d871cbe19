package examples

import (
	"strings"
	"testing"
)

// TestGoClient runs both programs of the page of the Go client, and looks for what their lines
// promise.
func TestGoClient(t *testing.T) {
	d := startDev(t)
	programs := blocksOf(read(t, "../docs/api/go.md"), "go")
	if len(programs) != 2 {
		t.Fatalf("the page has %d programs", len(programs))
	}
	for _, program := range programs {
		program = strings.NewReplacer("http://127.0.0.1:8080", d.url, "127.0.0.1:9092", d.kafka).Replace(program)
		out, err := d.command(t, goBinary(t, program)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		requirePromised(t, program, string(out))
	}
}
