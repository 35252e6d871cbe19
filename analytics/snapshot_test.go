package analytics

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/waterclock/waterclock/internal/asof"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// fleet are random lives of a few triggers over some days: they are registered, move, fire,
// pause, end, are erased, and come back. Some say nothing for days. The engine forgets what has
// ended a day ago: then only a register begins anew.
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
			kind = 0
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
func foldedAsOf(t *testing.T, values [][]byte, before time.Time, oldest int64) map[string]string {
	t.Helper()
	states, newest, scheduled := map[string]*asof.State{}, map[string]int64{}, map[string]string{}
	for _, v := range values {
		var e topics.Event
		if json.Unmarshal(v, &e) != nil || e.EventUS >= before.UnixMicro() || e.Seq == 0 {
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
		want := foldedAsOf(t, l.values, end, day(end.UnixMicro())-endedDays)
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

const asOfProgram = `
import json, os, sys
import duckdb
con = duckdb.connect()
con.execute("set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(sys.argv[1], "views.sql")).read())
columns = "state, revision, seq, epoch_us(updated_at), epoch_ms(next_at), epoch_ms(scheduled_at), rule, channel, user_id, tags"
out = {}
for us in json.load(sys.stdin):
  t = "make_timestamptz(%d)" % us
  rows = con.execute("select tenant || '/' || trigger, %s from triggers_as_of(%s)" % (columns, t)).fetchall()
  pending = con.execute("select tenant || '/' || trigger from pending_at(%s)" % t).fetchall()
  key = rows[us % len(rows)][0] if rows else "none/none"
  one = con.execute("select tenant || '/' || trigger, %s from trigger_as_of('%s', %s) where tenant = '%s'"
    % (columns, key.split("/")[1], t, key.split("/")[0])).fetchall()
  out[us] = {"all": rows, "pending": [p for p, in pending], "one": one}
print(json.dumps(out))
`

// The views say at random instants what package asof says of the events, with snapshots and
// without them.
func TestSnapshotsAsOf(t *testing.T) {
	python := services.Python(t, "venv-data")
	busy, dir := &ledger{values: fleet(4, 900, 8*24*time.Hour)}, t.TempDir()
	idle := &ledger{} // it ends some days earlier, and its triggers are others
	for _, v := range fleet(7, 400, 5*24*time.Hour) {
		idle.values = append(idle.values, bytes.Replace(v, []byte(`"trigger":"k`), []byte(`"trigger":"q`), 1))
	}
	e := fleetExporter(busy, dir)
	e.source = func(context.Context) (*source, error) {
		ends := []int64{int64(len(busy.values)), int64(len(idle.values))}
		read := func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			return []*ledger{busy, idle}[p].read(ctx, p, first, end, visit, step)
		}
		return &source{id: "t", starts: []int64{0, 0}, ends: ends, read: read}, nil
	}
	if _, err := e.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	l := &ledger{values: slices.Concat(busy.values, idle.values)}
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(5, 6))
	start := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	var instants []int64
	for range 20 {
		instants = append(instants, start.Add(time.Duration(dice.Int64N(int64(9*24*time.Hour)))).UnixMicro())
	}
	for day := range 3 { // the edges of days
		at := time.Date(2026, 11, 22+day, 0, 0, 0, 0, time.UTC).UnixMicro()
		instants = append(instants, at-1, at, at+1)
	}
	for _, snapshots := range []bool{true, false} {
		if !snapshots {
			for _, s := range snapshotsOf(t, dir) {
				if err := os.Remove(filepath.Join(dir, s.Path)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for us, got := range asOf(t, python, dir, instants) {
			requireAsOf(t, l, us, got)
		}
	}
}

type asOfAnswer struct {
	All     [][]any
	Pending []string
	One     [][]any
}

func asOf(t *testing.T, python, dir string, instants []int64) (out map[int64]asOfAnswer) {
	t.Helper()
	input, err := json.Marshal(instants)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", asOfProgram, dir)
	var errs bytes.Buffer
	cmd.Env, cmd.Stderr = append(os.Environ(), "TZ=Asia/Tokyo", "PYTHONDONTWRITEBYTECODE=1"), &errs
	cmd.Stdin = bytes.NewReader(input)
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		t.Fatalf("%v\n%.300s", err, text)
	}
	return out
}

func requireAsOf(t *testing.T, l *ledger, us int64, got asOfAnswer) {
	t.Helper()
	at := time.UnixMicro(us + 1)
	want := foldedAsOf(t, l.values, at, day(us)-endedDays)
	all, pending := map[string]string{}, map[string]string{}
	for _, row := range got.All {
		key := row[0].(string)
		if all[key] != "" {
			t.Errorf("%s is there twice", key)
		}
		all[key] = rowText(t, row[1:])
	}
	for _, key := range got.Pending {
		pending[key] = "pending"
	}
	requireEqualMaps(t, fmt.Sprint("as of ", time.UnixMicro(us).UTC()), want, all)
	waiting := map[string]string{}
	for key, text := range want {
		if strings.HasPrefix(text, "PENDING ") || strings.HasPrefix(text, "PAUSED ") {
			waiting[key] = "pending"
		}
	}
	if !maps.Equal(pending, waiting) {
		t.Errorf("pending at %v: %v, want %v", time.UnixMicro(us).UTC(), pending, waiting)
	}
	if len(got.One) != 1 || rowText(t, got.One[0][1:]) != want[got.One[0][0].(string)] {
		t.Errorf("one trigger as of %v: %v", time.UnixMicro(us).UTC(), got.One)
	}
}

// rowText spells a row of the view as asText does.
func rowText(t *testing.T, row []any) string {
	t.Helper()
	number := func(v any) int64 {
		if v == nil {
			return 0
		}
		n, err := v.(json.Number).Int64()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	text := func(v any) string {
		s, _ := v.(string)
		return s
	}
	var tags map[string]string
	if all, ok := row[9].(map[string]any); ok {
		tags = map[string]string{}
		for name, v := range all {
			tags[name] = text(v)
		}
	}
	return asText(text(row[0]), number(row[1]), number(row[2]), number(row[3]), number(row[4]), number(row[5]),
		text(row[6]), text(row[7]), text(row[8]), tags)
}

const scansProgram = `
import json, os, sys
import duckdb
con = duckdb.connect()
con.execute("set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(sys.argv[1], "views.sql")).read())
profile = os.path.join(sys.argv[2], "profile.json")
out = {"files": con.execute("select count(*) from files").fetchone()[0]}
at = "timestamptz '%s'" % sys.argv[3]
for what, sql in {
  "events": "select count(log_offset) from events where type = 'occurrence.fired'",
  "pending": "select count(*) from pending_at(%s)" % at,
  "rules": "select max(rule) from pending_at(%s)" % at,
}.items():
  con.execute("set enable_profiling = 'json'; set profiling_output = '%s'" % profile)
  con.execute(sql).fetchall()
  con.execute("set enable_profiling = 'no_output'")
  scans = []
  def walk(node):
    info = node.get("extra_info", {})
    if "Total Files Read" in info:
      scans.append([int(info["Total Files Read"]), str(info.get("Projections"))])
    for child in node.get("children", []):
      walk(child)
  for root in json.load(open(profile))["operator"]:
    walk(root)
  out[what] = scans
print(json.dumps(out))
`

// The views read no file twice, and no column that nobody asked for. With millions of triggers,
// that is what pending_at costs.
func TestViewsReadLittle(t *testing.T) {
	python, dir := services.Python(t, "venv-data"), t.TempDir()
	if _, err := fleetExporter(&ledger{values: fleet(4, 900, 8*24*time.Hour)}, dir).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", scansProgram, dir, t.TempDir(), "2026-11-25 12:00:00+00")
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var got struct {
		Files                  int
		Events, Pending, Rules [][2]any
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	read := 0
	for _, scan := range got.Events {
		read += int(scan[0].(float64))
	}
	if read == 0 || read > got.Files {
		t.Errorf("events reads %d files of %d: %v", read, got.Files, got.Events)
	}
	if len(got.Pending) != 2 {
		t.Errorf("pending_at scans %d times, want once the snapshots and once the events: %v", len(got.Pending),
			got.Pending)
	}
	if wide := fmt.Sprint(got.Pending); strings.Contains(wide, "rule") || strings.Contains(wide, "tags") {
		t.Errorf("to count triggers, pending_at reads %s", wide)
	}
	if wide := fmt.Sprint(got.Rules); !strings.Contains(wide, "rule") || strings.Contains(wide, "tags") {
		t.Errorf("for their rules, pending_at reads %s", wide)
	}
}
