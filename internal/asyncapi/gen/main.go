// Command gen writes the AsyncAPI description of the topics, with their default
// names, into a file.
package main

import (
	"log"
	"os"

	"github.com/waterclock/waterclock/internal/asyncapi"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: gen FILE")
	}
	d, err := asyncapi.Document(asyncapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(os.Args[1], d, 0o644); err != nil {
		log.Fatal(err)
	}
}
