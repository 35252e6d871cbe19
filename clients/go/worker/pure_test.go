package worker

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTracker: whatever the order of completion, the offset to commit follows the longest prefix
// in which everything is done.
func TestTracker(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		tr := tracker{next: noOffset, committed: -1}
		var marks []*mark
		offset := rnd.Int64N(10)
		added := 0
		for n := rnd.IntN(50); len(marks) < n; offset += 1 + rnd.Int64N(3) {
			marks = append(marks, &mark{offset: offset})
		}
		open := []*mark{}
		for added < len(marks) || len(open) > 0 {
			if added < len(marks) && (len(open) == 0 || rnd.IntN(2) == 0) {
				tr.add(marks[added])
				open = append(open, marks[added])
				added++
				continue
			}
			i := rnd.IntN(len(open))
			tr.finish(open[i])
			open = slices.Delete(open, i, i+1)
			want := int64(-1)
			for _, m := range marks[:added] {
				if !m.done {
					break
				}
				want = m.offset + 1
			}
			if at, ok := tr.commit(); at.Offset != want || ok != (want >= 0) {
				t.Fatalf("commits %v %v, want %d", at, ok, want)
			}
		}
	}
}

// TestBatchesAreBounded: batches are bounded after decompression, and the user's bound comes first.
func TestBatchesAreBounded(t *testing.T) {
	for want, own := range map[int][]kgo.Opt{64 << 20: nil, 1 << 20: {kgo.MaxDecompressBatchBytes(1 << 20)}} {
		o, err := newOptions("print", []Option{Kafka(own...)})
		if err != nil {
			t.Fatal(err)
		}
		cl, err := kgo.NewClient(o.common()...)
		if err != nil {
			t.Fatal(err)
		}
		if got := cl.OptValue(kgo.MaxDecompressBatchBytes); got != want {
			t.Errorf("%v bytes, want %d", got, want)
		}
		cl.Close()
	}
}

// TestMemoryAgainstModel: by the rules of the contract, exactly the last receipts are known.
func TestMemoryAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	type receipt struct {
		id      string
		outcome Outcome
		round   [2]int
	}
	outcomes := []Outcome{
		OutcomeDelivered, OutcomeAccepted, OutcomeFailed, OutcomeRetry, OutcomePostponed, OutcomeSuppressed,
	}
	const limit = 50
	m := newMemory(limit)
	var kept []receipt // those that changed something
	state := func(id string) (round [2]int, final, known bool) {
		for _, r := range kept[max(len(kept)-limit, 0):] {
			if r.id == id {
				round, final, known = r.round, final || r.outcome.final(), true
			}
		}
		return round, final, known
	}
	for range 5000 {
		id := fmt.Sprintf("k-%d", rnd.IntN(80))
		old, wasFinal, known := state(id)
		r := receipt{id, outcomes[rnd.IntN(len(outcomes))], [2]int{1 + rnd.IntN(3), rnd.IntN(2)}}
		if known && slices.Compare(r.round[:], old[:]) < 0 {
			r.round = old
		}
		m.add(id, r.outcome, r.round[0], r.round[1], 0)
		if !known || r.round != old || r.outcome.final() && !wasFinal {
			if wasFinal { // a final outcome stays final while it is known
				r.outcome = OutcomeDelivered
			}
			kept = append(kept, r)
		}
		probe := fmt.Sprintf("k-%d", rnd.IntN(80))
		e := &DueEvent{ID: probe, Attempt: 1 + rnd.IntN(3), Postponed: rnd.IntN(2)}
		want := SkipNot
		if round, final, known := state(probe); known {
			at := []int{e.Attempt, e.Postponed}
			switch {
			case final:
				want = SkipFinal
			case slices.Compare(at, round[:]) <= 0:
				want = SkipAnswered
			}
		}
		if got := m.check(e); got != want {
			t.Fatalf("%s attempt %d.%d: %q, want %q", probe, e.Attempt, e.Postponed, got, want)
		}
	}
	if len(m.known) > limit || len(m.ring) > limit {
		t.Errorf("%d known, %d in the ring", len(m.known), len(m.ring))
	}
}

