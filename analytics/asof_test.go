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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

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

// All events of a turn have one occurred_at: no decision is cut, however many there are.
func TestViewsTakeWholeTurns(t *testing.T) {
	python, dir, l := services.Python(t, "venv-data"), t.TempDir(), &ledger{}
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for i := range int64(1500) {
		for _, e := range []topics.Event{
			{Type: "trigger.registered", State: "PENDING", Rule: json.RawMessage(`{"delay":"1h"}`)},
			{Type: "occurrence.fired", State: "IN_FLIGHT"},
		} {
			us := at.UnixMicro() + int64(len(l.values))
			e.EventID, e.EventUS, e.OccurredAt, e.Version = topics.EventID(0, us), us, stamp(at), 1
			e.Trigger, e.Tenant, e.Revision, e.Seq = fmt.Sprintf("k%04d", i), "acme", 1, us%2+1
			e.ScheduledAt = stamp(at)
			text, err := json.Marshal(&e)
			if err != nil {
				t.Fatal(err)
			}
			l.values = append(l.values, text)
		}
	}
	if _, err := fleetExporter(l, dir).Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	us := at.UnixMicro()
	for us, got := range asOf(t, python, dir, []int64{us, us + 999, us + 1000}) {
		requireAsOf(t, l, us, got)
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
	at := stamp(time.UnixMicro(us).UTC()) // package asof goes by occurred_at, too
	want := foldedAsOf(t, l.values, func(e *topics.Event) bool { return e.OccurredAt <= at }, day(us)-endedDays)
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
