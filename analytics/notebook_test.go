package analytics

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
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

var rewriteNotebook = flag.Bool("rewrite-notebook", false, "write the outputs into docs/analytics/late-morning.ipynb")

const notebookFile = "../docs/analytics/late-morning.ipynb"

// notebookRunner runs the code cells of a notebook, one after the other, and prints what each
// one prints, on its last line: what takes long has a progress bar of DuckDB before.
const notebookRunner = `
import contextlib, io, json, sys
cells, names = json.load(sys.stdin), {}
outputs = []
for i, cell in enumerate(cells):
  out = io.StringIO()
  with contextlib.redirect_stdout(out):
    exec(compile(cell, "cell %d" % i, "exec"), names)
  outputs.append(out.getvalue())
print()
json.dump(outputs, sys.stdout)
`

type notebook struct {
	Cells    []*notebookCell `json:"cells"`
	Metadata json.RawMessage `json:"metadata"`
	Format   int             `json:"nbformat"`
	Minor    int             `json:"nbformat_minor"`
}

type notebookCell struct {
	Type     string           `json:"cell_type"`
	ID       string           `json:"id"`
	Metadata json.RawMessage  `json:"metadata"`
	Source   []string         `json:"source"`
	Count    *int             `json:"execution_count,omitempty"`
	Outputs  []notebookOutput `json:"outputs,omitzero"`
}

type notebookOutput struct {
	Name string   `json:"name"`
	Type string   `json:"output_type"`
	Text []string `json:"text"`
}

// The notebook's outputs are what its cells print about the morning below.
func TestNotebook(t *testing.T) {
	python := services.Python(t, "venv-data")
	text, err := os.ReadFile(notebookFile)
	if err != nil {
		t.Fatal(err)
	}
	var n notebook
	if err := json.Unmarshal(text, &n); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lake := filepath.Join(dir, "lake")
	lateMorning(t, lake)
	if err := os.WriteFile(filepath.Join(lake, "views.sql"), []byte(Views(lake)), 0o600); err != nil {
		t.Fatal(err)
	}
	var code []*notebookCell
	var sources []string
	for _, c := range n.Cells {
		if c.Type == "code" {
			code, sources = append(code, c), append(sources, strings.Join(c.Source, ""))
		}
	}
	outputs := runNotebook(t, python, dir, sources)
	if len(outputs) < 6 {
		t.Fatalf("the notebook has %d cells of code", len(outputs))
	}
	for i, c := range code {
		var said string
		for _, o := range c.Outputs {
			said += strings.Join(o.Text, "")
		}
		if *rewriteNotebook {
			count := i + 1
			c.Count, c.Outputs = &count, []notebookOutput{}
			if outputs[i] != "" {
				c.Outputs = []notebookOutput{{
					"stdout", "stream", strings.SplitAfter(strings.TrimSuffix(outputs[i], "\n"), "\n"),
				}}
			}
		} else if strings.TrimSuffix(outputs[i], "\n") != said {
			t.Errorf("cell %s prints\n%s\nand the notebook says\n%s", c.ID, outputs[i], said)
		}
	}
	if *rewriteNotebook {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(n); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(notebookFile, b.Bytes(), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
}

func runNotebook(t *testing.T, python, dir string, sources []string) (outputs []string) {
	t.Helper()
	input, err := json.Marshal(sources)
	if err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), python, "-c", notebookRunner)
	cmd.Dir, cmd.Stdin, cmd.Stderr = dir, bytes.NewReader(input), &errs
	cmd.Env = append(os.Environ(), "TZ=Asia/Tokyo", "PYTHONDONTWRITEBYTECODE=1")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, errs.String())
	}
	if err := json.Unmarshal(out[bytes.LastIndexByte(out, '\n')+1:], &outputs); err != nil {
		t.Fatal(err)
	}
	return outputs
}