// TestMemoryOfUnknownOffsets: a receipt whose offset nobody says makes no older one newer.
func TestMemoryOfUnknownOffsets(t *testing.T) {
	m := newMemory(10)
	m.add("a", OutcomeDelivered, 1, 0, 5)
	m.add("a", OutcomeRetry, 2, 0, unknownOffset)
	for attempt, want := range map[int]SkipReason{2: SkipAnswered, 3: SkipNot} {
		if got := m.check(&DueEvent{ID: "a", Attempt: attempt, Basis: "1.5.9.6.0"}); got != want {
			t.Errorf("attempt %d: %q, want %q", attempt, got, want)
		}
	}
	if got := m.check(&DueEvent{ID: "a", Attempt: 3, Basis: "1.5.9.5.0"}); got != SkipFinal {
		t.Errorf("what was decided before: %q", got)
	}
}

// TestMemoryBoundsUnknownOffsets: once a receipt of the same round or a later one has an offset, a
// redrive or a new life that the engine decided after it is handled.
func TestMemoryBoundsUnknownOffsets(t *testing.T) {
	for _, outcome := range []Outcome{OutcomeDelivered, OutcomeRetry} {
		for _, later := range []int{1, 2, 3} {
			m := newMemory(10)
			m.add("a", outcome, 2, 0, unknownOffset)
			m.add("a", OutcomeFailed, later, 0, 7)
			answered, redriven := SkipAnswered, SkipNot
			if outcome.final() {
				answered = SkipFinal
			}
			if later == 1 { // of an earlier attempt, it says nothing about the later one
				redriven = answered
			}
			for basis, want := range map[string]SkipReason{"1.5.9.7.0": answered, "1.5.9.8.0": redriven} {
				if got := m.check(&DueEvent{ID: "a", Attempt: 1, Basis: basis}); got != want {
					t.Errorf("%s, then attempt %d at 7: %s is %q, want %q", outcome, later, basis, got, want)
				}
			}
		}
	}
}

// TestMemoryBound: after a million receipts, the memory uses what 100,000 need.
func TestMemoryBound(t *testing.T) {
	heap := func() uint64 {
		runtime.GC()
		var s runtime.MemStats
		runtime.ReadMemStats(&s)
		return s.HeapAlloc
	}
	before := heap()
	m := newMemory(100_000)
	for i := range 1_000_000 {
		id := fmt.Sprintf("tenant/some-trigger-with-a-long-name-%d@2026-11-20T14:00:00.000Z#0", i)
		m.add(id, OutcomeDelivered, 1, 0, int64(i))
	}
	took := int64(heap()) - int64(before)
	t.Logf("%d bytes a receipt", took/100_000)
	if len(m.known) != 100_000 || took > 12<<20 {
		t.Errorf("%d known in %d bytes", len(m.known), took)
	}
	known := func(i int) bool {
		id := fmt.Sprintf("tenant/some-trigger-with-a-long-name-%d@2026-11-20T14:00:00.000Z#0", i)
		return m.check(&DueEvent{ID: id, Attempt: 1}) == SkipFinal
	}
	if known(899_999) || !known(900_000) || !known(999_999) {
		t.Error("not the last 100,000 are known")
	}
}

// TestSteadyClock: our clock is the system's at the beginning, and goes on with what passes.
func TestSteadyClock(t *testing.T) {
	begin, passed := time.UnixMilli(5000), time.Minute
	now := steady(begin, func() time.Duration { return passed })
	if got := now(); !got.Equal(begin.Add(time.Minute)) {
		t.Errorf("after a minute it is %v", got)
	}
	o, err := newOptions("print", nil)
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Since(o.now()).Abs(); off > time.Minute {
		t.Errorf("a worker's clock is off by %v", off)
	}
}

