package analytics

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/waterclock/waterclock/test/services"
)

const readersProgram = `
import glob, json, os, sys
import duckdb, polars, pyarrow.parquet, pyarrow.types
d = sys.argv[1]
con = duckdb.connect()
con.execute("set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(d, "views.sql")).read())
files = sorted(glob.glob(d + "/events/*/*/*.parquet"))
tables = [pyarrow.parquet.read_table(f, partitioning=None) for f in files]
schema = pyarrow.parquet.read_schema(files[0])
ids = {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in schema}
sealed = "'%s'" % os.path.join(d, "events/*/*/*.parquet")
frame = polars.read_parquet(d + "/events/*/*/*.parquet", hive_partitioning=False)
one = lambda sql: con.execute(sql).fetchone()[0]
row = con.execute("select log_partition, log_offset, epoch_us(event_us), epoch_ms(scheduled_at), type, trigger, step, "
  "lateness_ms, user_id, tags, extra, next_at from events where type is not null order by 1, 2 limit 1").fetchone()
print(json.dumps({
  "duckdb": one("select count(*) from read_parquet(%s)" % sealed),
  "duckdb_all": one("select count(*) from events"),
  "duckdb_files": one("select count(*) from event_files"),
  "polars": frame.height,
  "pyarrow": sum(t.num_rows for t in tables),
  "fired": [one("select count(*) from read_parquet(%s) where type = 'occurrence.fired'" % sealed),
    frame.filter(polars.col("type") == "occurrence.fired").height,
    sum(t["type"].to_pylist().count("occurrence.fired") for t in tables)],
  "tags": [one("select count(*) from read_parquet(%s) where tags['team'] is not null" % sealed),
    sum(1 for t in tables for tags in t["tags"].to_pylist() if tags and dict(tags).get("team"))],
  "types": {f.name: str(f.type) for f in schema if f.name in ("event_us", "scheduled_at", "tags", "step", "log_offset")},
  "ids": ids,
  "row": row,
  "fires": one("select count(*) from fires"),
  "late": one("select sum(fires)::bigint from lateness"),
  "double_fires": con.execute("select trigger, fires from double_fires order by 1").fetchall(),
  "seq_gaps": con.execute("select trigger, seq_before, seq_after from seq_gaps order by log_offset").fetchall(),
  "deliveries": con.execute(
    "select trigger, outcome, reason, attempts, answers, channel, user_id = (select user_id from fires where "
    "trigger = 'twice' limit 1) as adas from deliveries order by 1").fetchall(),
  "escalations": con.execute("select trigger, steps, last_step, reason from escalations").fetchall(),
  "pending": con.execute("select trigger from pending_at(timestamptz '2026-11-25 12:00:30+00') order by 1").fetchall(),
}, default=str))
`

// DuckDB, Polars and PyArrow read the same rows, and the views answer what they say. The
// directory's name has characters that stand for others in a glob, and a quote.
func TestReaders(t *testing.T) {
	file := services.Python(t, "venv-data")
	dir := filepath.Join(t.TempDir(), "a lake's [x]")
	w := newWorld(t, 2)
	w.fill(12)
	w.story()
	r := w.export(dir)
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	link := filepath.Join(t.TempDir(), "lake") // not every reader's glob takes brackets
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), file, "-c", readersProgram, link)
	cmd.Env, cmd.Stderr = append(os.Environ(), "TZ=Asia/Tokyo", "PYTHONDONTWRITEBYTECODE=1"), &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	var got struct {
		DuckDB      int64 `json:"duckdb"`
		All         int64 `json:"duckdb_all"`
		Files       int64 `json:"duckdb_files"`
		Polars      int64 `json:"polars"`
		PyArrow     int64 `json:"pyarrow"`
		Fired, Tags []int64
		Types       map[string]string `json:"types"`
		IDs         map[string]int    `json:"ids"`
		Row         []any             `json:"row"`
		Fires, Late int64
		DoubleFires [][]any `json:"double_fires"`
		SeqGaps     [][]any `json:"seq_gaps"`
		Deliveries  [][]any
		Escalations [][]any
		Pending     [][]any
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sealed, all, _ := read(t, dir)
	var rows, total, fired int64
	for p := range sealed {
		rows, total = rows+int64(len(sealed[p])), total+int64(len(all[p]))
		for i := range all[p] {
			if all[p][i].Type == "occurrence.fired" {
				fired++
			}
		}
	}
	if rows == 0 || got.DuckDB != rows || got.Polars != rows || got.PyArrow != rows {
		t.Errorf("%d rows in sealed files; DuckDB has %d, Polars %d, PyArrow %d", rows, got.DuckDB, got.Polars,
			got.PyArrow)
	}
	if got.All != total || got.All != r.Events || got.Fires != fired {
		t.Errorf("%d events, of which %d fired; the views have %d and %d", total, fired, got.All, got.Fires)
	}
	if f := got.Fired; f[0] != f[1] || f[0] != f[2] || f[0] == 0 {
		t.Errorf("fired by DuckDB, Polars and PyArrow: %v", f)
	}
	if g := got.Tags; g[0] != g[1] || g[0] == 0 {
		t.Errorf("tags by DuckDB and PyArrow: %v", g)
	}
	for name, want := range map[string]string{
		"event_us": "timestamp[us, tz=UTC]", "scheduled_at": "timestamp[ms, tz=UTC]", "step": "int32",
		"log_offset": "int64", "tags": "map<string, string ('tags')>",
	} {
		if got.Types[name] != want {
			t.Errorf("%s is a %s, want %s", name, got.Types[name], want)
		}
	}
	if len(got.IDs) != len(Columns()) {
		t.Errorf("%d columns have ids, want %d", len(got.IDs), len(Columns()))
	}
	for _, c := range Columns() {
		if got.IDs[c.Name] != c.ID {
			t.Errorf("%s has id %d, want %d", c.Name, got.IDs[c.Name], c.ID)
		}
	}
	if got.Late != fired-5 { // two retries, a postponed one that went out again, a run and a snooze
		t.Errorf("lateness has %d fires of %d, want all but 5", got.Late, fired)
	}
	if text, _ := json.Marshal(got.Row[:8]); string(text) != wantRow {
		t.Errorf("the first row is %s, want %s", text, wantRow)
	}
	same(t, "double_fires", got.DoubleFires, `[["later",2],["twice",2]]`)
	same(t, "seq_gaps", got.SeqGaps, `[["hole",1,3],["masked",2,2],["masked",2,4]]`)
	same(t, "deliveries", got.Deliveries,
		`[["again","postponed",null,1,1,"push",true],["lost","dead_lettered","provider_error",2,2,"push",true],`+
			`["sent","delivered",null,2,2,"push",true]]`)
	same(t, "escalations", got.Escalations, `[["ladder",1,1,"ack"]]`)
	same(t, "pending", got.Pending, `[["hole"],["waits"]]`)
}

