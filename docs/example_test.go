package docs_test

import (
	"bytes"
	"fmt"

	"github.com/waterclock/waterclock/docs"
)

// The runbook has a section for each alert.
func Example() {
	_, section, found := bytes.Cut(docs.Runbook, []byte("## WaterclockDown\n"))
	fmt.Println(found, len(section) > 0)
	// Output: true true
}
