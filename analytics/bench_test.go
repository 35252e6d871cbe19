package analytics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

// lives are events as an engine writes them: each trigger is registered with a payload,
// fires, and is delivered. Many live at a time.
func lives(p int32, n int) (out [][]byte) {
	_ = writeLives(p, n, 140*time.Microsecond, 5000, func(value []byte) error {
		out = append(out, value)
		return nil
	})
	return out
}

// writeLives gives so many events to write, one each apart on average. So many triggers wait
// at a time.
func writeLives(p int32, n int, apart time.Duration, waiting int, write func([]byte) error) error {
	dice := rand.New(rand.NewPCG(uint64(p), 7))
	us := time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC).UnixMicro()
	text := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
	type life struct {
		key, user string
		due       int64
		stage     int
	}
	var living []life
	zero, late := 0, int64(0)
	for i := range n {
		us += 1 + dice.Int64N(2*apart.Microseconds())
		at := us / 1000
		e := topics.Event{
			EventID: fmt.Sprintf("%d-%d", p, us), Version: 1, Tenant: "default", Revision: 1, OccurredAt: text(at),
			EventUS: us, Channel: "push",
		}
		if len(living) < waiting || dice.IntN(3) == 0 {
			l := life{
				key: fmt.Sprintf("order-%016x", dice.Uint64()), user: "user-" + strconv.Itoa(dice.IntN(100_000)),
				due: at + 600_000,
			}
			living = append(living, l)
			e.Type, e.Trigger, e.UserID, e.State, e.Seq = "trigger.registered", l.key, l.user, "PENDING", 1
			e.ScheduledAt, e.Occurrence, e.NextAt = text(l.due), text(l.due), text(l.due)
			e.Rule = json.RawMessage(`{"delay":"10m"}`)
			e.Source = fmt.Sprintf("waterclock.commands/%d/%d", p, i)
			e.Payload = json.RawMessage(`{"title":"Your order is on its way","order":"` + l.key + `","items":3}`)
			e.Tags = map[string]string{"team": "seats"}
		} else {
			k := dice.IntN(len(living))
			l := &living[k]
			e.Trigger, e.UserID, e.Occurrence, e.FirstFired = l.key, l.user, text(l.due), text(at)
			e.Attempt, e.Step, e.Seq = 1, &zero, int64(2+l.stage)
			if l.stage == 0 {
				late = dice.Int64N(12)
				e.Type, e.State, e.PreviousState, e.LatenessMS = "occurrence.fired", "IN_FLIGHT", "PENDING", &late
				e.ScheduledAt, e.DueTopic, e.DuePartition = text(l.due), "waterclock.due.push", &p
				l.stage++
			} else {
				e.Type, e.State, e.PreviousState = "delivery.delivered", "FIRED", "IN_FLIGHT"
				e.Source = fmt.Sprintf("waterclock.receipts/%d/%d", p, i)
				living[k] = living[len(living)-1]
				living = living[:len(living)-1]
			}
		}
		value, err := json.Marshal(&e)
		if err != nil {
			panic(err)
		}
		if err := write(value); err != nil {
			return err
		}
	}
	return nil
}

// BenchmarkExport exports partitions that are in memory to a directory, and reports what
// an event costs. EXPORT_PARTITIONS (1) have so many events each (600,000 in all).
func BenchmarkExport(b *testing.B) {
	partitions, _ := strconv.Atoi(os.Getenv("EXPORT_PARTITIONS"))
	partitions = max(1, partitions)
	values := lives(0, 600_000/partitions)
	for b.Loop() {
		e := New(Options{Topic: topic, Dir: b.TempDir(), Users: Users{Key: []byte("0123456789abcdef")}})
		l := &ledger{values: values}
		e.source = func(context.Context) (*source, error) {
			s := &source{id: "t", read: l.read}
			for range partitions {
				s.starts, s.ends = append(s.starts, 0), append(s.ends, int64(len(values)))
			}
			return s, nil
		}
		before, began := cpu(b), time.Now()
		r, err := e.Export(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		took := time.Since(began)
		b.ReportMetric(float64(r.Events)/took.Seconds(), "events/s")
		b.ReportMetric(float64((cpu(b)-before).Microseconds())/float64(r.Events), "cpu-µs/event")
		b.ReportMetric(float64(r.Bytes)/float64(r.Events), "B/event")
		b.ReportMetric(float64(resident(b)), "peak-MiB")
	}
}

func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// resident is the most that this process ever held, its log in memory included.
func resident(b *testing.B) (mib int64) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			mib = kib >> 10
		}
	}
	return mib
}

// BenchmarkViews asks DuckDB what analysts ask, of LAKE_EVENTS events (200,000) that 16
// partitions wrote in 28 days. It keeps the directory if LAKE_DIR names one, and uses it again.
func BenchmarkViews(b *testing.B) {
	python := services.Python(b, "venv-data")
	const partitions, days = 16, 28
	n, _ := strconv.Atoi(os.Getenv("LAKE_EVENTS"))
	n = max(n, 200_000) / partitions
	dir := os.Getenv("LAKE_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	e := New(Options{Topic: topic, Dir: dir, Users: Users{Key: []byte("0123456789abcdef")}})
	e.source = func(context.Context) (*source, error) {
		s := &source{id: "t"}
		for range partitions {
			s.starts, s.ends = append(s.starts, 0), append(s.ends, int64(n))
		}
		s.read = func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			o := int64(0)
			err := writeLives(p, int(end), days*24*time.Hour/time.Duration(n), n/20, func(value []byte) error {
				o++
				if o-1 < first {
					return ctx.Err()
				}
				return visit(&kgo.Record{Partition: p, Offset: o - 1, Value: value, Timestamp: time.UnixMilli(0)}, o-1)
			})
			return errors.Join(err, visit(nil, end))
		}
		return s, nil
	}
	r, err := e.Export(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%+v", r)
	if err := os.WriteFile(filepath.Join(dir, "views.sql"), []byte(Views(dir)), 0o600); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		out, err := exec.CommandContext(b.Context(), python, "-c", viewsProgram, dir).CombinedOutput()
		if err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		var took map[string]float64
		if err := json.Unmarshal(out, &took); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		for what, ms := range took {
			b.ReportMetric(ms, what+"-ms")
		}
	}
}

// viewsProgram prints the least of three times for each question.
const viewsProgram = `
import json, os, sys, time
import duckdb
con = duckdb.connect()
con.execute("set threads = 2; set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(sys.argv[1], "views.sql")).read())
key, = con.execute("select trigger from snapshots where date = '2026-12-10' limit 1").fetchone()
out = {}
for what, sql in {
  "one-as-of": "select * from triggers_as_of(timestamptz '2026-12-11 14:00:00+00') where trigger = '%s'" % key,
  "one-by-key": "select * from trigger_as_of('%s', timestamptz '2026-12-11 14:00:00+00')" % key,
  "pending-count": "select count(*) from pending_at(timestamptz '2026-12-11 14:00:00+00')",
  "pending-due": "select tenant, count(*), min(next_at) from pending_at(timestamptz '2026-12-11 23:30:00+00') group by 1",
  "percentiles": "select channel, quantile_disc(lateness_ms, [0.5, 0.9, 0.99]) from fires group by 1",
  "double-fires": "select count(*) from double_fires",
  "seq-gaps": "select count(*) from seq_gaps",
}.items():
  best = 1e9
  for _ in range(3):
    began = time.perf_counter()
    con.execute(sql).fetchall()
    best = min(best, time.perf_counter() - began)
  out[what] = round(best * 1000, 1)
print(json.dumps(out))
`
