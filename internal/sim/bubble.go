package sim

import (
	"flag"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/waterclock/waterclock/pipeline"
)

// synctest needs a *testing.T, which only package testing makes. Outside of `go test`,
// testing.Main makes one: it runs a single test that lasts as long as the process and provides
// bubbles.
var host = sync.OnceValue(func() *testing.T {
	if !flag.Parsed() {
		_ = flag.CommandLine.Parse(nil) // package testing reads its own flags; there are none
	}
	ready := make(chan *testing.T)
	go testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "sim", F: func(t *testing.T) { ready <- t; select {} }}}, nil, nil)
	return <-ready
})

var bubbles atomic.Int64

// Bubble runs a plan in a bubble of its own, outside of `go test`. Several bubbles may run at
// once. It calls moved for each simulated minute.
func Bubble(p Plan, moved func()) (o *Outcome) {
	host().Run(strconv.FormatInt(bubbles.Add(1), 10), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			o = run(t, p, func(string, *pipeline.Options) {}, moved)
		})
	})
	return o
}