// TestClock: our clock counts until records contradict it. Then the brokers' clock counts, within
// the bounds of the records.
func TestClock(t *testing.T) {
	begin := time.Unix(1_800_000_000, 0)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	var c clock
	near := func(name string, now time.Time, want, within time.Duration) {
		t.Helper()
		if got := c.ahead(now); (got - want).Abs() > within {
			t.Errorf("%s: %v ahead, want %v", name, got, want)
		}
	}
	near("nothing is known", at(0), 0, 0)
	c.observe(at(-3600), at(0), time.Time{})
	near("a backlog says nothing", at(0), 0, 0)
	c.observe(at(7200), at(1), time.Time{})
	near("a record from our future", at(1), 7199*time.Second, time.Millisecond)
	c.observe(at(7210), at(11), at(10.5))
	near("appended between 10.5 and 11", at(11), 7199*time.Second, 20*time.Millisecond)
	near("an hour later, weakened by 3.6 s", at(3611), 7199*time.Second, 4*time.Second)
	// Our clock is set two hours ahead. It was behind, and now it is right.
	c.observe(at(7400), at(7400.2), at(7399))
	near("after our clock was set", at(7401), 0, time.Second)
	// It is set one hour too far.
	c.observe(at(7500), at(7500+3600.2), at(7499+3600))
	near("after our clock was set too far", at(7500+3601), -time.Hour, 2*time.Second)
}

// TestQueueAgainstModel: whatever the order in which handlers end, each event comes once. Events
// of one key come in order and one at a time, and each group stays within its bound.
func TestQueueAgainstModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for round := range 200 {
		q := newQueue()
		q.groupOf = func(e *DueEvent) string { return e.Tenant }
		q.inFlight = 1 + rnd.IntN(4)
		if round%2 == 0 {
			q.maxWait = 1 + rnd.IntN(4)
		}
		parts := []*partition{newPartition("t", 0, laneNormal), newPartition("t.high", 0, laneHigh)}
		last, busy, groups := map[string]int64{}, map[string]bool{}, map[string]int{}
		var running []*item
		seen, n := 0, int64(0)
		begin := func(it *item, counts bool) {
			key := fmt.Sprint(it.part.lane, string(it.event.RecordKey))
			if busy[key] || it.offset < last[key] {
				t.Fatalf("%s: offset %d after %d", key, it.offset, last[key])
			}
			busy[key], last[key] = true, it.offset
			if groups[it.event.Tenant]++; counts && groups[it.event.Tenant] > q.inFlight {
				t.Fatalf("%d of one group", groups[it.event.Tenant])
			}
			seen++
		}
		end := func(it *item) {
			busy[fmt.Sprint(it.part.lane, string(it.event.RecordKey))] = false
			groups[it.event.Tenant]--
			q.finish(it)
		}
		answerUnhandled := func(it *item) {
			if it.slow { // some of its key before it may wait
				seen++
				q.finish(it)
				return
			}
			if key := fmt.Sprint(it.part.lane, string(it.event.RecordKey)); busy[key] {
				last[key] = max(last[key], it.offset) // shed: the one before it still runs
				seen++
				q.finish(it)
				return
			}
			begin(it, false)
			end(it)
		}
		for n < 200 || len(running)+len(q.overflow) > 0 || q.waiting > 0 {
			for over := q.takeOverflow(); len(over) > 0; over = q.takeOverflow() {
				for _, it := range over {
					answerUnhandled(it)
				}
			}
			for name, g := range q.groups {
				if q.maxWait > 0 && g.running >= q.inFlight && g.waiting > q.maxWait {
					t.Fatalf("%d of group %s wait, want at most %d", g.waiting, name, q.maxWait)
				}
			}
			switch rnd.IntN(4) {
			case 3:
				for _, p := range parts {
					q.shed(p, n-int64(rnd.IntN(20)))
					q.thin(p, n-int64(rnd.IntN(40)))
				}
			case 0:
				if n < 200 {
					key := rnd.IntN(20) // a key belongs to one group, as a trigger has one endpoint
					q.add(&item{mark: mark{offset: n}, polled: n, part: parts[rnd.IntN(2)], event: &DueEvent{
						RecordKey: fmt.Append(nil, key), Tenant: fmt.Sprint(key % 4),
					}})
					n++
				}
			case 1:
				if it := q.next(); it != nil {
					begin(it, true)
					it.started, it.part.running[it] = n+1, struct{}{}
					running = append(running, it)
				}
			default:
				if len(running) > 0 {
					i := rnd.IntN(len(running))
					delete(running[i].part.running, running[i])
					end(running[i])
					running = slices.Delete(running, i, i+1)
				}
			}
		}
		for over := q.takeOverflow(); len(over) > 0; over = q.takeOverflow() {
			for _, it := range over {
				answerUnhandled(it)
			}
		}
		if seen != 200 || len(q.groups)+len(q.tenants) != 0 || len(parts[0].tails)+len(parts[1].tails) != 0 {
			t.Fatalf("%d of 200 came, %d groups and %d keys are left", seen, len(q.groups), len(parts[0].tails))
		}
	}
}

