// Command waterclock is the whole product in one binary: the server's roles, and the command line
// for people and scripts.
//
// Each file has the name of its verb, or of its family of verbs. root.go lists the verbs, and
// app*.go is what they share. Package internal/node assembles a server, and package
// internal/loadtest has the benchmarks. A verb prints its result through app.out, so that -o and
// --jq work everywhere. It returns a failure as an error, and app_errors.go decides the exit
// code.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	runtime.MemProfileRate = 0 // no verb writes a profile of the heap, and sampling for one takes 1 % of the CPU
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends a verb that cannot end by itself, as one that waits for input
	code := run(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Environ()})
	stop()
	os.Exit(code)
}
