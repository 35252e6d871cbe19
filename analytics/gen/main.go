// Command gen writes the data dictionary of an export into a file.
package main

import (
	"log"
	"os"

	"github.com/waterclock/waterclock/analytics"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gen FILE")
	}
	text, err := analytics.Dictionary()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}