// TestTenantsTakeTurns: a tenant with many groups gets no more handlers than one with a single group.
func TestTenantsTakeTurns(t *testing.T) {
	q := newQueue()
	q.groupOf, q.inFlight = func(e *DueEvent) string { return e.Tenant + string(e.RecordKey[:2]) }, 100
	p := newPartition("t", 0, laneNormal)
	add := func(tenant string, group, n int) {
		q.add(&item{part: p, event: &DueEvent{Tenant: tenant, RecordKey: fmt.Appendf(nil, "%02d %d", group, n)}})
	}
	for i := range 500 {
		add("many", i%50, i)
	}
	for i := range 10 {
		add("one", 0, i)
	}
	got := map[string]int{}
	for range 20 {
		got[q.next().event.Tenant]++
	}
	if got["many"] != 10 || got["one"] != 10 {
		t.Errorf("of 20 handlers: %v", got)
	}
	for range 490 { // none is left over
		q.next()
	}
	if it := q.next(); it != nil || q.waiting != 0 {
		t.Errorf("%v, %d wait", it, q.waiting)
	}
}

// thinned is a queue whose partition has room for nothing more. The event that is added as number n has
// offset n, came at n, and has a record key of its own.
type thinned struct {
	*queue
	p *partition
}

func newThinned() thinned {
	t := thinned{newQueue(), newPartition("t", 0, laneNormal)}
	t.groupOf, t.inFlight = func(e *DueEvent) string { return e.Tenant }, 1000
	return t
}

func (t thinned) addTo(p *partition, tenant string, n int) {
	for range n {
		it := &item{mark: mark{offset: int64(p.records)}, part: p, polled: int64(p.records)}
		it.event = &DueEvent{Tenant: tenant, RecordKey: fmt.Append(nil, p.num, " ", p.records)}
		p.records++
		t.add(it)
	}
}

// out returns how many events of each tenant thin takes out, and the first offset of each.
func (t thinned) out(tt *testing.T, before int64) (n map[string]int, first map[string]int64) {
	tt.Helper()
	t.thin(t.p, before)
	n, first = map[string]int{}, map[string]int64{}
	for _, it := range t.takeOverflow() {
		tenant := it.event.Tenant
		if n[tenant]++; it.part != t.p || !it.slow {
			tt.Errorf("%s, offset %d of partition %d, slow: %v", tenant, it.offset, it.part.num, it.slow)
		}
		if old, ok := first[tenant]; !ok || it.offset < old {
			first[tenant] = it.offset
		}
		t.finish(it)
	}
	return n, first
}

