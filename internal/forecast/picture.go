// Package forecast counts what falls due by the minute and by the hour. It knows no trigger
// and has no clock: whoever counts brings the instants, and the time at which it counted.
//
//	picture.go  Builder counts, Picture is the outcome: of one partition
//	answer.go   what a Picture, or several, answer to a question
//
// # Model
//
// Buckets are named by their begin, so an occurrence stays where it is while time goes on, and
// what has fired leaves with its bucket. A Picture is therefore right until somebody registers,
// moves or cancels something; then its age says how wrong it may be.
//
// # Promises
//
//   - The sums of all are exact. By tenant, channel and priority a Picture keeps at most
//     maxCells counts; Answer.Incomplete says that there were more.
//   - What one tenant asks for has nothing of another one.
package forecast

import (
	"slices"
	"strings"
	"time"
)

// Frame is one kind of bucket, and how far ahead it reaches.
type Frame struct {
	Name    string
	Width   time.Duration
	Buckets int // the most that one may ask for
	spare   int // further ones that a picture has, because time goes on until the next picture
}

// Frames are all there are.
var Frames = []Frame{
	{Name: "1m", Width: time.Minute, Buckets: 120, spare: 30},
	{Name: "1h", Width: time.Hour, Buckets: 90 * 24, spare: 6},
}

// FrameOf finds a frame by its name, and its place in Frames.
func FrameOf(name string) (at int, ok bool) {
	at = slices.IndexFunc(Frames, func(f Frame) bool { return f.Name == name })
	return at, at >= 0
}

// First is the begin of the bucket that an instant lies in.
func (f Frame) First(ms int64) int64 { return ms - ms%f.Width.Milliseconds() }

// EndOf is where a picture ends that is made at an instant.
func (f Frame) EndOf(ms int64) int64 {
	return f.First(ms) + int64(f.Buckets+f.spare)*f.Width.Milliseconds()
}

// Key is what counts are told apart by.
type Key struct{ Tenant, Channel, Priority string }

// Count is how many occurrences lie in a bucket: by the instants that were asked for, and by
// those at which they fire, jitter included.
type Count struct{ Nominal, Due int64 }

func (c *Count) add(o Count) {
	c.Nominal += o.Nominal
	c.Due += o.Due
}

// cell is a count of one key in one bucket.
type cell struct {
	bucket int32
	Count
}

// maxCells bounds the counts by key of a picture: 24 bytes each.
const maxCells = 1 << 17

// Picture is what one partition expects.
type Picture struct {
	atMS    int64 // when it was made
	firstMS int64 // where its first bucket begins
	width   int64
	all     []Count
	by      map[Key]*counts
	cells   int
	full    bool // there were more than maxCells
}

type counts struct {
	at    map[int32]int // index into cells by bucket
	cells []cell
}

// Builder makes a Picture.
type Builder struct {
	p     Picture
	endMS int64

	last Key     // of the last occurrence: a series has many, one after the other
	of   *counts // of that key; nil: not known yet
}

// NewBuilder begins a picture as of an instant.
func NewBuilder(f Frame, nowMS int64) *Builder {
	return &Builder{endMS: f.EndOf(nowMS), p: Picture{
		atMS: nowMS, firstMS: f.First(nowMS), width: f.Width.Milliseconds(),
		all: make([]Count, f.Buckets+f.spare), by: map[Key]*counts{},
	}}
}

// Add counts an occurrence. What is overdue counts where the picture begins. One whose nominal
// instant is over, and which waits for its jitter, counts by its due time only. The texts of the
// key may lie in memory that is used for other texts afterwards.
func (b *Builder) Add(k Key, nominalMS, dueMS int64) {
	if dueMS < b.p.atMS {
		nominalMS, dueMS = b.p.atMS, b.p.atMS
	}
	if nominalMS >= b.p.atMS && nominalMS < b.endMS {
		b.add(k, int32((nominalMS-b.p.firstMS)/b.p.width), Count{Nominal: 1}) //nolint:gosec // below endMS
	}
	if dueMS < b.endMS {
		b.add(k, int32((dueMS-b.p.firstMS)/b.p.width), Count{Due: 1}) //nolint:gosec // below endMS
	}
}

func (b *Builder) add(k Key, bucket int32, c Count) {
	b.p.all[bucket].add(c)
	of := b.countsOf(k)
	if of == nil {
		return
	}
	i, known := of.at[bucket]
	if !known {
		if b.p.cells >= maxCells {
			b.p.full = true
			return
		}
		b.p.cells++
		i = len(of.cells)
		of.at[bucket] = i
		of.cells = append(of.cells, cell{bucket: bucket})
	}
	of.cells[i].add(c)
}

// countsOf finds the counts of a key; nil if there is no room for another one.
func (b *Builder) countsOf(k Key) *counts {
	if b.of != nil && b.last == k {
		return b.of
	}
	of := b.p.by[k]
	own := Key{strings.Clone(k.Tenant), strings.Clone(k.Channel), strings.Clone(k.Priority)}
	if of == nil {
		if b.p.cells >= maxCells {
			b.p.full = true
			return nil
		}
		of = &counts{at: map[int32]int{}}
		b.p.by[own] = of
	}
	b.last, b.of = own, of
	return of
}

// Picture ends the building.
func (b *Builder) Picture() *Picture {
	for _, of := range b.p.by {
		of.at = nil
		of.cells = slices.Clip(of.cells)
	}
	return &b.p
}
