// Package fold keeps a log short while something goes wrong: a line that repeats
// is written once, and from then on once for each interval, with a count.
//
//	level=WARN msg="unable to open connection to broker" addr=b:9092 err="…"
//	level=WARN msg="unable to open connection to broker" addr=b:9092 err="…" repeated=311 within=10s
//
// What counts as the same line: a warning of the same message, about the same
// address, topic and role; an error only where its partition and its text are the
// same, too. The folded line is the latest of them, and names every partition.
package fold

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Interval is how often a line that repeats is written.
const Interval = 10 * time.Second

// maxLines bounds how many different lines are followed, and maxPartitions how
// many partitions one of them names.
const (
	maxLines      = 1000
	maxPartitions = 64
)

// never are messages of which each one counts.
var never = map[string]bool{"audit": true}

// Handler folds what goes to next.
type Handler struct {
	next  slog.Handler
	lines *lines
	with  identity // of the attributes that every record of this handler has
	group bool     // attributes are in a group: they are somebody else's names
}

// New folds warnings and errors, and passes on the rest as it is.
func New(next slog.Handler) *Handler {
	return &Handler{next: next, lines: &lines{open: map[string]*line{}}}
}

// identity is what tells lines of the same message apart.
type identity struct{ where, partition, text string }

func (i identity) add(a slog.Attr) identity {
	switch a.Key {
	case "addr", "topic", "role", "node":
		i.where += "\x00" + a.Value.String()
	case "partition":
		i.partition = a.Value.String()
	case "error", "err":
		i.text += "\x00" + a.Value.String()
	}
	return i
}

// lines are those that were written within the last interval.
type lines struct {
	mu   sync.Mutex
	open map[string]*line
}

type line struct {
	repeated   int
	last       slog.Record
	to         slog.Handler
	partitions []string
}

// Enabled is next's.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.next.Enabled(ctx, l) }

// WithAttrs is next's, with what tells lines apart.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	out := *h
	out.next = h.next.WithAttrs(attrs)
	if !h.group {
		for _, a := range attrs {
			out.with = out.with.add(a)
		}
	}
	return &out
}

// WithGroup is next's.
func (h *Handler) WithGroup(name string) slog.Handler {
	out := *h
	out.next, out.group = h.next.WithGroup(name), h.group || name != ""
	return &out
}

// Handle writes the record, or counts it.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level < slog.LevelWarn || never[r.Message] {
		return h.next.Handle(ctx, r)
	}
	id := h.with
	if !h.group {
		r.Attrs(func(a slog.Attr) bool { id = id.add(a); return true })
	}
	key := fmt.Sprint(r.Level, r.Message, id.where)
	if r.Level >= slog.LevelError {
		key += id.partition + id.text
	}
	if h.lines.counts(key, r, h.next, id.partition) {
		return nil
	}
	return h.next.Handle(ctx, r)
}

// counts says that the line was written a moment ago.
func (l *lines) counts(key string, r slog.Record, to slog.Handler, partition string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	is := l.open[key]
	if is == nil {
		if len(l.open) < maxLines {
			l.open[key] = &line{}
			time.AfterFunc(Interval, func() { l.close(key) })
		}
		return false
	}
	is.repeated++
	is.last, is.to = r.Clone(), to
	if partition != "" && len(is.partitions) < maxPartitions && !slices.Contains(is.partitions, partition) {
		is.partitions = append(is.partitions, partition)
	}
	return true
}

// close ends an interval: what repeated is written, and followed for another one.
func (l *lines) close(key string) {
	l.mu.Lock()
	is := *l.open[key]
	if is.repeated == 0 {
		delete(l.open, key)
		l.mu.Unlock()
		return
	}
	l.open[key] = &line{}
	l.mu.Unlock()
	time.AfterFunc(Interval, func() { l.close(key) })
	is.last.AddAttrs(slog.Int("repeated", is.repeated), slog.String("within", Interval.String()))
	if len(is.partitions) > 1 {
		slices.Sort(is.partitions)
		is.last.AddAttrs(slog.String("partitions", strings.Join(is.partitions, " ")))
	}
	_ = is.to.Handle(context.Background(), is.last) // a log that cannot be written has nobody to be told
}
