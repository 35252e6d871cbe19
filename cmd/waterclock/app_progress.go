package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barEvery is how often a bar is drawn anew.
const barEvery = 100 * time.Millisecond

// bar shows how far long work is, on standard error and only if that is a
// terminal; elsewhere it says nothing.
type bar struct {
	shown *progressbar.ProgressBar // nil: not shown
	total int64
}

// progress begins a bar for total pieces of work; "" or nothing to do shows
// none.
func (a *app) progress(what string, total int64) *bar {
	b := &bar{total: total}
	if what == "" || total <= 0 || !isTerminal(a.io.err) {
		return b
	}
	b.shown = progressbar.NewOptions64(total, progressbar.OptionSetDescription(what),
		progressbar.OptionSetWriter(a.io.err),
		progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(barEvery))
	return b
}

// set says how much is left.
func (b *bar) set(left int64) { b.done(b.total - left) }

// done says how much is done.
func (b *bar) done(n int64) {
	if b.shown != nil {
		_ = b.shown.Set64(min(n, b.total)) // a bar that cannot be drawn stops no work
	}
}

func (b *bar) end() {
	if b.shown != nil {
		_ = b.shown.Finish()
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
