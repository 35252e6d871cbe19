package house

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/waterclock/waterclock/"

// layering is layers.txt: the layer of each package, and who may import a
// package of its own layer.
type layering struct {
	layer  map[string]int
	within map[string][]string
}

// readLayers reads one layer for each run of lines without an empty one.
func readLayers(t *testing.T) layering {
	text, err := os.ReadFile("layers.txt")
	if err != nil {
		t.Fatal(err)
	}
	l := layering{layer: map[string]int{}, within: map[string][]string{}}
	for i, part := range strings.Split(string(text), "\n\n") {
		for line := range strings.Lines(part) {
			line, _, _ = strings.Cut(line, "#")
			from, to, arrow := strings.Cut(line, "->")
			if arrow {
				from = strings.TrimSpace(from)
				l.within[from] = strings.Fields(to)
				line = from
			}
			for _, p := range strings.Fields(line) {
				l.layer[p] = i
			}
		}
	}
	return l
}

// TestLayers: nobody imports upwards, and every package has its layer.
func TestLayers(t *testing.T) {
	l := readLayers(t)
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"...").Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for line := range strings.Lines(string(out)) {
		paths := strings.Fields(line)
		from := strings.TrimPrefix(paths[0], module)
		layer, ok := l.layer[from]
		if !ok {
			t.Errorf("%s has no layer: give it one in test/house/layers.txt", from)
			continue
		}
		found++
		for _, path := range paths[1:] {
			to, ours := strings.CutPrefix(path, module)
			if ours && l.layer[to] >= layer && !slices.Contains(l.within[from], to) {
				t.Errorf("%s imports %s, which is not below it in test/house/layers.txt", from, to)
			}
		}
	}
	if found != len(l.layer) {
		t.Errorf("layers.txt names %d packages, of which %d are there", len(l.layer), found)
	}
}
