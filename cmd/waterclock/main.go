// Command waterclock is the whole product in one binary: the server's roles,
// and the command line that people and scripts use.
//
// A file has the name of its verb, or of its family of verbs. root.go lists
// them, app*.go is what they share. What a server is made of is in internal/node,
// and what bench measures in internal/loadtest. A verb returns its result through
// app.out, so that -o and --jq work everywhere, and its failure as an error whose
// exit code app_errors.go decides.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()})
	stop()
	os.Exit(code)
}
