package pipeline_test

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// BenchmarkReplan puts release 2025c of the tz database in the place of 2023c
// under many recurring triggers, while one-shots go on firing, and reports how
// long it took, the CPU time of the whole process (broker and readers
// included), and how late the one-shots were. It takes minutes:
//
//	WATERCLOCK_BENCH_TRIGGERS=1000000 go test ./pipeline -run '^$' -bench Replan -benchtime 1x -timeout 30m
//
// zones=all: spread over 16 zones, of which one has other rules. zones=moved:
// all in that one, and every trigger moves.
func BenchmarkReplan(b *testing.B) {
	all := []string{
		"Asia/Almaty", "America/New_York", "Europe/Berlin", "Asia/Tokyo", "UTC", "Europe/London",
		"Asia/Kolkata", "America/Sao_Paulo",
		"Australia/Sydney", "Africa/Cairo", "America/Chicago", "Europe/Paris", "Asia/Shanghai", "America/Santiago",
		"Africa/Lagos", "Pacific/Auckland",
	}
	for _, c := range []struct {
		name  string
		zones []string
	}{{"all", all}, {"moved", all[:1]}} {
		b.Run("zones="+c.name, func(b *testing.B) {
			for b.Loop() {
				replanOnce(b, c.zones)
			}
		})
	}
}

func replanOnce(b *testing.B, zones []string) {
	n, err := strconv.Atoi(os.Getenv("WATERCLOCK_BENCH_TRIGGERS"))
	if err != nil {
		n = 20_000
	}
	old, err := os.ReadFile("../calendar/testdata/zoneinfo-2023c.zip")
	if err != nil {
		b.Fatal(err)
	}
	w := pipelinetest.New(b, pipelinetest.Options{Partitions: 4, Channels: []string{"orders"}, Quiet: true})
	node := w.Start("a")
	w.AwaitOwners()
	w.Release("2023c", old)
	w.Eventually("2023c is in force", applied(node, 1))
	for at := 0; at < n; at += 50_000 {
		w.SendAll(min(50_000, n-at), func(i int) (key, body string) {
			i += at
			return fmt.Sprintf("series-%07d", i),
				fmt.Sprintf(`{"op":"register","recurrence":"%s","start":"2030-01-01T%02d:%02d","timezone":%q,"payload":"%064d"}`,
					[]string{
						"FREQ=DAILY", "FREQ=WEEKLY;BYDAY=MO,WE", "FREQ=MONTHLY;BYMONTHDAY=-1",
						"cron:30 9 * * 1-5",
					}[i%4], i%24, i%60, zones[i%len(zones)], i)
		})
	}
	for pending(node) < int64(n) {
		time.Sleep(100 * time.Millisecond)
	}
	stop := fire(b, w)
	time.Sleep(3 * time.Second)
	quiet := stop()
	b.ResetTimer()
	stop = fire(b, w)
	cpu, begin := cpuSeconds(), time.Now()
	w.Setting([]byte("tzdata"), nil, nil)
	for !applied(node, 2)() {
		time.Sleep(10 * time.Millisecond)
	}
	took, used := time.Since(begin), cpuSeconds()-cpu
	late := stop()
	b.ReportMetric(float64(n), "triggers")
	b.ReportMetric(took.Seconds(), "replan-s")
	b.ReportMetric(used, "cpu-s")
	b.ReportMetric(1e6*used/float64(n), "cpu-µs/trigger")
	b.ReportMetric(ms(late, 50), "late-p50-ms")
	b.ReportMetric(ms(late, 99), "late-p99-ms")
	b.ReportMetric(ms(quiet, 50), "before-p50-ms")
	b.ReportMetric(ms(quiet, 99), "before-p99-ms")
	_ = w.Stop("a")
}

func pending(n *pipelinetest.Node) (all int64) {
	for _, s := range n.Partitions() {
		all += s.Pending
	}
	return all
}

// fire registers 200 one-shots a second, each due half a second later, until
// it is told to stop; then it returns how late their due events were appended.
func fire(b *testing.B, w *pipelinetest.World) (stop func() []time.Duration) {
	var done atomic.Bool
	sent := make(chan int)
	run := time.Now().UnixNano()
	tail := w.Tail(w.Names.Due("orders"))
	go func() {
		n := 0
		for ; !done.Load(); n++ {
			at := time.Now().Add(500 * time.Millisecond)
			w.Send(fmt.Sprintf("once-%d-%d", run, n), fmt.Sprintf(`{"op":"register","channel":"orders","fire_at":%q}`,
				at.UTC().Format(time.RFC3339Nano)))
			time.Sleep(5 * time.Millisecond)
		}
		sent <- n
	}()
	return func() (late []time.Duration) {
		done.Store(true)
		n := <-sent
		prefix := fmt.Sprintf("once-%d-", run)
		for len(late) < n {
			r := tail.Next()
			if at, err := time.Parse(time.RFC3339, pipelinetest.Header(r, "ce_time")); err == nil &&
				string(r.Key[:len(prefix)]) == prefix {
				late = append(late, r.Timestamp.Sub(at))
			}
		}
		slices.Sort(late)
		return late
	}
}

func ms(sorted []time.Duration, percent int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return float64(sorted[(len(sorted)-1)*percent/100].Microseconds()) / 1000
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
