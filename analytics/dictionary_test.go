package analytics

import (
	"os"
	"testing"
)

// The page is what the code says, and nothing in the tables is of the past.
func TestDictionary(t *testing.T) {
	want, err := Dictionary()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../docs/analytics/dictionary.md")
	if err != nil || string(text) != want {
		t.Errorf("docs/analytics/dictionary.md is not what the code says: go generate ./analytics (%v)", err)
	}
	types, err := EventTypes()
	if err != nil || len(types) != len(typeMeans) || len(Columns()) != len(columnMeans) {
		t.Errorf("%d types and %d meanings, %d columns and %d meanings: %v", len(types), len(typeMeans), len(Columns()),
			len(columnMeans), err)
	}
}
