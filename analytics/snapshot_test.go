package analytics

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/waterclock/waterclock/internal/asof"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// fleet are random lives of a few triggers over some days: they are registered, move, fire,
// pause, end, are erased, and come back. Some say nothing for days. The engine forgets what has
// ended a day ago: then only a register begins anew, with seq 1.
func fleet(seed uint64, n int, over time.Duration) (values [][]byte) {
	dice := rand.New(rand.NewPCG(seed, 11))
	us := time.Date(2026, 11, 20, 7, 0, 0, 0, time.UTC).UnixMicro()
	seqs, ended := map[string]int64{}, map[string]int64{}
	for i := range n {
		us += 1 + dice.Int64N(2*over.Microseconds()/int64(n))
		at := time.UnixMicro(us).UTC()
		key := fmt.Sprintf("k%03d", int(dice.ExpFloat64()*20))
		seqs[key]++
		e := topics.Event{
			EventID: topics.EventID(0, us), EventUS: us, OccurredAt: stamp(at), Version: 1, Trigger: key,
			Tenant: []string{"acme", "default"}[len(key+fmt.Sprint(key[3]))%2], Seq: seqs[key],
			Revision: seqs[key]/4 + 1,
		}
		plan := func() {
			e.Rule = json.RawMessage(fmt.Sprintf(`{"delay":"%dh"}`, 1+dice.IntN(5)))
			e.Channel, e.UserID = []string{"", "push", "sms"}[dice.IntN(3)], []string{"", "ada", "bob"}[dice.IntN(3)]
			if dice.IntN(2) == 0 {
				e.Tags = map[string]string{"team": "t" + fmt.Sprint(dice.IntN(3)), "zone": "b"}
			}
			e.State, e.NextAt = "PENDING", stamp(at.Add(time.Duration(dice.Int64N(int64(40*time.Hour)))))
			e.ScheduledAt = e.NextAt
		}
		kind := dice.IntN(14)
		if was := ended[key]; was > 0 && us-was > (24*time.Hour).Microseconds() {
			kind, seqs[key], e.Seq, e.Revision = 0, 1, 1, 1
		}
		switch kind {
		case 0, 1, 2:
			e.Type = "trigger.registered"
			plan()
		case 3:
			e.Type = []string{"trigger.replaced", "trigger.rescheduled"}[dice.IntN(2)]
			plan()
		case 4, 5, 6:
			e.Type, e.State, e.Channel, e.ScheduledAt = "occurrence.fired", "IN_FLIGHT", "mail", stamp(at)
			if dice.IntN(2) == 0 {
				e.NextAt = stamp(at.Add(time.Hour))
			}
		case 7:
			e.Type, e.State, e.Channel = "delivery.delivered", "FIRED", "mail"
		case 8:
			e.Type, e.State = "delivery.failed", "FAILED"
		case 9:
			e.Type, e.State = "trigger.paused", "PAUSED"
		case 10, 11:
			e.Type, e.State = "trigger.cancelled", "CANCELLED"
		case 12:
			e.Type, e.State = "trigger.erased", "ERASED"
		case 13:
			e.Type, e.State, e.Seq = "command.rejected", "UNKNOWN", 0
			seqs[key]--
		}
		switch e.State {
		case "PENDING", "PAUSED", "IN_FLIGHT":
			ended[key] = 0
		case "FIRED", "FAILED", "CANCELLED", "ERASED":
			ended[key] = us
		}
		value, err := json.Marshal(&e)
		if err != nil {
			panic(err)
		}
		values = append(values, value)
		if i%97 == 3 {
			values = append(values, []byte("garbage"), nil)
		}
	}
	return values
}