// TestThin: the newest events of the tenants with the most are taken out, those of others stay.
func TestThin(t *testing.T) {
	q := newThinned()
	q.addTo(q.p, "a", 300)
	q.addTo(q.p, "b", 90)
	q.addTo(q.p, "c", 10)
	q.addTo(newPartition("t", 1, laneNormal), "a", 50)
	if out, _ := q.out(t, 0); len(out) != 0 {
		t.Error("none has waited for so long")
	}
	out, first := q.out(t, 400)
	// 100 of 400 stay: 10 of c, and 45 of a and of b.
	if out["a"] != 255 || out["b"] != 45 || len(out) != 2 || q.waiting != 150 {
		t.Errorf("taken out: %v, %d wait", out, q.waiting)
	}
	if first["a"] != 45 || first["b"] != 345 {
		t.Errorf("taken out from offset %v on", first)
	}
}

// TestThinSlowTenantsOnly: a tenant with a few events that wait for long takes nothing from one that has
// many, none of which waits for long.
func TestThinSlowTenantsOnly(t *testing.T) {
	q := newThinned()
	q.addTo(q.p, "old", 10)
	q.addTo(q.p, "fresh", 990)
	if out, _ := q.out(t, 10); len(out) != 0 {
		t.Errorf("taken out: %v", out)
	}
	// Now its own wait for long, too.
	if out, _ := q.out(t, 11); out["fresh"] != 750 || len(out) != 1 {
		t.Errorf("taken out: %v", out)
	}
}

// TestThinManyTenants: however many tenants there are, the oldest event of each stays.
func TestThinManyTenants(t *testing.T) {
	q := newThinned()
	oldest := map[string]int64{}
	for i := range 100 {
		tenant := fmt.Sprint("t-", i)
		oldest[tenant] = int64(q.p.records)
		q.addTo(q.p, tenant, 1+i%3)
	}
	out, first := q.out(t, 1000)
	for i := range 100 {
		tenant := fmt.Sprint("t-", i)
		if out[tenant] != i%3 || out[tenant] > 0 && first[tenant] != oldest[tenant]+1 {
			t.Errorf("%s: %d of %d taken out, from offset %d on; its oldest is %d", tenant, out[tenant], 1+i%3,
				first[tenant], oldest[tenant])
		}
	}
	if q.waiting != 100 {
		t.Errorf("%d wait", q.waiting)
	}
}

// TestThinBehindOneKey: events behind others of their key are taken out like those that are ready, the newest
// first. What stays, and what comes later, is handled in order.
func TestThinBehindOneKey(t *testing.T) {
	q := newThinned()
	add := func(tenant, key string, n int) {
		for range n {
			q.add(&item{
				mark: mark{offset: int64(q.p.records)}, part: q.p, polled: int64(q.p.records),
				event: &DueEvent{Tenant: tenant, RecordKey: []byte(key)},
			})
			q.p.records++
		}
	}
	add("bad", "runs", 201)
	running := q.next()
	q.p.running[running] = struct{}{}
	add("bad", "ready", 199)
	add("good", "own", 1)
	if out, _ := q.out(t, 1); len(out) != 0 {
		t.Errorf("none has waited for so long: %v", out)
	}
	// 100 of 400 stay: those with offsets 1 to 99, and good's.
	out, first := q.out(t, 2)
	if out["bad"] != 300 || len(out) != 1 || first["bad"] != 100 {
		t.Errorf("taken out: %v, from offset %v on", out, first)
	}
	add("bad", "runs", 1)
	delete(q.p.running, running)
	q.finish(running)
	var got []int64
	for it := q.next(); it != nil; it = q.next() {
		if q.finish(it); it.event.Tenant == "bad" {
			got = append(got, it.offset)
		}
	}
	if len(got) != 100 || !slices.IsSorted(got) || got[99] != 401 {
		t.Errorf("handled later: %v", got)
	}
	if len(q.groups)+len(q.tenants)+len(q.p.tails) != 0 || q.waiting != 0 {
		t.Errorf("%d groups, %d keys are left, %d wait", len(q.groups), len(q.p.tails), q.waiting)
	}
}

