package examples

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the code says into the documents")

const semantics = "../docs/SEMANTICS.md"

// executed runs every fenced block of one kind and compares it with what run
// makes of it. A document without such a block is an error: then nothing was
// tested.
func executed(t *testing.T, path, kind string, run func(t *testing.T, block []string) []string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	var out []string
	blocks := 0
	for i := 0; i < len(lines); i++ {
		out = append(out, lines[i])
		if lines[i] != "```"+kind {
			continue
		}
		end := closing(lines, i+1)
		if end < 0 {
			t.Fatalf("%s:%d: the block is not closed", path, i+1)
		}
		blocks++
		out = append(out, one(t, fmt.Sprintf("%s:%d", path, i+1), lines[i+1:end], run)...)
		i = end - 1
	}
	if blocks == 0 {
		t.Fatalf("%s has no block of kind %s", path, kind)
	}
	if *update {
		if err := os.WriteFile(path, []byte(strings.Join(out, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// one runs a block and returns what must stand in its place.
func one(t *testing.T, where string, block []string, run func(*testing.T, []string) []string) (got []string) {
	t.Run(where[strings.LastIndexByte(where, '/')+1:], func(t *testing.T) {
		got = run(t, block)
		if want := strings.Join(block, "\n"); !*update && strings.Join(got, "\n") != want {
			t.Errorf("%s says\n%s\nand the code says\n%s\n(go test ./examples -update writes it)", where, want,
				strings.Join(got, "\n"))
		}
	})
	return got
}

func closing(lines []string, from int) int {
	for i := from; i < len(lines); i++ {
		if lines[i] == "```" {
			return i
		}
	}
	return -1
}
