package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func newTZData(a *app) *cobra.Command {
	return parent("tzdata", "Show or change the time zone database that plans triggers", newTZDataStatus(a),
		newTZDataApply(a))
}

// release is one tz database.
type release struct {
	Label string `json:"label"`
	ID    string `json:"sha256"`
	Zones int    `json:"zones"`
	Since string `json:"since,omitempty"` // when it was applied

	// Carried lists zones that this release lacks. They keep their rules from the previous
	// release.
	Carried []string `json:"carried,omitempty"`

	zones *calendar.Zones
}

func newTZDataStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the active release and the one this binary carries",
		Long: `Print the release of the tz database that is in force, the one that this binary
carries, and when clocks change within 14 days. With --url the API answers, about the
binary that runs it, and says what clocks its release would change.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(false)
			if err != nil {
				return err
			}
			if asksAPI(c) {
				return a.tzdataOfAPI(cmd.Context(), newAPI(c))
			}
			active, err := a.activeRelease(cmd.Context(), c)
			if err != nil {
				return err
			}
			own := releaseOf(calendar.Embedded())
			status := struct {
				Active   *release `json:"active"` // null: none was applied, so each engine uses its embedded one
				Embedded release  `json:"embedded"`
				Same     bool     `json:"same"`

				ClockChanges []gateway.ClockChange `json:"clock_changes"`
			}{active, own, active == nil || active.ID == own.ID, nil}
			inForce := own.zones
			if active != nil {
				inForce = active.zones
			}
			status.ClockChanges = gateway.ClockChanges(inForce, time.Now())
			return a.out.record(status, append(statusRows(active, own), clockRows(status.ClockChanges)...))
		},
	}
}

// tzdataOfAPI prints the release that the API reports.
func (a *app) tzdataOfAPI(ctx context.Context, from *api) error {
	var t gateway.TZData
	if err := from.get(ctx, "/v1/tzdata", &t); err != nil {
		return err
	}
	of := func(r *gateway.TZRelease) release {
		return release{Label: r.Label, ID: r.SHA256, Zones: r.Zones, Since: r.Since, Carried: r.Carried}
	}
	active, own := of(&t.Active), of(&t.Embedded)
	rows := statusRows(&active, own)
	if t.Active.Since == "" {
		rows = statusRows(nil, own)
	}
	for _, z := range t.Changes {
		rows = append(rows, [2]string{z.What, z.Zone + " from " + z.From})
	}
	return a.out.record(t, append(rows, clockRows(t.ClockChanges)...))
}

// zonesNamed is how many zones a row names. -o json has all.
const zonesNamed = 4

// clockRows say when clocks change.
func clockRows(changes []gateway.ClockChange) (rows [][2]string) {
	for _, c := range changes {
		shift, way := time.Duration(c.ShiftSeconds)*time.Second, "forward"
		if shift < 0 {
			shift, way = -shift, "back"
		}
		zones := strings.Join(c.Zones[:min(zonesNamed, len(c.Zones))], ", ")
		if more := len(c.Zones) - zonesNamed; more > 0 {
			zones += fmt.Sprintf(" and %d more", more)
		}
		rows = append(rows, [2]string{
			"clocks change", c.At + ": " + way + " by " + calendar.DurationText(shift) + " in " + zones,
		})
	}
	return rows
}

func statusRows(active *release, own release) [][2]string {
	rows := [][2]string{{"active", "none applied: each engine uses the release it carries"}}
	if active != nil {
		rows = [][2]string{
			{"active", active.Label},
			{"since", active.Since},
			{"sha256", active.ID},
			{"zones", strconv.Itoa(active.Zones)},
		}
		if len(active.Carried) > 0 {
			rows = append(rows, [2]string{
				"carried over",
				strings.Join(active.Carried, ", ") + ": as in the release before, because this one lacks them",
			})
		}
	}
	rows = append(rows, [2]string{"this binary", own.Label}, [2]string{"its sha256", own.ID})
	if active != nil && active.ID != own.ID {
		rows = append(rows, [2]string{
			"to do",
			"see what would change with `waterclock tzdata apply embedded --dry-run`",
		})
	}
	return rows
}

func releaseOf(z *calendar.Zones) release {
	return release{Label: z.Release(), ID: z.ID(), Zones: len(z.Names()), zones: z}
}

// activeRelease returns the release that was applied last, or nil if none was.
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
	active.Carried = s.TZData.Carried
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
change, from when, and how many triggers might move.

A release that lacks zones of the active one is refused. With --force those zones
are added to it with their present rules, and status names them. So no trigger
loses its zone.`,
		Example:   "  waterclock tzdata apply embedded --dry-run\n  waterclock tzdata apply zoneinfo.zip --label 2026b",
		Args:      argsBetween(1, 1),
		ValidArgs: []string{"embedded"},
		RunE: func(cmd *cobra.Command, args []string) error {
			blob, label, err := f.read(args[0])
			if err != nil {
				return err
			}
			c, err := a.config(false)
			if err != nil {
				return err
			}
			return a.applyTZData(cmd.Context(), c, f, topics.TZData{Label: label, Zip: blob})
		},
	}
	cmd.Flags().StringVar(&f.label, "label", "",
		"IANA's `name` of the release: 2026b; needed for a FILE, which does not say it")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "list what would change, and write nothing")
	cmd.Flags().BoolVar(&f.count, "count", true, "with --dry-run: read all triggers and count those that may move")
	cmd.Flags().BoolVar(&f.force, "force", false,
		"apply it even if zones are missing (they keep their rules) or over 60 change, which suggests a broken file")
	return cmd
}