// TestDecode: Decode fills every field, and keeps the headers that it does not know.
func TestDecode(t *testing.T) {
	r := due{key: "acme/pills", target: "u_81", attempt: 2, postponed: 3, value: "{}"}.record()
	r.Headers = append(r.Headers, []kgo.RecordHeader{
		{Key: "ce_wclocaltime", Value: []byte("2026-11-20T09:00:00[America/New_York]")},
		{Key: "ce_wcuser", Value: []byte("u_81")},
		{Key: "ce_expirytime", Value: []byte("2026-11-20T15:00:00.000Z")},
		{Key: "ce_wcreceiptby", Value: []byte("2026-11-20T15:30:00.000Z")},
		{Key: "ce_wcbasis", Value: []byte("1.2.3.4.5")},
		{Key: "content-type", Value: []byte("application/json")},
		{Key: "traceparent", Value: []byte("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")},
		{Key: "wcx-tags", Value: []byte(`{"type":"medication"}`)},
		{Key: "ce_wcfuture", Value: []byte("new")},
		{Key: "mine", Value: []byte("1")},
		{Key: "content-type", Value: []byte("the user's own")},
	}...)
	e, err := Decode(r)
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%s|%s|%s|%s|%d %d %d %d|%s|%s|%s", e.Key, e.Tenant, e.TriggerID(), e.Occurrence, e.Step,
		e.Attempt, e.Postponed, e.Revision, e.LocalTime, e.User, e.ContentType)
	want := "acme/pills|acme|pills|2026-11-20T14:00:00.000Z|0 2 3 1|2026-11-20T09:00:00[America/New_York]|u_81|" +
		"application/json"
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if e.ReceiptBy.Sub(e.Scheduled) != 90*time.Minute || e.Expires.Sub(e.Scheduled) != time.Hour ||
		e.Fired.Sub(e.Scheduled) != 3*time.Millisecond {
		t.Errorf("times are %v %v %v %v", e.Scheduled, e.Fired, e.Expires, e.ReceiptBy)
	}
	if tags := e.Tags(); len(tags) != 1 || tags["type"] != "medication" {
		t.Errorf("tags are %v", tags)
	}
	names := ""
	for _, h := range e.Headers {
		names += h.Key + " "
	}
	if names != "wcx-tags ce_wcfuture mine content-type " {
		t.Errorf("headers are %s", names)
	}
	if v, ok := e.Header("mine"); !ok || v != "1" {
		t.Errorf("mine is %q", v)
	}
	if _, ok := e.Header("none"); ok {
		t.Error("a header that is not there")
	}
}

// FuzzDecode: no record causes a panic, and every accepted event can be answered.
func FuzzDecode(f *testing.F) {
	f.Add("k", "k@2026-11-20T14:00:00.000Z#0", "1", "2026-11-20T14:00:00Z", "a", "b")
	f.Add("t/k@#", "t/k@#@x#1", "9", "2026-11-20T14:00:00Z", "ce_wcstep", "7")
	f.Fuzz(func(t *testing.T, subject, id, attempt, at, name, value string) {
		r := &kgo.Record{Key: []byte(subject), Headers: []kgo.RecordHeader{
			{Key: "ce_type", Value: []byte(DueType)},
			{Key: "ce_subject", Value: []byte(subject)},
			{Key: "ce_id", Value: []byte(id)},
			{Key: "ce_wcattempt", Value: []byte(attempt)},
			{Key: "ce_time", Value: []byte(at)},
			{Key: name, Value: []byte(value)},
		}}
		e, err := Decode(r)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error has raw text: %q", err)
			}
			return
		}
		receipt := e.Receipt("print", Fail(value, name), time.Unix(1, 0))
		back, ok := newReceiptReader("print").read([]byte(e.Key), receipt.Append(nil))
		if !json.Valid(receipt.Append(nil)) {
			t.Errorf("receipt %s", receipt.Append(nil))
		}
		if plain := strings.ToValidUTF8(id, "") == id; plain && (!ok || back.DueID != id || back.Attempt != e.Attempt) {
			t.Errorf("%s comes back as %v %v", receipt.Append(nil), back, ok)
		}
	})
}

