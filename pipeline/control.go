package pipeline

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/kafkapart"
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

// knownSettings are the settings read so far, none if the topic was made anew.
func (o *opening) knownSettings() settings {
	if known := o.opts.settings.Load(); known != nil && known.topic == o.ids.Control {
		return *known
	}
	return settings{topic: o.ids.Control, last: -1, timetable: o.machine.Timetable}
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

// openControl reads the settings that are in force, and notes whether progress has seen
// them. It applies each one as it is read, because a log before compaction may hold
// hundreds of releases.
func (o *opening) openControl(ctx context.Context) error {
	topic := o.opts.Names.Control()
	end, err := kafkapart.ListOffset(ctx, o.kafka.cl, topic, 0, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	start, err := kafkapart.ListOffset(ctx, o.kafka.cl, topic, 0, kafkapart.ReadCommitted, kafkapart.Earliest)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	defer o.opts.readAlone(ctx)()
	read := o.knownSettings()
	o.machine.Timetable = read.timetable.Fork()
	if read.next > start && o.machine.Timetable.Zones != o.opts.Machine.Timetable.Zones {
		o.warnOrphans(o.machine.Timetable.Zones)
	}
	err = o.readRange(ctx, topic, 0, max(start, min(read.next, end)), end, func(r *kgo.Record) {
		if _, err := o.adopt(r); err != nil {
			o.log.Warn("a setting cannot be used", "source", topics.Source(r.Topic, r.Partition, r.Offset), "error",
				err)
		}
		read.last = r.Offset
	})
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	if read.last >= 0 {
		o.opts.timetable.Store(o.machine.Timetable.Fork())
	}
	read.next, read.timetable = max(read.next, end), o.machine.Timetable.Fork()
	o.opts.keepSettings(read)
	if read.last >= o.progress.NextControl && o.progress.Seq > 0 {
		o.replan = &replan{next: end, reason: "settings", start: time.Now()}
	} else {
		o.progress.NextControl = max(o.progress.NextControl, end)
	}
	o.kafka.plan(topic, 0, end)
	o.consumer.control = end
	return nil
}

// applyControl applies one setting, at this offset of the partition's life.
func (p *Partition) applyControl(r *kgo.Record) {
	if r.Attrs.IsControl() {
		return
	}
	work, err := p.adopt(r)
	if err != nil {
		p.log.Warn("a setting cannot be used; the old one stays", "source",
			topics.Source(r.Topic, r.Partition, r.Offset), "error", err)
		return
	}
	p.opts.timetable.Store(p.machine.Timetable.Fork())
	work.next, work.start = r.Offset+1, time.Now()
	if p.replan != nil { // two changes at once: walk all triggers
		work.zones, work.name, work.reason = nil, "", "settings"
	}
	work.left = work.zones
	p.replan = work
}

// adopt puts a setting into the timetable, and returns what must be replanned.
func (p *Partition) adopt(r *kgo.Record) (*replan, error) {
	s, err := topics.DecodeSetting(record(r))
	if err != nil {
		return nil, err
	}
	old := p.machine.Timetable
	next := old.Fork()
	work := &replan{}
	switch {
	case s.Key == topics.ControlTZData:
		if next.Zones, err = zonesOf(s.TZData); err != nil {
			return nil, err
		}
		p.warnOrphans(next.Zones)
		work.reason, work.zones = "tzdata", changedZones(old.Zones, next.Zones, p.opts.Now())
	default:
		work.name = s.Key[len(topics.ControlCalendars):]
		work.reason = "calendar " + work.name
		if err := next.PutCalendar(work.name, datesOf(s)); err != nil {
			return nil, err
		}
	}
	p.machine.Timetable = next
	return work, nil
}

// warnOrphans logs which zones that triggers use are missing from a release. It does not
// refuse the release: the triggers of one partition must not decide which release is in
// force there. `tzdata apply` checks that a release has the zones.
func (p *Partition) warnOrphans(zones *calendar.Zones) {
	sn := p.store.Snapshot()
	defer sn.Close()
	var orphans []string
	err := sn.Zones(func(zone string) bool {
		if _, err := zones.Lookup(zone); err != nil {
			orphans = append(orphans, zone)
		}
		return len(orphans) < maxOrphansNamed
	})
	if len(orphans) > 0 || err != nil {
		p.log.Warn("the release lacks zones that triggers use: planned occurrences fire, then those triggers pause",
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
