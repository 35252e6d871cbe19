package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// zonesRead is how far ahead two releases are compared. A later release will move the triggers
// that lie beyond it.
const zonesRead = 10 * 366 * 24 * time.Hour

// transition describes what changes with another release.
type transition struct {
	From      release      `json:"from"`
	To        release      `json:"to"`
	Unchanged bool         `json:"unchanged,omitempty"` // it is already active
	Zones     []zoneChange `json:"zones"`
	// An upper bound of the triggers that move; null: not counted.
	Triggers *int `json:"triggers,omitempty"`
	Lacking  int  `json:"triggers_in_lacking_zones,omitempty"`
}

type zoneChange struct {
	Zone string `json:"zone"`
	From string `json:"from"` // the first instant at which local times differ
	What string `json:"what"`
	// An upper bound of the triggers that move; if the release lacks the zone, the triggers in
	// it.
	Triggers int `json:"triggers"`

	at int64
}

// What happens to a zone.
const (
	changed = "changed"
	added   = "added"
	removed = "removed"      // the release lacks the zone
	carried = "carried over" // the release lacks the zone, and it keeps its current rules
)

// lacked reports whether the release has no rules for the zone. The triggers in it do not move in
// any case.
func (z *zoneChange) lacked() bool { return z.What == removed || z.What == carried }

// compare fills in what changes if next replaces t.From.
func (t *transition) compare(next topics.TZData) error {
	zones, err := calendar.LoadZones(next.Zip, next.Label)
	if err != nil {
		return err
	}
	t.To, t.Zones = releaseOf(zones), []zoneChange{}
	t.To.Carried = next.Carried
	now := time.Now().UnixMilli()
	for _, d := range calendar.Diff(t.From.zones, zones, now, now+zonesRead.Milliseconds()) {
		z := zoneChange{Zone: d.Zone, From: trigger.Instant(d.At).String(), What: changed, at: d.At}
		if d.Added {
			z.What = added
		} else if d.Removed {
			z.What = removed
		}
		t.Zones = append(t.Zones, z)
	}
	for _, name := range next.Carried {
		t.Zones = append(t.Zones, zoneChange{Zone: name, From: trigger.Instant(now).String(), What: carried, at: now})
	}
	return nil
}

// maxChanged is how many zones a release may change without --force. The largest release since
// 2005 changed about 30.
const maxChanged = 60

// safe refuses a release that would leave triggers without their zone, or that does not look like
// a tz database.
func (t *transition) safe(force bool) error {
	var lacked []string
	moved := 0
	for _, z := range t.Zones {
		switch z.What {
		case removed:
			lacked = append(lacked, z.Zone)
		case changed:
			moved++
		}
	}
	switch {
	case force:
		return nil
	case len(lacked) > 0:
		return &failure{
			Exit: exitLoss,
			Msg: fmt.Sprintf("release %s lacks %s (%s): triggers there could not be planned. Was it built without "+
				"backward links? With --force they keep their present rules",
				t.To.Label, plural(len(lacked), "zone"), strings.Join(lacked[:min(5, len(lacked))], ", ")),
		}
	case moved > maxChanged:
		return &failure{
			Exit: exitConflict,
			Msg: fmt.Sprintf("release %s changes %d zones, which suggests a broken file. Apply it anyway with --force",
				t.To.Label,
				moved),
		}
	}
	return nil
}

func (a *app) printTransition(ctx context.Context, c *config.Config, t *transition, count bool) error {
	if count && len(t.Zones) > 0 {
		if err := a.countMoves(ctx, c, t); err != nil {
			return err
		}
	}
	if a.out.format != "table" {
		return a.out.json(t)
	}
	switch {
	case t.Unchanged:
		a.note("release %s is active already", t.To.Label)
		return nil
	case len(t.Zones) == 0:
		a.note("from %s to %s no clock changes within ten years", t.From.Label, t.To.Label)
		return nil
	}
	a.note("from %s to %s %s differ%s", t.From.Label, t.To.Label, plural(len(t.Zones), "zone"), t.counted())
	items := make([]any, len(t.Zones))
	header := []string{"zone", "what", "from"}
	if t.Triggers != nil {
		header = append(header, "triggers")
	}
	return a.out.list(items, header, func(i int) []string {
		z := t.Zones[i]
		row := []string{z.Zone, z.What, z.From}
		if t.Triggers != nil {
			row = append(row, strconv.Itoa(z.Triggers))
		}
		return row
	})
}

func (t *transition) counted() string {
	if t.Triggers == nil {
		return ""
	}
	said := "; at most " + plural(*t.Triggers, "trigger") + " would move"
	if t.Lacking > 0 {
		said += ", and the release lacks the zone of " + plural(t.Lacking, "trigger")
	}
	return said
}

// mayMove is how long before the first difference of a zone a wall time may lie and still resolve
// differently. Every zone is within a day of UTC, and the comparison involves two offsets.
const mayMove = int64(48 * time.Hour / time.Millisecond)

// countMoves reads topic state. Per zone it counts the triggers that are planned by wall time
// after the change, and those in zones that the release lacks.
func (a *app) countMoves(ctx context.Context, c *config.Config, t *transition) error {
	byZone := map[string]*zoneChange{}
	for i := range t.Zones {
		byZone[t.Zones[i].Zone] = &t.Zones[i]
	}
	in := map[string]*zoneChange{}
	err := a.readWhole(ctx, c, c.Topic("state"), "reading triggers", func(r *kgo.Record) {
		key := string(r.Key)
		delete(in, key)
		if r.Value == nil || topics.IsReserved(r.Key) {
			return
		}
		st, err := topics.DecodeState(trigger.Key(key), r.Value)
		if err != nil || st.Status.Finished() {
			return
		}
		if z := byZone[st.Spec.When.Zone]; z != nil && (z.lacked() || z.mayMove(&st.Series)) {
			in[key] = z
		}
	})
	moves := 0
	for _, z := range in {
		z.Triggers++
		if z.lacked() {
			t.Lacking++
		} else {
			moves++
		}
	}
	t.Triggers = &moves
	return err
}

// mayMove reports whether a series may resolve differently in a zone. Elapsed times and instants
// never do.
func (z *zoneChange) mayMove(p *trigger.Series) bool {
	return p.Local != "" && int64(p.At) >= z.at-mayMove
}
