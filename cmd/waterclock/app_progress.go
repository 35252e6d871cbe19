package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// barEvery is the time between two redraws.
const barEvery = 100 * time.Millisecond

// bar shows the progress of long work on standard error. It shows nothing if that is not a
// terminal.
type bar struct {
	shown *progressbar.ProgressBar // nil if not shown
	total int64
}

// progress starts a bar for total pieces of work. It shows none if what is "" or total is 0.
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

// set reports how much is left.
func (b *bar) set(left int64) { b.done(b.total - left) }

// done reports how much is done.
func (b *bar) done(n int64) {
	if b.shown != nil {
		_ = b.shown.Set64(min(n, b.total)) // a failure to draw must not stop the work
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
