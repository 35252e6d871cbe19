// Command gen writes the settings page from the table of package config.
package main

import (
	"bytes"
	"fmt"
	"os"

	"github.com/waterclock/waterclock/internal/config"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: gen FILE")
		os.Exit(2)
	}
	var b bytes.Buffer
	err := config.WriteMarkdown(&b)
	if err == nil {
		err = os.WriteFile(os.Args[1], b.Bytes(), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "write settings page:", err)
		os.Exit(1)
	}
}