const wantRow = `[0,0,1795564799100000,1795564799100,"occurrence.fired","k-0-1795564799100000",0,3]`

func same(t *testing.T, what string, got [][]any, want string) {
	t.Helper()
	if text, _ := json.Marshal(got); string(text) != want {
		t.Errorf("%s: %s, want %s", what, text, want)
	}
}

// story writes lives that the views are about, at noon of 25 November.
func (w *world) story() {
	w.t.Helper()
	noon := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	w.us[1] = noon.UnixMicro()
	var all [][]byte
	add := func(after time.Duration, key, kind, state string, seq int, more map[string]any) {
		at := noon.Add(after)
		us := at.UnixMicro()
		e := map[string]any{
			"event_id": "1-" + at.Format("150405.000000"), "type": kind, "version": 1, "trigger": key, "tenant": "acme",
			"seq": seq, "occurred_at": at.Format("2006-01-02T15:04:05.000Z"), "event_us": us,
		}
		if state != "" {
			e["state"] = state
		}
		for name, v := range more {
			e[name] = v
		}
		text, err := json.Marshal(e)
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, text)
	}
	o := func(step, attempt int) map[string]any {
		return map[string]any{
			"occurrence": "2026-11-25T12:00:10.000Z", "scheduled_at": "2026-11-25T12:00:10.000Z", "step": step,
			"attempt": attempt, "lateness_ms": 5, "channel": "push", "user_id": "ada",
		}
	}
	because := func(of map[string]any, reason string) map[string]any { of["reason"] = reason; return of }
	add(1*time.Second, "twice", "trigger.registered", "PENDING", 1, nil)
	add(2*time.Second, "sent", "trigger.registered", "PENDING", 1, nil)
	add(3*time.Second, "lost", "trigger.registered", "PENDING", 1, nil)
	add(4*time.Second, "later", "trigger.registered", "PENDING", 1, nil)
	add(5*time.Second, "hole", "trigger.registered", "PENDING", 1, nil)
	add(6*time.Second, "waits", "trigger.registered", "PENDING", 1, nil)
	add(7*time.Second, "ladder", "trigger.registered", "PENDING", 1, nil)
	firstAt := func(occurrence, first string) map[string]any {
		of := o(0, 1)
		of["occurrence"], of["first_fired_at"] = occurrence, first
		return of
	}
	add(8*time.Second, "again", "trigger.registered", "PENDING", 1, nil)
	add(9*time.Second, "again", "occurrence.fired", "IN_FLIGHT", 2, firstAt("o", "2026-11-25T12:00:09.000Z"))
	add(9500*time.Millisecond, "again", "delivery.postponed", "IN_FLIGHT", 3, firstAt("o", "2026-11-25T12:00:09.000Z"))
	add(9600*time.Millisecond, "again", "occurrence.fired", "FIRED", 4, firstAt("o", "2026-11-25T12:00:09.000Z"))
	add(9700*time.Millisecond, "again", "occurrence.fired", "FIRED", 5, firstAt("run-1-2", "2026-11-25T12:00:09.700Z"))
	add(9800*time.Millisecond, "again", "occurrence.fired", "FIRED", 6, firstAt("snz-1-2", "2026-11-25T12:00:09.800Z"))
	add(10*time.Second, "twice", "occurrence.fired", "FIRED", 2, o(0, 1))
	add(11*time.Second, "twice", "occurrence.fired", "FIRED", 3, o(0, 1))
	add(11500*time.Millisecond, "twice", "delivery.retried", "FIRED", 4, because(o(0, 1), "no_receipts"))
	add(12*time.Second, "sent", "occurrence.fired", "IN_FLIGHT", 2, o(0, 1))
	add(12300*time.Millisecond, "sent", "delivery.retried", "IN_FLIGHT", 3, because(o(0, 1), "receipt_timeout"))
	add(12600*time.Millisecond, "sent", "occurrence.fired", "IN_FLIGHT", 4, o(0, 2))
	add(13*time.Second, "sent", "delivery.delivered", "FIRED", 5, o(0, 2))
	bobs := because(o(0, 1), "late") // of the first attempt, when the trigger was Bob's already
	bobs["user_id"], bobs["channel"] = "bob", "sms"
	add(13500*time.Millisecond, "sent", "delivery.failed", "FIRED", 6, bobs)
	add(14*time.Second, "lost", "occurrence.fired", "IN_FLIGHT", 2, o(0, 1))
	add(15*time.Second, "lost", "delivery.retried", "IN_FLIGHT", 3, because(o(0, 1), "provider_error"))
	add(16*time.Second, "lost", "occurrence.fired", "IN_FLIGHT", 4, o(0, 2))
	add(17*time.Second, "lost", "delivery.dead_lettered", "FAILED", 5, because(o(0, 2), "provider_error"))
	add(18*time.Second, "later", "occurrence.fired", "IN_FLIGHT", 2, o(0, 1))
	add(19*time.Second, "later", "trigger.replaced", "PENDING", 3, nil) // what has fired stays fired
	add(20*time.Second, "later", "occurrence.fired", "FIRED", 4, o(0, 1))
	for _, at := range []time.Duration{23 * time.Second, 25 * time.Second} { // it was forgotten in between
		add(at, "forgotten", "trigger.registered", "PENDING", 1, nil)
		add(at+time.Second, "forgotten", "occurrence.fired", "FIRED", 2, o(0, 1))
	}
	add(21*time.Second, "ladder", "escalation.advanced", "FIRED", 2, o(1, 1))
	add(22*time.Second, "ladder", "escalation.stopped", "FIRED", 3, because(o(1, 1), "ack"))
	add(40*time.Second, "hole", "trigger.paused", "PAUSED", 3, nil)
	for i, seq := range []int{1, 2, 2, 4} { // as many as from 1 to 4
		add(time.Duration(41+i)*time.Second, "masked", "trigger.paused", "PAUSED", seq, nil)
	}
	add(50*time.Second, "waits", "trigger.cancelled", "CANCELLED", 2, nil)
	w.write(1, true, all...)
}

