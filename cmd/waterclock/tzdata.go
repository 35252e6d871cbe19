package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func newTZData(a *app) *cobra.Command {
	return parent("tzdata", "See or change the time zone database that triggers are planned by", newTZDataStatus(a), newTZDataApply(a))
}

// release is one tz database.
type release struct {
	Label string `json:"label"`
	ID    string `json:"sha256"`
	Zones int    `json:"zones"`
	Since string `json:"since,omitempty"` // when it was applied

	zones *calendar.Zones
}

func newTZDataStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the active release and the one this binary carries",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			active, err := a.activeRelease(cmd.Context(), c)
			if err != nil {
				return err
			}
			own := releaseOf(calendar.Embedded())
			status := struct {
				Active   *release `json:"active"` // null: none was applied, so each engine's own counts
				Embedded release  `json:"embedded"`
				Same     bool     `json:"same"`
			}{active, own, active == nil || active.ID == own.ID}
			return a.out.record(status, statusRows(active, own))
		},
	}
}

func statusRows(active *release, own release) [][2]string {
	rows := [][2]string{{"active", "none applied: each engine uses the release it carries"}}
	if active != nil {
		rows = [][2]string{{"active", active.Label}, {"since", active.Since}, {"sha256", active.ID}, {"zones", strconv.Itoa(active.Zones)}}
	}
	rows = append(rows, [2]string{"this binary", own.Label}, [2]string{"its sha256", own.ID})
	if active != nil && active.ID != own.ID {
		rows = append(rows, [2]string{"to do", "see what would change with `waterclock tzdata apply embedded --dry-run`"})
	}
	return rows
}

func releaseOf(z *calendar.Zones) release {
	return release{Label: z.Release(), ID: z.ID(), Zones: len(z.Names()), zones: z}
}

// activeRelease is the last one applied; nil for none.
func (a *app) activeRelease(ctx context.Context, c *config.Config) (*release, error) {
	have, err := a.settings(ctx, c)
	if err != nil || have[topics.ControlTZData] == nil {
		return nil, err
	}
	r := have[topics.ControlTZData]
	s, err := settingOf(r)
	if err != nil {
		return nil, err
	}
	zones, err := calendar.LoadZones(s.TZData.Zip, s.TZData.Label)
	if err != nil {
		return nil, fmt.Errorf("the release in %s: %w", r.Topic, err)
	}
	active := releaseOf(zones)
	active.Since = trigger.Instant(r.Timestamp.UnixMilli()).String()
	return &active, nil
}

type tzApplyFlags struct {
	label         string
	dryRun, force bool
	count         bool
}

func newTZDataApply(a *app) *cobra.Command {
	f := &tzApplyFlags{}
	cmd := &cobra.Command{
		Use:   "apply (FILE | embedded)",
		Short: "Activate a release: a zip of TZif files, such as Go's zoneinfo.zip, or the one this binary carries",
		Long: `Activate a release of the time zone database in every partition at once.
Triggers whose instant it changes are moved, each with an event
trigger.rescheduled. With --dry-run nothing is written: it lists the zones that
change, from when, and how many triggers might move.`,
		Example:   "  waterclock tzdata apply embedded --dry-run\n  waterclock tzdata apply zoneinfo.zip --label 2026b",
		Args:      argsBetween(1, 1),
		ValidArgs: []string{"embedded"},
		RunE: func(cmd *cobra.Command, args []string) error {
			blob, label, err := f.read(args[0])
			if err != nil {
				return err
			}
			return a.applyTZData(cmd.Context(), f, blob, label)
		},
	}
	cmd.Flags().StringVar(&f.label, "label", "", "IANA's `name` of the release: 2026b; needed for a FILE, which does not say it")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list what would change, and write nothing")
	cmd.Flags().BoolVar(&f.count, "count", true, "with --dry-run: read all triggers and count those that might move")
	cmd.Flags().BoolVar(&f.force, "force", false, "even if zones are missing or over 60 change: that looks like a broken file")
	return cmd
}

// read finds the bytes and the label of a release.
func (f *tzApplyFlags) read(arg string) (blob []byte, label string, err error) {
	if arg == "embedded" {
		return calendar.EmbeddedZip(), or(f.label, calendar.Embedded().Release()), nil
	}
	if f.label == "" {
		return nil, "", usagef("--label is missing: nothing in a zip says which release it is; write --label 2026b")
	}
	blob, err = os.ReadFile(arg)
	if err != nil {
		return nil, "", usagef("%s: %v", arg, cause(err))
	}
	return blob, f.label, nil
}