// FuzzReceipts: reading the receipts topic is safe, whatever its records are.
func FuzzReceipts(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"due_id":"k@x#0","channel":"print","outcome":"delivered","attempt":1}`))
	f.Add([]byte("k"), []byte(`{"due_id":"k@x#0","attempt":-1}`))
	f.Fuzz(func(t *testing.T, key, value []byte) {
		r, ok := newReceiptReader("print").read(key, value)
		if ok && (!strings.HasPrefix(r.DueID, string(key)+"@") || r.Attempt < 0 || r.Postponed < 0) {
			t.Errorf("%v", r)
		}
		m := newMemory(1)
		m.add(r.DueID, r.Outcome, r.Attempt, r.Postponed, 0)
	})
}

// TestReceiptReader: it accepts receipts of this channel, and receipts without a channel.
func TestReceiptReader(t *testing.T) {
	for value, want := range map[string]bool{
		`{"due_id":"k@x#0","channel":"print","outcome":"delivered"}`:           true,
		`{"due_id":"k@x#0", "channel" : "print","outcome":"delivered"}`:        true,
		`{"due_id":"k@x#0","outcome":"delivered"}`:                             true,
		`{"due_id":"k@x#0","channel":"sms","outcome":"delivered"}`:             false,
		`{"due_id":"k@x#0","channel":"sms","outcome":"failed","code":"print"}`: false,
		`{"due_id":"other@x#0","channel":"print","outcome":"failed"}`:          false,
		`{"due_id":"k"}`: false, `{`: false, `[]`: false, ``: false,
	} {
		if _, ok := newReceiptReader("print").read([]byte("k"), []byte(value)); ok != want {
			t.Errorf("%s: %v, want %v", value, ok, want)
		}
	}
}

// TestReceiptBounds: texts that are too long are cut at a character boundary.
func TestReceiptBounds(t *testing.T) {
	e := &DueEvent{ID: "k@x#0", Key: "k", Attempt: 1}
	r := e.Receipt("print", Fail(strings.Repeat("ä", 100), strings.Repeat("€", 1000)), time.Time{})
	if len(r.Code) != 128 || len(r.Detail) != 1023 {
		t.Errorf("%d and %d bytes", len(r.Code), len(r.Detail))
	}
	if r := e.Receipt("print", Retry(365*24*time.Hour), time.Time{}); r.RetryAfter != maxRetryAfter {
		t.Errorf("retry after %v", r.RetryAfter)
	}
	r = e.Receipt("print", Retry(time.Nanosecond), time.Time{})
	if got := string(r.Append(nil)); !strings.Contains(got, `"retry_after":"1ms"`) {
		t.Errorf("%s: 0 would mean the profile", got)
	}
}

// If there is a lane for priority high, a full partition stops polling only for as long as its
// events may wait.
func TestPauseAfter(t *testing.T) {
	w := &worker{parts: map[topicPartition]*partition{}}
	add := func(topic string, lane int) {
		w.parts[topicPartition{topic, 0}] = newPartition(topic, 0, lane)
	}
	add("due", laneNormal)
	if got := w.pauseAfter(); got != pauseAfter {
		t.Errorf("with one lane it is %v, want %v", got, pauseAfter)
	}
	add("due.high", laneHigh)
	if got := w.pauseAfter(); got != pauseAfterHigh {
		t.Errorf("with a lane for priority high it is %v, want %v", got, pauseAfterHigh)
	}
}
