package examples

import (
	"strings"
	"testing"
)

// TestGoClient runs the programs of the page of the Go client that call Waterclock, and looks for
// what their lines promise.
func TestGoClient(t *testing.T) {
	d := startDev(t)
	for _, program := range goPrograms(t)[:2] {
		program = strings.NewReplacer("http://127.0.0.1:8080", d.url, "127.0.0.1:9092", d.kafka).Replace(program)
		out, err := d.command(t, goBinary(t, program)).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		requirePromised(t, program, string(out))
	}
}

// TestGoReceiver runs the receiver of that page with both keys, as TestReceivers does with those
// that need no library.
func TestGoReceiver(t *testing.T) {
	port := freePort(t)
	binary := goBinary(t, strings.ReplaceAll(goPrograms(t)[2], "9000", port))
	out := runReceiver(t, []string{binary}, port)
	checkReceiver(t, "http://127.0.0.1:"+port+"/")
	await(t, "the program prints what it took", func() bool {
		return strings.Contains(out.String(), `msg_1 {"triggerId":"pills","payload":"ä"}`)
	})
}

// goPrograms are the programs of the page: two calls, and a receiver.
func goPrograms(t *testing.T) []string {
	t.Helper()
	programs := blocksOf(read(t, "../docs/api/go.md"), "go")
	if len(programs) != 3 {
		t.Fatalf("the page has %d programs", len(programs))
	}
	return programs
}