func stamp(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// foldedAsOf is what package asof makes of the events up to an instant, of those triggers
// that a snapshot of the day before has, or a view. It shares no code with snapshots.
func foldedAsOf(t *testing.T, values [][]byte, known func(*topics.Event) bool, oldest int64) map[string]string {
	t.Helper()
	states, newest, scheduled := map[string]*asof.State{}, map[string]int64{}, map[string]string{}
	for _, v := range values {
		var e topics.Event
		if json.Unmarshal(v, &e) != nil || !known(&e) || e.Seq == 0 {
			continue
		}
		key := e.Tenant + "/" + e.Trigger
		if states[key] == nil {
			states[key] = &asof.State{}
		}
		states[key].Apply(&e)
		newest[key] = e.EventUS
		if e.ScheduledAt != "" {
			scheduled[key] = e.ScheduledAt
		}
	}
	out := map[string]string{}
	for key, s := range states {
		ended := s.Status != trigger.Pending && s.Status != trigger.Paused && s.Status != trigger.InFlight
		if ended && day(newest[key]) < oldest {
			continue
		}
		out[key] = asText(s.Status.String(), s.Revision, s.Seq, newest[key], millis(t, s.Next),
			millis(t, scheduled[key]), string(s.Rule), s.Channel, s.UserID, s.Tags)
	}
	return out
}

func asText(status string, revision, seq, us, next, scheduled int64, rule, channel, user string,
	tags map[string]string,
) string {
	return fmt.Sprintf("%s revision %d seq %d at %d next %d scheduled %d rule %s channel %s user %s tags %v", status,
		revision, seq, us, next, scheduled, rule, channel, user, tags)
}

func millis(t *testing.T, text string) int64 {
	t.Helper()
	if text == "" {
		return 0
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

// fleetExporter shows users, so that they can be compared.
func fleetExporter(l *ledger, dir string) *Exporter {
	e := l.exporter(dir, nil)
	e.opts.Users.Plain, e.opts.Span = true, 64
	e.decode.hide = newHider(e.opts.Users)
	return e
}

func snapshotsOf(t *testing.T, dir string) (all []Snapshot) {
	t.Helper()
	manifests, err := Manifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range manifests {
		all = append(all, m.Snapshots...)
	}
	return all
}

func startOf(t *testing.T, date string) time.Time {
	t.Helper()
	at, err := time.Parse(time.DateOnly, date)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// A snapshot has at the end of its day what the fold of all events has, whatever fits into
// memory. A smaller memory makes the same bytes, and so does an export in steps.
func TestSnapshotsAreTheFold(t *testing.T) {
	l := &ledger{values: fleet(1, 1000, 8*24*time.Hour)}
	var want map[string]string
	for _, c := range []struct {
		name             string
		triggers, inStep int
	}{
		{"in memory", mostFolded, 0},
		{"a few in memory", 7, 0},
		{"one in memory, so that runs are merged", 1, 0},
		{"in steps", 50, 150},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for n := c.inStep; c.inStep > 0 && n < len(l.values); n += c.inStep {
				part := &ledger{values: l.values[:n]}
				e := fleetExporter(part, dir)
				e.mostFolded = c.triggers
				if _, err := e.Export(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			e := fleetExporter(l, dir)
			e.mostFolded = c.triggers
			if _, err := e.Export(t.Context()); err != nil {
				t.Fatal(err)
			}
			all := files(t, dir)
			if left := only(all, tmpDir); len(left) > 0 {
				t.Errorf("left over: %v", left)
			}
			got := only(all, snapshotDir)
			if want == nil {
				want = got
			}
			sameFiles(t, want, got)
			requireSnapshots(t, l, dir)
		})
	}
}

// requireSnapshots compares all snapshots of a directory with the fold of package asof.
func requireSnapshots(t *testing.T, l *ledger, dir string) {
	t.Helper()
	all := snapshotsOf(t, dir)
	if len(all) < 12 { // 2 partitions, 8 days
		t.Errorf("%d snapshots: %+v", len(all), all)
	}
	for _, s := range all {
		name := filepath.Join(dir, s.Path)
		rows, err := parquet.ReadFile[Standing](name)
		text, _ := os.ReadFile(name)
		if err != nil || int64(len(rows)) != s.Rows || int64(len(text)) != s.Bytes || digestOf(text) != s.SHA256 {
			t.Fatalf("%s is not what its manifest says: %v", s.Path, err)
		}
		if !slices.IsSortedFunc(rows, func(a, b Standing) int { return a.compare(&b) }) {
			t.Errorf("%s is not sorted", s.Path)
		}
		end := startOf(t, s.Date).Add(24 * time.Hour)
		got := map[string]string{}
		for i := range rows {
			r := &rows[i]
			if len(r.Tags) == 0 {
				r.Tags = nil
			}
			got[r.Tenant+"/"+r.Trigger] = asText(r.State, r.Revision, r.Seq, r.EventUS, r.NextAt, r.ScheduledAt, r.Rule,
				r.Channel, r.UserID, r.Tags)
		}
		before := func(e *topics.Event) bool { return e.EventUS < end.UnixMicro() }
		want := foldedAsOf(t, l.values, before, day(end.UnixMicro())-endedDays)
		requireEqualMaps(t, s.Path, want, got)
	}
}

func requireEqualMaps(t *testing.T, what string, want, got map[string]string) {
	t.Helper()
	if len(want) == 0 {
		t.Errorf("%s: nothing to compare", what)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if got[key] != want[key] {
			t.Errorf("%s, %s:\n got %s\nwant %s", what, key, got[key], want[key])
		}
	}
	for key := range got {
		if want[key] == "" {
			t.Errorf("%s: %s is not in the fold: %s", what, key, got[key])
		}
	}
}

// A directory of an exporter that made no snapshots goes on, and gets the same ones. So does
// one in which old snapshots were deleted. The newest must be there: the next one is made of it.
func TestSnapshotsOfAnOlderDirectory(t *testing.T) {
	l := &ledger{values: fleet(2, 800, 6*24*time.Hour)}
	whole, dir := t.TempDir(), t.TempDir()
	if _, err := fleetExporter(l, whole).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	older := fleetExporter(&ledger{values: l.values[:500]}, dir)
	if err := older.open(); err != nil {
		t.Fatal(err)
	}
	if err := older.pass(t.Context(), 0, &Report{}); err != nil {
		t.Fatal(err)
	}
	if err := older.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(dir, snapshotDir)); err != nil {
		t.Fatal(err)
	}
	r, err := fleetExporter(&ledger{values: l.values[:650]}, dir).Export(t.Context())
	if err != nil || r.Snapshots < 4 {
		t.Fatalf("%+v, %v", r, err)
	}
	made := snapshotsOf(t, dir)
	oldest, newest := filepath.Join(dir, made[0].Path), ""
	for _, s := range made {
		if s.Partition == made[0].Partition {
			newest = filepath.Join(dir, s.Path)
		}
	}
	if err := os.Remove(oldest); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetExporter(l, dir).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := only(files(t, whole), snapshotDir)
	delete(want, made[0].Path)
	sameFiles(t, want, only(files(t, dir), snapshotDir))
	for _, s := range snapshotsOf(t, dir) {
		if s.Partition == made[0].Partition {
			newest = filepath.Join(dir, s.Path)
		}
	}
	if err := os.Remove(newest); err != nil {
		t.Fatal(err)
	}
	if _, err := fleetExporter(l, dir).Export(t.Context()); err == nil || !strings.Contains(err.Error(), CodeDamaged) {
		t.Errorf("the newest snapshot is gone, and the export says %v", err)
	}
}

// An event whose clock is far ahead is of a day of its own, and snapshots go on behind it.
func TestSnapshotsAfterABrokenClock(t *testing.T) {
	values := fleet(3, 600, 6*24*time.Hour)
	values = slices.Insert(values, 200, []byte(`{"type":"trigger.paused","trigger":"k000","tenant":"acme","seq":9000,`+
		`"state":"PAUSED","occurred_at":"2199-01-01T00:00:00.000Z","event_us":7226582400000000}`))
	dir := t.TempDir()
	if _, err := fleetExporter(&ledger{values: values}, dir).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	var dates []string
	for _, s := range snapshotsOf(t, dir) {
		if s.Partition == 0 {
			dates = append(dates, s.Date)
		}
	}
	if len(dates) < 5 || !slices.IsSorted(dates) || dates[len(dates)-1] > "2026-12-01" {
		t.Errorf("snapshots of %v", dates)
	}
}

// DuckDB plans by the first file of a pattern. If that had no rows, a question about one instant
// would read the snapshots of all days.
func TestFirstSnapshotSortsLast(t *testing.T) {
	dir := t.TempDir()
	if _, err := fleetExporter(&ledger{values: fleet(3, 600, 6*24*time.Hour)}, dir).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "snapshots", "*", "*.parquet"))
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	empty := filepath.Join(dir, filepath.FromSlash(snapshotPath(firstSnapshot.Date, 0)))
	if last := files[len(files)-1]; last != empty {
		t.Errorf("%s sorts last, want %s", last, empty)
	}
}

// Field ids are for ever, also those of snapshots. What events have, too, has the same one.
func TestSnapshotColumns(t *testing.T) {
	of := map[string]int{}
	for _, c := range Columns() {
		of[c.Name] = c.ID
	}
	var own []string
	for _, c := range SnapshotColumns() {
		if id, ok := of[c.Name]; !ok {
			own = append(own, fmt.Sprint(c.Name, " ", c.ID))
		} else if id != c.ID {
			t.Errorf("%s has id %d in snapshots and %d in events", c.Name, c.ID, id)
		}
	}
	if got := strings.Join(own, ", "); got != "created_at 46" {
		t.Errorf("snapshots alone have %s", got)
	}
	for f := range reflect.TypeFor[said]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("parquet"), ","); of[name] == 0 {
			t.Errorf("events have no %s", name)
		}
	}
}

// badManifest writes what is no manifest in the place of one that names snapshots: another exporter was first.
type badManifest struct{ quickDisk }

func (d badManifest) Link(from, to string) error {
	text, err := os.ReadFile(from)
	if err == nil && bytes.Contains(text, []byte(`"snapshots"`)) {
		err = os.WriteFile(to, []byte("{"), 0o600)
	}
	if err != nil {
		return err
	}
	return d.quickDisk.Link(from, to)
}

// A manifest that cannot be read while snapshots are published is an error of the export.
func TestSnapshotsBehindABadManifest(t *testing.T) {
	_, err := newLedger(100).exporter(t.TempDir(), badManifest{}).Export(t.Context())
	if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Code != CodeDamaged {
		t.Errorf("got %v", err)
	}
}
