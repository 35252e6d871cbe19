package check

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"sort"
	"sync"
	"time"
	_ "time/tzdata" // if the caller gives no tz database
)

// Zones is a release of the tz database, from a zoneinfo.zip in Go's format. It is data, not
// code: callers pass the engine's own file. nil is Go's own database.
type Zones struct {
	mu    sync.Mutex
	files map[string]*zip.File
	known map[string]*time.Location
}

// LoadZones reads a zoneinfo.zip.
func LoadZones(blob []byte) (*Zones, error) {
	r, err := zip.NewReader(bytes.NewReader(blob), int64(len(blob)))
	if err != nil {
		return nil, fmt.Errorf("tz database: %w", err)
	}
	z := &Zones{files: map[string]*zip.File{}, known: map[string]*time.Location{}}
	for _, f := range r.File {
		z.files[f.Name] = f
	}
	return z, nil
}

// location returns a zone by name. ok is false if the release does not have it.
func (z *Zones) location(name string) (*time.Location, bool) {
	if name == "" || name == "UTC" {
		return time.UTC, true
	}
	if z == nil {
		loc, err := time.LoadLocation(name)
		return loc, err == nil && name != "Local"
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	if loc, ok := z.known[name]; ok {
		return loc, loc != nil
	}
	loc := z.load(name)
	z.known[name] = loc
	return loc, loc != nil
}

func (z *Zones) load(name string) *time.Location {
	f := z.files[name]
	if f == nil {
		return nil
	}
	rc, err := f.Open()
	if err != nil {
		return nil
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		return nil
	}
	loc, err := time.LoadLocationFromTZData(name, b)
	if err != nil {
		return nil
	}
	return loc
}

// clockwork converts between instants and a zone's local times. It caches, so it belongs to one
// goroutine.
type clockwork struct {
	loc     *time.Location
	offsets map[int64][]int64 // by day: every offset in force within two days of it

	from, to, last int64 // the last offset, and its range of validity
}

func newClockwork(loc *time.Location) *clockwork {
	return &clockwork{loc: loc, offsets: map[int64][]int64{}}
}

// offset returns the seconds east of UTC at an instant in seconds.
func (c *clockwork) offset(t int64) int64 {
	if c.loc == time.UTC {
		return 0
	}
	if c.from <= t && t < c.to {
		return c.last
	}
	at := time.Unix(t, 0).In(c.loc)
	_, o := at.Zone()
	c.from, c.to, c.last = t, t+1, int64(o)
	if from, to := at.ZoneBounds(); !from.IsZero() && !to.IsZero() {
		c.from, c.to = from.Unix(), to.Unix()
	}
	return c.last
}

// show returns the local time at an instant.
func (c *clockwork) show(t int64) wall { return wall(t + c.offset(t)) }

// around returns every offset in force near a local time. It samples every half hour, so it
// assumes nothing about the distance of transitions.
func (c *clockwork) around(w wall) []int64 {
	if c.loc == time.UTC {
		return []int64{0}
	}
	day := w.day()
	if o, ok := c.offsets[day]; ok {
		return o
	}
	var out []int64
	for t := (day - 2) * 86400; t <= (day+3)*86400; t += 1800 {
		o, found := c.offset(t), false
		for _, have := range out {
			found = found || have == o
		}
		if !found {
			out = append(out, o)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	if len(c.offsets) > 4096 {
		clear(c.offsets)
	}
	c.offsets[day] = out
	return out
}

// instants returns all instants, in seconds, at which the zone's local time is w: none in a gap,
// two in an overlap.
func (c *clockwork) instants(w wall) (out []int64) {
	for _, o := range c.around(w) {
		if t := int64(w) - o; c.offset(t) == o {
			out = append(out, t)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// pass is one instant of a local time under a DST policy. second reports that it is the second
// pass.
type pass struct {
	at     int64 // seconds
	second bool
}

// resolve returns the instants of a local time under the policies: gap shift or skip, overlap
// first, second or both.
func (c *clockwork) resolve(w wall, gap, overlap string) []pass {
	ts := c.instants(w)
	switch {
	case len(ts) == 1:
		return []pass{{at: ts[0]}}
	case len(ts) == 0 && gap == "skip":
		return nil
	case len(ts) == 0: // by the offset before the gap, so the result is later by the gap
		around := c.around(w)
		before := c.offset(int64(w) - around[len(around)-1])
		return []pass{{at: int64(w) - before}}
	case overlap == "second":
		return []pass{{at: ts[len(ts)-1], second: true}}
	case overlap == "both":
		return []pass{{at: ts[0]}, {at: ts[len(ts)-1], second: true}}
	}
	return []pass{{at: ts[0]}}
}