// lateMorning exports the events of a morning: 900 reminders are due from 07:00 to 10:00. The
// engine of partition 1 is away from 08:10 to 08:40. The provider of text messages fails from
// 09:05 to 09:15.
func lateMorning(t *testing.T, dir string) {
	t.Helper()
	const partitions = 2
	dice := rand.New(rand.NewPCG(8, 40))
	seven := time.Date(2026, 11, 25, 7, 0, 0, 0, time.UTC)
	clock := func(hour, minute int) time.Time {
		return seven.Add(time.Duration(hour-7)*time.Hour + time.Duration(minute)*time.Minute)
	}
	type happened struct {
		at time.Time
		e  topics.Event
	}
	var all [partitions][]happened
	for i := range 900 {
		p := i % partitions
		channel := []string{"push", "sms", "email"}[dice.IntN(3)]
		due := seven.Add(time.Duration(dice.Int64N(int64(3*time.Hour/time.Minute))) * time.Minute)
		key, zero := fmt.Sprintf("reminder-%03d", i), 0
		base := topics.Event{Trigger: key, Tenant: "default", Version: 1, Revision: 1, Channel: channel}
		seq := int64(0)
		add := func(at time.Time, change func(*topics.Event)) {
			seq++
			e := base
			e.Seq, e.OccurredAt = seq, stamp(at)
			change(&e)
			all[p] = append(all[p], happened{at, e})
		}
		asked := due.Add(-time.Duration(60+dice.IntN(600)) * time.Minute)
		if p == 1 && !asked.Before(clock(8, 10)) && asked.Before(clock(8, 40)) {
			asked = asked.Add(-30 * time.Minute) // an engine that is away registers nothing
		}
		add(asked, func(e *topics.Event) {
			e.Type, e.State, e.NextAt, e.ScheduledAt = "trigger.registered", "PENDING", stamp(due), stamp(due)
			e.Occurrence, e.Rule = stamp(due), json.RawMessage(fmt.Sprintf(`{"fire_at":%q}`, stamp(due)))
		})
		fired := due.Add(time.Duration(1+dice.IntN(9)) * time.Millisecond)
		if back := clock(8, 40); p == 1 && !due.Before(clock(8, 10)) && due.Before(back) {
			fired = back.Add(time.Duration(400+dice.IntN(2000)) * time.Millisecond)
			if fired.Sub(due) > time.Minute {
				add(fired, func(e *topics.Event) {
					e.Type, e.State, e.Count = "occurrence.misfired", "PENDING", 1
					e.First, e.Last = stamp(due), stamp(due)
					e.NextAt = stamp(due)
				})
			}
		}
		out := func(at time.Time, attempt int) {
			add(at, func(e *topics.Event) {
				late := at.Sub(due).Milliseconds()
				e.Type, e.State, e.PreviousState, e.ScheduledAt = "occurrence.fired", "IN_FLIGHT", "PENDING", stamp(due)
				e.Occurrence, e.Step, e.Attempt, e.FirstFired = stamp(due), &zero, attempt, stamp(fired)
				e.LatenessMS, e.DueTopic = &late, "waterclock.due."+channel
			})
		}
		answer := func(at time.Time, kind, state, reason string, attempt int) {
			add(at, func(e *topics.Event) {
				e.Type, e.State, e.Reason, e.Occurrence = kind, state, reason, stamp(due)
				e.Step, e.Attempt, e.FirstFired = &zero, attempt, stamp(fired)
			})
		}
		attempt, at := 1, fired
		out(at, attempt)
		for channel == "sms" && !at.Before(clock(9, 5)) && at.Before(clock(9, 15)) {
			answer(at.Add(time.Second), "delivery.retried", "IN_FLIGHT", "provider_unavailable", attempt)
			attempt++
			at = at.Add(5 * time.Minute)
			out(at, attempt)
		}
		answer(at.Add(time.Second), "delivery.delivered", "FIRED", "", attempt)
	}
	ledgers := [partitions]*ledger{}
	for p := range all {
		slices.SortStableFunc(all[p], func(a, b happened) int { return a.at.Compare(b.at) })
		ledgers[p] = &ledger{}
		last := int64(0)
		for _, h := range all[p] {
			last = max(last+1, h.at.UnixMicro())
			h.e.EventUS, h.e.EventID = last, topics.EventID(int32(p), last) //nolint:gosec // a partition's number
			value, err := json.Marshal(&h.e)
			if err != nil {
				t.Fatal(err)
			}
			ledgers[p].values = append(ledgers[p].values, value)
		}
	}
	e := New(Options{Topic: topic, Dir: dir, Users: Users{Plain: true}, Span: 256})
	e.disk = quickDisk{}
	e.source = func(context.Context) (*source, error) {
		s := &source{id: "t", starts: make([]int64, partitions)}
		for _, l := range ledgers {
			s.ends = append(s.ends, int64(len(l.values)))
		}
		s.read = func(ctx context.Context, p int32, first, end int64, visit visitor, step func()) error {
			return ledgers[p].read(ctx, p, first, end, visit, step)
		}
		return s, nil
	}
	if _, err := e.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
}