// read returns the bytes and the label of a release.
func (f *tzApplyFlags) read(arg string) (blob []byte, label string, err error) {
	if arg == "embedded" {
		return calendar.EmbeddedZip(), or(f.label, calendar.Embedded().Release()), nil
	}
	if f.label == "" {
		return nil, "", usagef("--label is missing: a zip does not name its release; write --label 2026b")
	}
	blob, err = os.ReadFile(arg)
	if err != nil {
		return nil, "", usagef("%s: %v", arg, cause(err))
	}
	return blob, f.label, nil
}

func (a *app) applyTZData(ctx context.Context, c *config.Config, f *tzApplyFlags, next topics.TZData) error {
	if _, err := calendar.LoadZones(next.Zip, next.Label); err != nil {
		return &failure{Exit: exitUsage, Err: err}
	}
	active, err := a.activeRelease(ctx, c)
	if err != nil {
		return err
	}
	t := &transition{From: releaseOf(calendar.Embedded())} // what an engine uses if none was applied
	if active != nil {
		t.From = *active
	}
	if f.force {
		if next.Zip, next.Carried, err = calendar.CarryOver(next.Zip, t.From.zones); err != nil {
			return err
		}
	}
	rec, err := releaseRecord(next)
	if err != nil {
		return &failure{Exit: exitUsage, Err: worded(err)}
	}
	if err := t.compare(next); err != nil {
		return err
	}
	t.Unchanged = active != nil && active.ID == t.To.ID
	if f.dryRun {
		return a.printTransition(ctx, c, t, f.count)
	}
	if !t.Unchanged {
		if err := t.safe(f.force); err != nil {
			return err
		}
		if err := a.writeSetting(ctx, c, rec); err != nil {
			return err
		}
		a.note("written; each partition applies it at the record's offset and emits trigger.rescheduled for each " +
			"trigger it moves (waterclock events tail --type trigger.rescheduled)")
	}
	return a.printTransition(ctx, c, t, false)
}

func releaseRecord(t topics.TZData) (*kgo.Record, error) {
	key, value, headers, err := topics.EncodeTZData(t)
	return &kgo.Record{Key: key, Value: value, Headers: kafkarec.Headers(headers)}, err
}