func (a *app) applyTZData(ctx context.Context, f *tzApplyFlags, blob []byte, label string) error {
	key, value, headers, err := topics.EncodeTZData(topics.TZData{Label: label, Zip: blob, Sum: sha256.Sum256(blob)})
	if err != nil {
		return &failure{Exit: exitUsage, Err: worded(err)}
	}
	zones, err := calendar.LoadZones(blob, label)
	if err != nil {
		return &failure{Exit: exitUsage, Err: err}
	}
	c, err := a.config(false)
	if err != nil {
		return err
	}
	t, err := a.compareReleases(ctx, c, releaseOf(zones))
	if err != nil {
		return err
	}
	if f.dryRun {
		return a.printTransition(ctx, c, t, f.count)
	}
	if !t.Unchanged {
		if err := t.safe(f.force); err != nil {
			return err
		}
		rec := &kgo.Record{Key: key, Value: value}
		for _, h := range headers {
			rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		if err := a.writeSetting(ctx, c, rec); err != nil {
			return err
		}
		a.note("written; each partition applies it where it reads it, and tells of each trigger it moves (waterclock events tail --type trigger.rescheduled)")
	}
	return a.printTransition(ctx, c, t, false)
}

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
}

type zoneChange struct {
	Zone     string `json:"zone"`
	From     string `json:"from"` // the first instant at which clocks differ
	What     string `json:"what"` // changed, added, removed
	Triggers int    `json:"triggers"`

	at int64
}

// compareReleases compares with the active release; where none was applied,
// with the one this binary carries.
func (a *app) compareReleases(ctx context.Context, c *config.Config, to release) (*transition, error) {
	active, err := a.activeRelease(ctx, c)
	if err != nil {
		return nil, err
	}
	from := releaseOf(calendar.Embedded())
	if active != nil {
		from = *active
	}
	t := &transition{From: from, To: to, Zones: []zoneChange{}, Unchanged: active != nil && active.ID == to.ID}
	now := time.Now().UnixMilli()
	for _, d := range calendar.Diff(from.zones, to.zones, now, now+zonesRead.Milliseconds()) {
		z := zoneChange{Zone: d.Zone, From: trigger.Instant(d.At).String(), What: "changed", at: d.At}
		if d.Added {
			z.What = "added"
		} else if d.Removed {
			z.What = "removed"
		}
		t.Zones = append(t.Zones, z)
	}
	return t, nil
}

// maxChanged is how many zones a release may change unforced: the largest
// since 2005 changed some 30.
const maxChanged = 60

// safe refuses a release that would orphan triggers, or looks like no tz
// database at all.
func (t *transition) safe(force bool) error {
	var removed []string
	changed := 0
	for _, z := range t.Zones {
		switch z.What {
		case "removed":
			removed = append(removed, z.Zone)
		case "changed":
			changed++
		}
	}
	switch {
	case force:
		return nil
	case len(removed) > 0:
		return &failure{Exit: exitConflict, Msg: fmt.Sprintf("release %s lacks %s (%s): triggers there could not be planned. Was it built without backward links? Force it with --force",
			t.To.Label, plural(len(removed), "zone"), strings.Join(removed[:min(5, len(removed))], ", "))}
	case changed > maxChanged:
		return &failure{Exit: exitConflict, Msg: fmt.Sprintf("release %s changes %d zones, which looks like a broken file. Force it with --force", t.To.Label, changed)}
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
	return "; at most " + plural(*t.Triggers, "trigger") + " would move"
}

// mayMove is how long before a zone's first difference a wall time may lie
// and yet be resolved differently: zones are within a day of UTC, twice.
const mayMove = int64(48 * time.Hour / time.Millisecond)

// countMoves reads topic state and counts, by zone, triggers planned by wall
// time for after its clocks change.
func (a *app) countMoves(ctx context.Context, c *config.Config, t *transition) error {
	byZone := map[string]*zoneChange{}
	for i := range t.Zones {
		byZone[t.Zones[i].Zone] = &t.Zones[i]
	}
	moves := map[string]*zoneChange{}
	err := a.readWhole(ctx, c, c.Topic("state"), "reading triggers", func(r *kgo.Record) {
		key := string(r.Key)
		delete(moves, key)
		if r.Value == nil || topics.IsReserved(r.Key) {
			return
		}
		st, err := topics.DecodeState(trigger.Key(key), r.Value)
		if err != nil || st.Status.Finished() || st.Series.Local == "" {
			return // elapsed time and instants never move
		}
		if z := byZone[st.Spec.When.Zone]; z != nil && int64(st.Series.At) >= z.at-mayMove {
			moves[key] = z
		}
	})
	for _, z := range moves {
		z.Triggers++
	}
	n := len(moves)
	t.Triggers = &n
	return err
}