const followProgram = `
import os, sys
import duckdb
con = duckdb.connect()
con.execute("set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(sys.argv[1], "views.sql")).read())
for _ in sys.stdin:
  con.execute("select count(*) from event_files").fetchall() # what is kept of the files is kept by now
  print(*con.execute("select count(*), max(log_offset) from events").fetchone(), flush=True)
`

// One session of DuckDB sees what is new, although it keeps the statistics of files: also in a tail that was replaced
// by one with the same time.
func TestViewsSeeANewTail(t *testing.T) {
	python, dir := services.Python(t, "venv-data"), t.TempDir()
	l := newLedger(300)
	values := l.values
	export := func(n int) string {
		t.Helper()
		l.values = values[:n]
		e := l.exporter(dir, nil)
		if _, err := e.Export(t.Context()); err != nil {
			t.Fatal(err)
		}
		old := time.Now().Add(-time.Hour).Truncate(time.Second)
		for p := range int32(2) {
			if err := os.Chtimes(filepath.Join(dir, tailDir, partitionName(p)+".parquet"), old, old); err != nil {
				t.Fatal(err)
			}
		}
		rows, last := 0, 0
		for o, v := range l.values {
			if v != nil {
				rows, last = rows+2, o
			}
		}
		return fmt.Sprintf("%d %d", rows, last)
	}
	want := export(40)
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, "-c", followProgram, dir)
	ask, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(answers)
	for _, n := range []int{41, 45, 60, 100, 300} {
		if _, err := fmt.Fprintln(ask); err != nil || !lines.Scan() {
			t.Fatalf("no answer: %v", err)
		}
		if got := lines.Text(); got != want {
			t.Errorf("the views say %s, want %s", got, want)
		}
		want = export(n)
	}
	_ = ask.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
