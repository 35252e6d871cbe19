// Command gen writes the JSON Schema of a command into a file.
package main

import (
	"log"
	"os"

	"github.com/waterclock/waterclock/topics"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gen FILE")
	}
	text, err := topics.CommandSchema()
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], text, 0o644); err != nil {
		log.Fatal(err)
	}
}
