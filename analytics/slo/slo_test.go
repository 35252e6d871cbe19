package slo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/analytics"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/test/services"
	"github.com/waterclock/waterclock/topics"
)

const topic = "waterclock.events"

var noon = time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)

// lake is an export of events that a test writes.
type lake struct {
	t    *testing.T
	dir  string
	cl   *kgo.Client
	next int64 // event_us
	all  []*kgo.Record
}

func newLake(t *testing.T, partitions int32) *lake {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	cl, err := kgo.NewClient(append(analytics.ClientOptions(), kgo.SeedBrokers(c.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &lake{t: t, dir: filepath.Join(t.TempDir(), "lake"), cl: cl}
}

// add writes an event that happened at an instant, or just after the event before it.
func (l *lake) add(p int32, at time.Time, e topics.Event) {
	l.next = max(l.next+1, at.UnixMicro())
	e.EventID, e.EventUS, e.Version = topics.EventID(p, l.next), l.next, 1
	e.OccurredAt = text(at)
	b, err := json.Marshal(e)
	if err != nil {
		l.t.Fatal(err)
	}
	l.all = append(l.all, &kgo.Record{Topic: topic, Partition: p, Value: b})
}

func (l *lake) export(span int64) *analytics.Reader {
	l.t.Helper()
	if err := l.cl.ProduceSync(l.t.Context(), l.all...).FirstErr(); err != nil {
		l.t.Fatal(err)
	}
	l.all = nil
	_, err := analytics.New(analytics.Options{Client: l.cl, Topic: topic, Dir: l.dir, Span: span}).Export(l.t.Context())
	if err != nil {
		l.t.Fatal(err)
	}
	r, err := analytics.Open(l.dir)
	if err != nil || r == nil {
		l.t.Fatal(r, err)
	}
	return r
}

func text(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

func fired(key string, due time.Time, late time.Duration) topics.Event {
	ms, step := late.Milliseconds(), 0
	return topics.Event{
		Type: "occurrence.fired", Trigger: key, Tenant: "default", Channel: "push", ScheduledAt: text(due),
		Occurrence: text(due), Step: &step, Attempt: 1, LatenessMS: &ms, FirstFired: text(due.Add(late)),
	}
}

func options() Options {
	return Options{
		Objective: Objective{Thousandths: 99_000, Within: time.Second}, From: noon.Add(-24 * time.Hour), Until: noon,
	}
}

// What counts, and what does not.
func TestWhatCounts(t *testing.T) {
	opens := noon.Add(-24 * time.Hour)
	for _, c := range []struct {
		name   string
		change func(*topics.Event)
		want   [5]int64 // fires, late, expired, misfired, dead-lettered
	}{
		{"on time", func(*topics.Event) {}, [5]int64{1, 0, 0, 0, 0}},
		{"at the objective", func(e *topics.Event) { *e.LatenessMS = 1000 }, [5]int64{1, 0, 0, 0, 0}},
		{"late", func(e *topics.Event) { *e.LatenessMS = 1001 }, [5]int64{1, 1, 0, 0, 0}},
		{"the first of the window", func(e *topics.Event) { e.ScheduledAt = text(opens) }, [5]int64{1}},
		{"before the window", func(e *topics.Event) { e.ScheduledAt = text(opens.Add(-1e6)) }, [5]int64{}},
		{"after the window", func(e *topics.Event) { e.ScheduledAt = text(noon) }, [5]int64{}},
		{"a retry", func(e *topics.Event) { e.Attempt = 2 }, [5]int64{}},
		{"a further step", func(e *topics.Event) {
			*e.Step, e.FirstFired = 1, text(noon.Add(-2*time.Hour))
		}, [5]int64{}},
		{"a further step that is the first to go out", func(e *topics.Event) {
			*e.Step, e.ScheduledAt = 1, text(noon.Add(-80*time.Minute))
		}, [5]int64{1, 1, 0, 0, 0}},
		{"postponed", func(e *topics.Event) { e.FirstFired = text(noon.Add(-2 * time.Hour)) }, [5]int64{}},
		{"run_now", func(e *topics.Event) { e.Occurrence = "run-0-7" }, [5]int64{}},
		{"snoozed", func(e *topics.Event) { e.Occurrence = "snz-0-7" }, [5]int64{}},
		{"expired", func(e *topics.Event) {
			e.Type, e.Step, e.Attempt, e.FirstFired = "occurrence.expired", nil, 0, ""
		}, [5]int64{0, 0, 1, 0, 0}},
		{"skipped by its misfire policy", func(e *topics.Event) { // its occurrence.misfired counts
			e.Type, e.Step, e.Attempt, e.FirstFired, e.Reason = "occurrence.expired", nil, 0, "", "misfire"
		}, [5]int64{0, 0, 0, 0, 0}},
		{"expired once more, after a redrive", func(e *topics.Event) {
			e.Type, e.Attempt, e.FirstFired = "occurrence.expired", 2, ""
		}, [5]int64{}},
		{"expired after it went out", func(e *topics.Event) { e.Type = "occurrence.expired" }, [5]int64{}},
		{"misfired", func(e *topics.Event) {
			*e = topics.Event{
				Type: "occurrence.misfired", Trigger: "k", Tenant: "default", Count: 4,
				First: text(noon.Add(-time.Hour)),
			}
		}, [5]int64{0, 0, 0, 4, 0}},
		{"dead-lettered", func(e *topics.Event) { e.Type = "delivery.dead_lettered" }, [5]int64{0, 0, 0, 0, 1}},
		{"dead-lettered before it went out", func(e *topics.Event) {
			e.Type, e.FirstFired = "delivery.dead_lettered", ""
		}, [5]int64{0, 0, 1, 0, 1}},
		{"once more, after a redrive", func(e *topics.Event) {
			e.Type, e.FirstFired, e.Attempt = "delivery.dead_lettered", "", 2
		}, [5]int64{0, 0, 0, 0, 1}},
		{"a further step that never went out", func(e *topics.Event) {
			e.Type, e.FirstFired, *e.Step = "delivery.dead_lettered", "", 1
		}, [5]int64{0, 0, 1, 0, 1}},
		{"a further step after one that went out", func(e *topics.Event) {
			e.Type, *e.Step = "delivery.dead_lettered", 1
		}, [5]int64{0, 0, 0, 0, 1}},
		{"expired at a further step, and never out", func(e *topics.Event) {
			e.Type, e.FirstFired, *e.Step = "occurrence.expired", "", 1
		}, [5]int64{0, 0, 1, 0, 0}},
		{"delivered", func(e *topics.Event) { e.Type = "delivery.delivered" }, [5]int64{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			due := noon.Add(-time.Hour)
			e := fired("k", due, 5*time.Millisecond)
			c.change(&e)
			l := newLake(t, 1)
			l.add(0, due.Add(5*time.Millisecond), e)
			r, err := Read(t.Context(), l.export(8), options())
			if err != nil {
				t.Fatal(err)
			}
			got := [5]int64{r.Total.Fires, r.Total.Late, r.Total.Expired, r.Total.Misfired, r.Total.DeadLettered}
			if got != c.want {
				t.Errorf("fires, late, expired, misfired, dead-lettered: %v, want %v", got, c.want)
			}
		})
	}
}

// The budget is what may be late, and the burn rate how fast it goes.
func TestBudget(t *testing.T) {
	l := newLake(t, 1)
	for i := range 1000 { // 0.4 % late, all in the last hour
		due, late := noon.Add(-20*time.Hour), time.Millisecond
		if i >= 900 {
			due = noon.Add(-30 * time.Minute)
		}
		if i >= 997 {
			late = 2 * time.Second
		}
		if i == 999 {
			e := fired("k", due, 0)
			e.Type, e.Step, e.Attempt, e.FirstFired, e.LatenessMS = "occurrence.expired", nil, 0, "", nil
			l.add(0, due.Add(time.Minute), e)
		}
		l.add(0, due.Add(late), fired("k", due, late))
	}
	r, err := Read(t.Context(), l.export(256), options())
	if err != nil {
		t.Fatal(err)
	}
	b := r.Budget
	if fmt.Sprintf("%.2f %d %.2f %v", b.Allowed, b.Spent, b.LeftPercent, b.Met) != "10.01 4 60.04 true" {
		t.Errorf("the budget is %+v", b)
	}
	want := `[1h 101 4 3.96] [6h 101 4 3.96] [24h 1001 4 0.40]`
	var got []string
	for _, w := range r.Burn {
		got = append(got, fmt.Sprintf("[%s %d %d %.2f]", w.Window, w.Due, w.Bad, w.Rate))
	}
	if strings.Join(got, " ") != want {
		t.Errorf("it burns %v, want %s", got, want)
	}
	o := options()
	o.Objective.Thousandths = 99_900
	if r, err = Read(t.Context(), l.export(256), o); err != nil || r.Budget.Met {
		t.Errorf("99.9 %% is met with 4 of 1001: %+v, %v", r.Budget, err)
	}
}

// What its due topic refused until it was a dead letter never went out, so it was not on time.
func TestNeverWentOut(t *testing.T) {
	l, due := newLake(t, 1), noon.Add(-30*time.Minute)
	l.add(0, due, fired("k", due, 0))
	e := fired("q", due, 0)
	e.Type, e.FirstFired, e.LatenessMS = "delivery.dead_lettered", "", nil
	l.add(0, due.Add(20*time.Minute), e)
	r, err := Read(t.Context(), l.export(256), options())
	if err != nil {
		t.Fatal(err)
	}
	if r.Total.OnTime != 50 || r.Budget.Verdict != "missed" ||
		r.Burn[0] != (Burn{Window: "1h", Due: 2, Bad: 1, Rate: 50}) {
		t.Errorf("on time %v, %+v, %+v", r.Total.OnTime, r.Budget, r.Burn)
	}
}

// A tenant above the bound shares a line, and nothing is lost.
func TestManyTenants(t *testing.T) {
	l := newLake(t, 1)
	for i := range 20 {
		due, late := noon.Add(-time.Hour), time.Duration(i)*time.Hour
		e := fired("k", due, late)
		e.Tenant = fmt.Sprintf("tenant-%02d", i)
		l.add(0, due.Add(late), e)
	}
	o := options()
	o.MaxTenants = 5
	r, err := Read(t.Context(), l.export(8), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tenants) != 6 || r.Tenants[0].Name != others || r.Tenants[0].Fires != 15 {
		t.Errorf("tenants: %+v", r.Tenants)
	}
	if p := r.Tenants[0].Percentiles[0]; p.MS == nil || *p.MS != 12*3_600_000 {
		t.Errorf("half of the others were at most %s late", MS(p.MS))
	}
}

const sloProgram = `
import json, math, os, sys
import duckdb
d, objective, frm, until = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
con = duckdb.connect()
con.execute("set enable_progress_bar = false") # it is printed after two seconds
con.execute(open(os.path.join(d, "views.sql")).read())
rows = con.execute("""
  with e as (select *, last_value(case when rule is not null then coalesce(json, 'normal') end ignore nulls)
      over (partition by trigger order by log_offset) as priority
    from (select *, nullif(regexp_extract(rule, '"priority":"([a-z]+)"', 1), '') as json from events))
  select case when type = 'delivery.dead_lettered' and first_fired_at is null and attempt = 1
      and not regexp_matches(occurrence, '^(snz|run)-') then 'never' else type end,
    coalesce(channel, '(none)'), coalesce(priority, 'normal'), tenant,
    case when step = 0 then lateness_ms else epoch_ms(occurred_at) - epoch_ms(scheduled_at) end, count,
    coalesce(epoch_ms(case when type = 'occurrence.misfired' then first else scheduled_at end), epoch_ms(event_us)) due
  from e where case type
    when 'occurrence.fired' then attempt = 1 and first_fired_at = occurred_at
      and not regexp_matches(occurrence, '^(snz|run)-')
    when 'occurrence.expired' then first_fired_at is null and coalesce(attempt, 1) = 1
      and coalesce(reason, '') <> 'misfire'
      and not regexp_matches(occurrence, '^(snz|run)-')
    else type in ('occurrence.misfired', 'delivery.dead_lettered') end
""").fetchall()
groups = {}
for kind, channel, priority, tenant, late, n, due in rows:
  if not frm <= due < until: continue
  for g in ("total", "c " + channel, "p " + priority, "t " + tenant, "h %d" % (due // 3600000)):
    c = groups.setdefault(g, {"late": [], "expired": 0, "misfired": 0, "dead": 0})
    if kind == "occurrence.fired": c["late"].append(late)
    elif kind == "occurrence.expired": c["expired"] += 1
    elif kind == "occurrence.misfired": c["misfired"] += n
    else:
      c["dead"] += 1
      c["expired"] += kind == "never"
def line(c):
  v = sorted(c["late"])
  at = lambda p: v[max(1, -(-len(v) * p // 100000)) - 1] if v else None
  return [len(v), sum(x > objective for x in v), c["expired"], c["misfired"], c["dead"],
    at(50000), at(90000), at(99000), at(99900), v[-1] if v else None]
print(json.dumps({g: line(c) for g, c in groups.items()}))
`

// Lines of the report are what an independent computation says: DuckDB reads, Python sorts.
func TestReportEqualsDuckDB(t *testing.T) {
	python := services.Python(t, "venv-data")
	l := newLake(t, 3)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	randomLives(l, seed)
	from := l.export(512)
	if len(from.Files(0)) < 3 {
		t.Fatalf("only %d files", len(from.Files(0)))
	}
	if err := os.WriteFile(filepath.Join(l.dir, "views.sql"), []byte(analytics.Views(l.dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Read(t.Context(), from, options())
	if err != nil {
		t.Fatal(err)
	}
	o := options()
	cmd := exec.CommandContext(t.Context(), python, "-c", sloProgram, l.dir,
		fmt.Sprint(o.Objective.Within.Milliseconds()), fmt.Sprint(o.From.UnixMilli()), fmt.Sprint(o.Until.UnixMilli()))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	want := map[string][]*int64{}
	if err := json.Unmarshal(out, &want); err != nil {
		t.Fatal(err)
	}
	got := map[string]*Line{"total": &r.Total}
	for prefix, lines := range map[string][]Line{"c ": r.Channels, "p ": r.Priority, "t ": r.Tenants} {
		for i := range lines {
			got[prefix+lines[i].Name] = &lines[i]
		}
	}
	for i := range r.Hours {
		at, err := time.Parse("2006-01-02T15:04Z", r.Hours[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		got[fmt.Sprintf("h %d", at.Unix()/3600)] = &r.Hours[i]
	}
	if len(got) != len(want) || r.Total.Fires < 900 || len(r.Priority) != 3 || len(r.Tenants) != 3 {
		t.Errorf("%d lines, want %d; %d fires, priorities %+v", len(got), len(want), r.Total.Fires, r.Priority)
	}
	for name, w := range want {
		if g := got[name]; g == nil || g.spelled() != spelled(w) {
			t.Errorf("%s: %s\nDuckDB has %s", name, g.spelled(), spelled(w))
		}
	}
	var second Report
	if second, err = Read(t.Context(), from, o); err != nil || second.Total.spelled() != r.Total.spelled() {
		t.Errorf("a second reading says %s, and the first %s: %v", second.Total.spelled(), r.Total.spelled(), err)
	}
}

func (l *Line) spelled() string {
	if l == nil {
		return "nothing"
	}
	all := []*int64{&l.Fires, &l.Late, &l.Expired, &l.Misfired, &l.DeadLettered}
	for _, p := range l.Percentiles {
		all = append(all, p.MS)
	}
	return spelled(append(all, l.MaxMS))
}

func spelled(all []*int64) string {
	var b strings.Builder
	for _, v := range all {
		if v == nil {
			b.WriteString("- ")
		} else {
			fmt.Fprintf(&b, "%d ", *v)
		}
	}
	return b.String()
}

// randomLives writes two days of triggers of all priorities, punctual ones and late ones.
func randomLives(l *lake, seed uint64) {
	dice := rand.New(rand.NewPCG(seed, 4))
	at := noon.Add(-40 * time.Hour)
	for at.Before(noon) {
		at = at.Add(time.Duration(dice.Int64N(60)) * time.Second)
		p := dice.Int32N(3)
		key := fmt.Sprintf("k-%d-%d", p, dice.IntN(200))
		late := time.Duration(dice.Int64N(1500)) * time.Millisecond
		if dice.IntN(20) == 0 {
			late = time.Duration(dice.Int64N(7200)) * time.Second / 7
		}
		e := fired(key, at.Add(-late), late)
		e.Tenant = []string{"default", "acme", "globex"}[dice.IntN(3)]
		e.Channel = []string{"push", "sms"}[dice.IntN(2)]
		switch dice.IntN(12) {
		case 0, 1:
			e = topics.Event{Type: "trigger.registered", Trigger: key, Tenant: e.Tenant, Rule: rules[dice.IntN(3)]}
		case 2:
			e.Attempt = 2
		case 3:
			e.FirstFired = text(at.Add(-3 * time.Hour))
		case 4:
			e.Occurrence = "run-0-1"
		case 5:
			e.Type, e.Step, e.Attempt, e.FirstFired, e.LatenessMS = "occurrence.expired", nil, 0, "", nil
			e.Reason = []string{"expires_after", "misfire"}[dice.IntN(2)]
		case 6:
			e = topics.Event{
				Type: "occurrence.misfired", Trigger: key, Tenant: e.Tenant, Channel: e.Channel,
				Count: 1 + dice.IntN(5), First: e.ScheduledAt, Last: text(at),
			}
		case 7:
			e.Type, e.LatenessMS = "delivery.dead_lettered", nil
			if dice.IntN(2) == 0 {
				e.FirstFired, e.Attempt = "", 1+dice.IntN(2)
			}
		}
		l.add(p, at, e)
	}
}

var rules = []json.RawMessage{
	json.RawMessage(`{"delay":"1h"}`), json.RawMessage(`{"delay":"1h","priority":"high"}`),
	json.RawMessage(`{"delay":"1h","priority":"low"}`),
}

// A page has no reference to anything, and says what the report says.
func TestPage(t *testing.T) {
	l := newLake(t, 1)
	for i := range 30 {
		due := noon.Add(-time.Duration(i+1) * time.Hour / 2)
		late := time.Duration(i*100) * time.Millisecond
		e := fired("k", due, late)
		e.Tenant = "<script>"
		l.add(0, due.Add(late), e)
	}
	r, err := Read(t.Context(), l.export(256), options())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, no := range []string{"<script", "src=", "href=", "http", "url(", "@import", "ZgotmplZ"} {
		if strings.Contains(page, no) {
			t.Errorf("the page has %q", no)
		}
	}
	for _, want := range []string{"99 % within 1s", "&lt;script&gt;", `<path class="max" d="M`, "2900 ms", "missed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	empty, err := Read(t.Context(), newLake(t, 1).export(8), options())
	if err != nil || empty.HTML(&b) != nil || empty.Budget.Met || empty.Budget.Verdict != NoData {
		t.Errorf("an export without events: %+v, %v", empty, err)
	}
}

func TestParseObjective(t *testing.T) {
	for text, want := range map[string]Objective{
		"99.9:1s": {99_900, time.Second}, "99:250ms": {99_000, 250 * time.Millisecond},
		"99.999:1m": {99_999, time.Minute}, "50.5:0s": {50_500, 0},
	} {
		if o, err := ParseObjective(text, config.ParseDuration); err != nil || o != want {
			t.Errorf("%s: %+v, %v", text, o, err)
		}
	}
	for _, text := range []string{
		"", "99.9", "100:1s", "0:1s", "99.9999:1s", "-1:1s", ".5:1s", "x:1s", "99:x", "99:", "99.-1:1s",
	} {
		if o, err := ParseObjective(text, config.ParseDuration); err == nil {
			t.Errorf("%q is %+v", text, o)
		}
	}
}

// interrupted is a context that is canceled once it was asked so many times.
type interrupted struct{ after, asked int }

func (*interrupted) Deadline() (at time.Time, ok bool) { return }
func (*interrupted) Done() <-chan struct{}             { return nil }
func (*interrupted) Value(any) any                     { return nil }
func (c *interrupted) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// Whoever interrupts a report of a large export does not wait for its end: it asks before each
// partition and after each batch of rows, of plans and of fires.
func TestReadIsInterrupted(t *testing.T) {
	l := newLake(t, 1)
	for _, at := range []time.Time{noon.Add(-72 * time.Hour), noon.Add(-time.Hour)} { // the first is of plans alone
		for range 16 {
			l.add(0, at, fired("k", at, 0))
		}
	}
	from := l.export(8)
	whole := &interrupted{after: 1 << 20}
	if _, err := Read(whole, from, options()); err != nil || whole.asked < 5 {
		t.Fatalf("asked %d times: %v", whole.asked, err)
	}
	for after := range whole.asked {
		ctx := &interrupted{after: after}
		r, err := Read(ctx, from, options())
		if !errors.Is(err, context.Canceled) || r.Manifest != 0 || ctx.asked != after+1 {
			t.Errorf("canceled after %d questions: asked %d, manifest %d, %v", after, ctx.asked, r.Manifest, err)
		}
	}
}
