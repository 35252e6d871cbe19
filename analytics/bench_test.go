package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/topics"
)

// lives are events as an engine writes them: each trigger is registered with a payload,
// fires, and is delivered. Many live at a time.
func lives(p int32, n int) [][]byte {
	dice := rand.New(rand.NewPCG(uint64(p), 7))
	us := time.Date(2026, 11, 24, 8, 0, 0, 0, time.UTC).UnixMicro()
	text := func(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
	var out [][]byte
	type life struct {
		key, user string
		due       int64
		stage     int
	}
	var living []life
	zero, late := 0, int64(0)
	for len(out) < n {
		us += 40 + dice.Int64N(200)
		at := us / 1000
		e := topics.Event{
			EventID: fmt.Sprintf("%d-%d", p, us), Version: 1, Tenant: "default", Revision: 1, OccurredAt: text(at),
			EventUS: us, Channel: "push",
		}
		if len(living) < 5000 || dice.IntN(3) == 0 {
			l := life{
				key: fmt.Sprintf("order-%016x", dice.Uint64()), user: "user-" + strconv.Itoa(dice.IntN(100_000)),
				due: at + 600_000,
			}
			living = append(living, l)
			e.Type, e.Trigger, e.UserID, e.State, e.Seq = "trigger.registered", l.key, l.user, "PENDING", 1
			e.ScheduledAt, e.Occurrence = text(l.due), text(l.due)
			e.Source = fmt.Sprintf("waterclock.commands/%d/%d", p, len(out))
			e.Payload = json.RawMessage(`{"title":"Your order is on its way","order":"` + l.key + `","items":3}`)
			e.Tags = map[string]string{"team": "seats"}
		} else {
			i := dice.IntN(len(living))
			l := &living[i]
			e.Trigger, e.UserID, e.Occurrence, e.FirstFired = l.key, l.user, text(l.due), text(at)
			e.Attempt, e.Step, e.Seq = 1, &zero, int64(2+l.stage)
			if l.stage == 0 {
				late = dice.Int64N(12)
				e.Type, e.State, e.PreviousState, e.LatenessMS = "occurrence.fired", "IN_FLIGHT", "PENDING", &late
				e.ScheduledAt, e.DueTopic, e.DuePartition = text(l.due), "waterclock.due.push", &p
				l.stage++
			} else {
				e.Type, e.State, e.PreviousState = "delivery.delivered", "FIRED", "IN_FLIGHT"
				e.Source = fmt.Sprintf("waterclock.receipts/%d/%d", p, len(out))
				living[i] = living[len(living)-1]
				living = living[:len(living)-1]
			}
		}
		value, err := json.Marshal(&e)
		if err != nil {
			panic(err)
		}
		out = append(out, value)
	}
	return out
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
