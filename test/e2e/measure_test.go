//go:build soak

package e2e

import (
	"bytes"
	"context"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// The tests of measure_*_test.go measure how long firing pauses, and assert
// only that nothing is lost. bench/README.md has the method; with
// WATERCLOCK_BENCH_OUT=<directory> each leaves its figures there.

// pendingCount is how many triggers wait while something goes wrong.
func pendingCount() int {
	if n, err := strconv.Atoi(os.Getenv("WATERCLOCK_BENCH_PENDING")); err == nil {
		return n
	}
	return 1_000_000
}

// partitionCount is how many partitions there are, where a test lets one choose.
func partitionCount(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("WATERCLOCK_BENCH_PARTITIONS")); err == nil {
		return n
	}
	return usual
}

// report writes figures as JSON, to the log and where they are kept.
func report(t *testing.T, name string, figures map[string]any) {
	t.Helper()
	figures["measure"], figures["cpus"], figures["go"] = name, runtime.NumCPU(), runtime.Version()
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		figures["machine_load"] = strings.Fields(string(b))[0]
	}
	b, err := json.MarshalIndent(figures, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", b)
	if dir := os.Getenv("WATERCLOCK_BENCH_OUT"); dir != "" {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, time.Now().UTC().Format(time.DateOnly)+"-"+name+".json")
		if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// sizeOf is how many bytes the files of a directory have.
func sizeOf(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // compaction may have removed it
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return bytes
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// dropDecided lets the brokers drop commands that were decided, and events, so that tens of millions fit on a
// disk. fill stays less than that ahead of the engine. What it returns puts the settings back, without which no
// engine starts.
func dropDecided(t *testing.T, brokers []string, prefix string) (keep func()) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	topics := []string{prefix + "commands", prefix + "events"}
	names := []string{"cleanup.policy", "retention.bytes", "segment.bytes"}
	before, err := kadm.NewClient(cl).DescribeTopicConfigs(t.Context(), topics...)
	if err != nil {
		t.Fatal(err)
	}
	alter := func(topic string, value func(name string) string) {
		var changes []kadm.AlterConfig
		for _, name := range names {
			changes = append(changes, kadm.AlterConfig{Name: name, Value: kadm.StringPtr(value(name))})
		}
		all, err := kadm.NewClient(cl).AlterTopicConfigs(t.Context(), changes, topic)
		if err == nil {
			_, err = all.On(topic, func(r *kadm.AlterConfigsResponse) error { return r.Err })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dropping := map[string]string{
		"cleanup.policy": "delete", "retention.bytes": strconv.Itoa(32 << 20), "segment.bytes": strconv.Itoa(8 << 20),
	}
	for _, topic := range topics {
		alter(topic, func(name string) string { return dropping[name] })
	}
	return func() {
		for _, topic := range topics {
			was, err := before.On(topic, nil)
			if err != nil {
				t.Fatal(err)
			}
			alter(topic, func(name string) string {
				i := slices.IndexFunc(was.Configs, func(c kadm.Config) bool { return c.Key == name })
				return was.Configs[i].MaybeValue()
			})
		}
	}
}

// mostAhead is how many registers fill sends that are not decided yet.
const mostAhead = 1_000_000

// fill registers triggers due in hours, with payloads of 200 B that do not
// compress, and waits until an engine has decided all.
func fill(t *testing.T, brokers []string, prefix string, n int, ask *process) {
	t.Helper()
	fillWith(t, brokers, prefix, n, ask, time.Now().Add(6*time.Hour), time.Millisecond)
}

// fillAt is fill with one due time for all.
func fillAt(t *testing.T, brokers []string, prefix string, n int, ask *process, at time.Time) {
	t.Helper()
	fillWith(t, brokers, prefix, n, ask, at, 0)
}

// fillWith registers triggers that are due one after the other.
func fillWith(t *testing.T, brokers []string, prefix string, n int, ask *process, first time.Time,
	apart time.Duration,
) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(prefix+"commands"),
		kgo.ProducerLinger(5*time.Millisecond),
		kgo.MaxBufferedRecords(100_000), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	at := first.UnixMilli()
	decided := 0
	for i := range n {
		for i-decided >= mostAhead {
			if decided, _ = statusOf(ask); i-decided >= mostAhead {
				time.Sleep(200 * time.Millisecond)
			}
		}
		payload := make([]byte, 200)
		_, _ = crand.Read(payload)
		cl.Produce(t.Context(), &kgo.Record{
			Key: fmt.Appendf(nil, "pending-%d", i), Value: payload,
			Headers: []kgo.RecordHeader{{
				Key: "wc-fire-at", Value: strconv.AppendInt(nil, at+int64(i)*apart.Milliseconds(), 10),
			}},
		}, func(_ *kgo.Record, err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	if err := cl.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10*time.Minute + time.Duration(n)*200*time.Microsecond); time.Now().
		Before(deadline); time.Sleep(200 * time.Millisecond) {
		if pending, _ := statusOf(ask); pending >= n {
			return
		}
	}
	t.Fatal("the engines never caught up")
}

// statusOf is how many triggers are pending, and the partitions, as one node
// answers.
func statusOf(p *process) (pending int, items []partitionLine) {
	resp, err := http.Get("http://" + p.http + "/v1/partitions")
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	var body struct{ Items []partitionLine }
	if json.NewDecoder(resp.Body).Decode(&body) != nil {
		return 0, nil
	}
	for _, i := range body.Items {
		pending += i.Pending
	}
	return pending, body.Items
}

type partitionLine struct {
	Partition int32
	Owner     string
	Pending   int
	Ready     bool
	Standbys  []struct {
		Node string
		Lag  int
		Warm bool
	}
}

// awaitWarm waits until every partition has n warm standbys.
func awaitWarm(t *testing.T, p *process, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		_, items := statusOf(p)
		right := len(items) > 0
		for _, i := range items {
			warm := 0
			for _, s := range i.Standbys {
				if s.Warm && s.Lag < 1000 {
					warm++
				}
			}
			right = right && warm >= n
		}
		if right {
			return
		}
	}
	t.Fatalf("not every partition has %d warm standbys", n)
}

// pulse registers triggers a second ahead at a steady rate, evenly over the
// partitions, and notes when their due records were appended.
type pulse struct {
	t      *testing.T
	cancel context.CancelFunc
	done   sync.WaitGroup
	cl     *kgo.Client
	run    string // begins the keys
	sent   int
	busy   int32 // if not 0, keys are of that many partitions,
	of     int32 // of so many

	mu    sync.Mutex
	fired []firing
}

// firing is one due record: its partition, when it was due, and when the
// broker appended it.
type firing struct {
	partition int32
	due, at   time.Time
}

func startPulse(t *testing.T, brokers []string, prefix string, perSecond int) *pulse {
	t.Helper()
	return startPulseOf(t, brokers, prefix, "", perSecond)
}

// startPulseOf is startPulse of the triggers of a tenant.
func startPulseOf(t *testing.T, brokers []string, prefix, tenant string, perSecond int) *pulse {
	t.Helper()
	return startPulseWith(t, brokers, prefix, perSecond, &pulse{run: path.Join(tenant, newName("p"))})
}

// startPulseOn is startPulse on the first of the partitions.
func startPulseOn(t *testing.T, brokers []string, prefix string, perSecond, busy, partitions int) *pulse {
	t.Helper()
	return startPulseWith(t, brokers, prefix, perSecond,
		&pulse{run: newName("p"), busy: int32(busy), of: int32(partitions)})
}

func startPulseWith(t *testing.T, brokers []string, prefix string, perSecond int, p *pulse) *pulse {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.DefaultProduceTopic(prefix+"commands"),
		kgo.ConsumeTopics(prefix+"due.default"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(200*time.Millisecond), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.t, p.cancel, p.cl = t, cancel, cl
	rctx, stopReading := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() { p.read(rctx) })
	p.done.Go(func() { p.write(ctx, perSecond) })
	t.Cleanup(func() { cancel(); p.done.Wait(); stopReading(); reading.Wait(); cl.Close() })
	return p
}

func (p *pulse) write(ctx context.Context, perSecond int) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	begin := time.Now()
	for ctx.Err() == nil {
		<-tick.C
		for want := int(time.Since(begin).Seconds() * float64(perSecond)); p.sent < want; p.sent++ {
			payload := make([]byte, 200)
			_, _ = crand.Read(payload)
			p.cl.Produce(context.Background(), &kgo.Record{
				Key: p.key(), Value: payload,
				Headers: []kgo.RecordHeader{{
					Key:   "wc-fire-at",
					Value: strconv.AppendInt(nil, time.Now().Add(time.Second).UnixMilli(), 10),
				}},
			}, nil)
		}
	}
	_ = p.cl.Flush(context.Background())
}

// key is the key of the next trigger.
func (p *pulse) key() []byte {
	key := fmt.Appendf(nil, "%s-%d", p.run, p.sent)
	for i := 0; p.busy > 0 && topics.Partition(key, p.of) >= p.busy; i++ {
		key = fmt.Appendf(key[:0], "%s-%d-%d", p.run, p.sent, i)
	}
	return key
}

func (p *pulse) read(ctx context.Context) {
	for ctx.Err() == nil {
		fs := p.cl.PollFetches(ctx)
		p.mu.Lock()
		fs.EachRecord(func(r *kgo.Record) {
			d, err := topics.DecodeDue(&topics.Record{Key: r.Key, Value: r.Value, Headers: headers(r)})
			if err != nil {
				p.t.Error(err)
				return
			}
			if !strings.HasPrefix(string(r.Key), p.run+"-") {
				return // somebody else's
			}
			p.fired = append(p.fired, firing{r.Partition, d.Fire.Nominal.Time(), r.Timestamp})
		})
		p.mu.Unlock()
	}
}

// stop ends the load and waits until everything sent has fired.
func (p *pulse) stop() []firing {
	p.t.Helper()
	p.cancel()
	p.done.Wait()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		p.mu.Lock()
		n := len(p.fired)
		p.mu.Unlock()
		if n >= p.sent {
			break
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.fired) != p.sent {
		p.t.Errorf("%d sent, %d fired", p.sent, len(p.fired))
	}
	return p.fired
}

// lateOf is the distribution of append time minus due time, in milliseconds.
func lateOf(fired []firing) map[string]any {
	late := make([]float64, len(fired))
	for i, f := range fired {
		late[i] = float64(f.at.Sub(f.due).Milliseconds())
	}
	slices.Sort(late)
	if len(late) == 0 {
		return nil
	}
	at := func(q float64) float64 { return late[int(q*float64(len(late)-1))] }
	return map[string]any{"p50": at(.5), "p99": at(.99), "p999": at(.999), "max": at(1), "n": len(late)}
}

// firstAfter is, for each partition, when its first due record was appended
// after a moment.
func firstAfter(fired []firing, moment time.Time) map[int32]time.Time {
	first := map[int32]time.Time{}
	for _, f := range fired {
		if f.at.After(moment) && (first[f.partition].IsZero() || f.at.Before(first[f.partition])) {
			first[f.partition] = f.at
		}
	}
	return first
}

// pauses is, for each partition, the longest time without a due record that
// begins or goes on after a moment.
func pauses(fired []firing, after time.Time) map[int32]time.Duration {
	by := map[int32][]time.Time{}
	for _, f := range fired {
		by[f.partition] = append(by[f.partition], f.at)
	}
	out := map[int32]time.Duration{}
	for p, list := range by {
		slices.SortFunc(list, time.Time.Compare)
		for i := 1; i < len(list); i++ {
			if list[i].After(after) {
				out[p] = max(out[p], list[i].Sub(list[i-1]))
			}
		}
	}
	return out
}

// noticed is when a group first was not stable after a moment.
func noticed(t *testing.T, brokers []string, group string) func() time.Time {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	seen := make(chan time.Time, 1)
	go func() {
		defer cl.Close()
		defer close(seen)
		for adm := kadm.NewClient(cl); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			if g, err := adm.DescribeGroups(ctx, group); err == nil && g[group].State != "Stable" {
				seen <- time.Now()
				return
			}
		}
	}()
	return func() time.Time { defer cancel(); return <-seen }
}

// cpuSeconds is what a process has used.
func cpuSeconds(p *process) float64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	user, _ := strconv.ParseFloat(string(f[11]), 64)
	system, _ := strconv.ParseFloat(string(f[12]), 64)
	return (user + system) / 100
}

// metric is the sum of a metric's series, and their largest.
func metric(p *process, name string) (sum, most float64) {
	resp, err := http.Get("http://" + p.http + "/metrics")
	if err != nil {
		return 0, 0
	}
	defer resp.Body.Close()
	var buf bytes.Buffer
	_, _ = buf.ReadFrom(resp.Body)
	for line := range strings.Lines(buf.String()) {
		if rest, ok := strings.CutPrefix(line, name); ok && (rest[0] == '{' || rest[0] == ' ') {
			v, _ := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndexByte(rest, ' '):]), 64)
			sum, most = sum+v, max(most, v)
		}
	}
	return sum, most
}
