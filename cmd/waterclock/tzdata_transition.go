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

// zonesRead is how far ahead two releases are compared: beyond it, only
// triggers are registered that the next release will move in its turn.
const zonesRead = 10 * 366 * 24 * time.Hour

// transition is what another release changes.
type transition struct {
	From      release      `json:"from"`
	To        release      `json:"to"`
	Unchanged bool         `json:"unchanged,omitempty"` // it is active already
	Zones     []zoneChange `json:"zones"`
	Triggers  *int         `json:"triggers,omitempty"` // at most so many move; null: not counted
	Lacking   int          `json:"triggers_in_lacking_zones,omitempty"`
}

type zoneChange struct {
	Zone     string `json:"zone"`
	From     string `json:"from"` // the first instant at which clocks differ
	What     string `json:"what"`
	Triggers int    `json:"triggers"` // at most so many move; where the release lacks the zone, so many are in it

	at int64
}

// What becomes of a zone.
const (
	changed = "changed"
	added   = "added"
	removed = "removed"      // the release lacks it
	carried = "carried over" // the same, and it keeps the rules it has
)

// lacked says whether the release has no rules of its own for the zone: its
// triggers do not move, whatever becomes of them.
func (z *zoneChange) lacked() bool { return z.What == removed || z.What == carried }

// compare fills in what t changes when next comes after t.From.
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

// maxChanged is how many zones a release may change unforced: the largest
// since 2005 changed some 30.
const maxChanged = 60

// safe refuses a release that would orphan triggers, or looks like no tz
// database at all.
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
			Msg: fmt.Sprintf("release %s lacks %s (%s): triggers there could not be planned. "+
				"Was it built without backward links? With --force they keep the rules they have",
				t.To.Label, plural(len(lacked), "zone"), strings.Join(lacked[:min(5, len(lacked))], ", ")),
		}
	case moved > maxChanged:
		return &failure{
			Exit: exitConflict,
			Msg: fmt.Sprintf("release %s changes %d zones, which looks like a broken file. Force it with --force",
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

// mayMove is how long before a zone's first difference a wall time may lie
// and yet be resolved differently: zones are within a day of UTC, twice.
const mayMove = int64(48 * time.Hour / time.Millisecond)

// countMoves reads topic state and counts, by zone, triggers planned by wall
// time for after its clocks change, and those in zones that the release lacks.
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

// mayMove says whether a plan may be resolved differently in a zone: elapsed
// time and instants never are.
func (z *zoneChange) mayMove(p *trigger.Series) bool {
	return p.Local != "" && int64(p.At) >= z.at-mayMove
}
