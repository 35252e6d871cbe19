package pipeline

import (
	"context"
	"encoding/hex"
	"log/slog"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/statestore"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// settings are what the partitions of this process have read from topic control so far. The
// next partition to open reads on from there: a release is half a megabyte, and before
// compaction the topic may hold hundreds.
type settings struct {
	topic     [16]byte // its id
	next      int64    // offset to read next
	last      int64    // offset of the last setting; -1: none
	timetable *trigger.Timetable
}

// readingWithin bounds how long a partition waits for another one that reads the settings.
// Then it reads them itself.
const readingWithin = 2 * time.Second

// readAlone waits until no other partition reads the settings, so that it finds them read.
func (o *Process) readAlone(ctx context.Context) (done func()) {
	ctx, cancel := context.WithTimeout(ctx, readingWithin)
	defer cancel()
	select {
	case o.reading <- struct{}{}:
		return func() { <-o.reading }
	case <-ctx.Done():
		return func() {}
	}
}

// keepSettings keeps what was read for the next partition to open.
func (o *Process) keepSettings(read settings) {
	for {
		known := o.settings.Load()
		if known != nil && known.topic == read.topic && known.next >= read.next ||
			o.settings.CompareAndSwap(known, &read) {
			return
		}
	}
}

// control reads topic control for one partition: which tz database and which calendars are in
// force there.
type control struct {
	opts      *Process
	log       *slog.Logger
	store     *statestore.Store
	timetable *trigger.Timetable // in force
}

// readRange calls a function for every committed record of a partition in [from, to).
type readRange func(ctx context.Context, topic string, partition int32, from, to int64, f func(*kgo.Record)) error

// open reads the settings that are in force, up to end. It applies each one as it is read,
// because a log before compaction may hold hundreds of releases. It returns the offset of the
// last setting; -1: there is none.
func (c *control) open(
	ctx context.Context, topicID [16]byte, start, end int64, read readRange,
) (last int64, err error) {
	defer c.opts.readAlone(ctx)()
	known := c.known(topicID)
	c.timetable = known.timetable.Fork()
	if known.next > start && c.timetable.Zones != c.opts.Machine.Timetable.Zones {
		c.warnOrphans(c.timetable.Zones)
	}
	err = read(ctx, c.opts.Names.Control(), 0, max(start, min(known.next, end)), end, func(r *kgo.Record) {
		if _, err := c.adopt(r); err != nil {
			c.log.Warn("a setting cannot be used", "source", topics.Source(r.Topic, r.Partition, r.Offset), "error",
				err)
		}
		known.last = r.Offset
	})
	if err != nil {
		return -1, err
	}
	if known.last >= 0 {
		c.opts.timetable.Store(c.timetable.Fork())
	}
	known.next, known.timetable = max(known.next, end), c.timetable.Fork()
	c.opts.keepSettings(known)
	return known.last, nil
}

// known are the settings read so far, none if the topic was made anew.
func (c *control) known(topicID [16]byte) settings {
	if known := c.opts.settings.Load(); known != nil && known.topic == topicID {
		return *known
	}
	return settings{topic: topicID, last: -1, timetable: c.timetable}
}

// apply applies one setting, at this offset of the partition's life. It returns the replan that
// is to do then; under is the one under way.
func (c *control) apply(r *kgo.Record, under *replan) *replan {
	if r.Attrs.IsControl() {
		return under
	}
	work, err := c.adopt(r)
	if err != nil {
		c.log.Warn("a setting cannot be used; the old one stays", "source",
			topics.Source(r.Topic, r.Partition, r.Offset), "error", err)
		return under
	}
	c.opts.timetable.Store(c.timetable.Fork())
	work.next, work.start = r.Offset+1, time.Now()
	if under != nil { // two changes at once: walk all triggers
		work.zones, work.name, work.reason = nil, "", "settings"
	}
	work.left = work.zones
	return work
}

// adopt puts a setting into the timetable, and returns what must be replanned.
func (c *control) adopt(r *kgo.Record) (*replan, error) {
	s, err := topics.DecodeSetting(kafkarec.Of(r))
	if err != nil {
		return nil, err
	}
	next := c.timetable.Fork()
	work := &replan{}
	switch {
	case s.Key == topics.ControlTZData:
		if next.Zones, err = zonesOf(s.TZData); err != nil {
			return nil, err
		}
		c.warnOrphans(next.Zones)
		work.reason = "tzdata"
		// Else all: plans may be of the release in an older binary, or of one that the topic lost.
		if c.timetable.Zones != c.opts.Machine.Timetable.Zones {
			work.zones = changedZones(c.timetable.Zones, next.Zones, c.opts.Now())
		}
	default:
		work.name = s.Key[len(topics.ControlCalendars):]
		work.reason = "calendar " + work.name
		if err := next.PutCalendar(work.name, datesOf(s)); err != nil {
			return nil, err
		}
	}
	c.timetable = next
	return work, nil
}

// warnOrphans logs which zones that triggers use are missing from a release. It does not
// refuse the release: the triggers of one partition must not decide which release is in
// force there. `tzdata apply` checks that a release has the zones.
func (c *control) warnOrphans(zones *calendar.Zones) {
	sn := c.store.Snapshot()
	defer sn.Close()
	var orphans []string
	err := sn.Zones(func(zone string) bool {
		if _, err := zones.Lookup(zone); err != nil {
			orphans = append(orphans, zone)
		}
		return len(orphans) < maxOrphansNamed
	})
	if len(orphans) > 0 || err != nil {
		c.log.Warn("the release lacks zones that triggers use: planned occurrences fire, then those triggers pause",
			"release", zones.Release(), "zones", orphans, "error", err)
	}
}

const maxOrphansNamed = 20

// datesOf is nil for a deleted calendar, and only then.
func datesOf(s *topics.Setting) []string {
	if s.Calendar == nil {
		return nil
	}
	return append([]string{}, s.Calendar.Dates...)
}

// compareAhead is how many years of two releases are compared. Nearly all planned
// occurrences lie within it.
const compareAhead = 10 * 366 * 24 * time.Hour

func changedZones(old, next *calendar.Zones, now time.Time) []string {
	out := []string{}
	for _, c := range calendar.Diff(old, next, now.Add(-48*time.Hour).UnixMilli(), now.Add(compareAhead).UnixMilli()) {
		out = append(out, c.Zone)
	}
	return out
}

// releases parses each tz database once for the whole process.
var releases = struct {
	mu  sync.Mutex
	all map[string]*calendar.Zones
}{all: map[string]*calendar.Zones{}}

const maxReleases = 4

// zonesOf returns the tz database of a setting; without one, the database in the binary.
func zonesOf(t *topics.TZData) (*calendar.Zones, error) {
	if t == nil {
		return calendar.Embedded(), nil
	}
	id := hex.EncodeToString(t.Sum[:])
	releases.mu.Lock()
	defer releases.mu.Unlock()
	if z := releases.all[id]; z != nil {
		return z, nil
	}
	z, err := calendar.LoadZones(t.Zip, t.Label)
	if err != nil {
		return nil, err
	}
	if len(releases.all) >= maxReleases {
		clear(releases.all)
	}
	releases.all[id] = z
	return z, nil
}
