package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/analytics/slo"
)

// A report summarises an export in words and as JSON. It refuses an export that it cannot read.
func TestReportSLO(t *testing.T) {
	brokers, dir := cluster(t), filepath.Join(t.TempDir(), "lake")
	run := func(args ...string) result {
		return cli(t, nil, "", append([]string{"--brokers", brokers}, args...)...)
	}
	report := func(args ...string) result { return run(append([]string{"report", "slo", "--dir", dir}, args...)...) }
	run("report", "slo").want(t, exitUsage, "--dir")
	report().want(t, exitNotFound, "has no export yet")

	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.DefaultProduceTopic("waterclock.events"),
		kgo.RecordPartitioner(kgo.ManualPartitioner())) // all on partition 0: that of another one is taken away below
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	due := time.Now().UTC().Add(-2 * time.Hour).Truncate(time.Second)
	for i, late := range []int64{3, 700, 90_000} {
		at := due.Add(time.Duration(late) * time.Millisecond)
		text := fmt.Sprintf(`{"type":"occurrence.fired","trigger":"k%d","tenant":"acme","channel":"push","event_us":%d,`+
			`"occurred_at":%q,"scheduled_at":%q,"step":0,"attempt":1,"lateness_ms":%d}`, i, at.UnixMicro(),
			at.Format(time.RFC3339Nano), due.Format(time.RFC3339), late)
		if err := cl.ProduceSync(t.Context(), kgo.StringRecord(text)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	run("events", "export", "--dir", dir).want(t, exitOK)

	report().want(t, exitOK, "99.9 % within 1s", "missed", "66.666 % of 3 occurrences",
		"overspent: 1 late or expired, 0.003 allowed",
		"channel push", "tenant acme", "priority normal", "1m30s")
	report("--objective", "50:1s", "--window", "3h").want(t, exitOK, "met", "1 of 1.5 spent, 33.333 % left")
	report("--window", "1h").want(t, exitNotFound, "0 occurrences", "no data", "nothing was due")
	report("--window", "1h", "--jq", ".budget.verdict").want(t, exitNotFound, "no_data")
	report("-o", "json", "--jq", ".total.percentiles[1].ms").want(t, exitOK, "90000\n")
	report("--jq", ".budget.met").want(t, exitOK, "false\n")
	page := filepath.Join(t.TempDir(), "slo.html")
	report("--html", page).want(t, exitOK, "wrote "+page)
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("%v: %.100s", err, text)
	}
	picture := filepath.Join(t.TempDir(), "slo.png")
	report("--html", page, "--png", picture).want(t, exitOK, "wrote "+page, "wrote "+picture)
	if text, err := os.ReadFile(picture); err != nil || !strings.HasPrefix(string(text), "\x89PNG") {
		t.Errorf("%v: %.100q", err, text)
	}
	report("--html", filepath.Join(dir, "no", "such")).want(t, exitFailed, "no such file")
	report("--objective", "100:1s").want(t, exitUsage, "no budget")
	report("--window", "5m").want(t, exitUsage, "from 1h to 400d")
	report("--until", "yesterday").want(t, exitUsage, "--until yesterday")
	if r := report(); strings.Contains(r.out, "warning") {
		t.Errorf("a whole export: %s", r.out)
	}
	last := filepath.Join(dir, "tail", "p=01.parquet")
	if err := os.Remove(last); err != nil {
		t.Fatal(err)
	}
	report().want(t, exitOK, "warning", "lacks partitions [1]")
	report("--jq", ".partitions_without_tail").want(t, exitOK, "[1]")
	run("events", "export", "--dir", dir).want(t, exitOK)
	if r := report(); strings.Contains(r.out, "warning") {
		t.Errorf("it was exported again: %s", r.out)
	}
	if err := os.Truncate(filepath.Join(dir, "tail", "p=00.parquet"), 10); err != nil {
		t.Fatal(err)
	}
	report().want(t, exitLoss, "damaged_directory")
}

// The budget line says how much too many there were, and never a negative share.
func TestBudgetText(t *testing.T) {
	for want, b := range map[string]slo.Budget{
		"overspent: 1590 late or expired, 1204.6 allowed": {
			Verdict: "missed", Spent: 1590, Allowed: 1204.551, LeftPercent: -31.99,
		},
		"1 of 1.5 spent, 33.333 % left": {Verdict: "met", Spent: 1, Allowed: 1.5, LeftPercent: 33.3333},
		"0 of 0 spent, 100 % left":      {Verdict: slo.NoData, LeftPercent: 100},
	} {
		if got := budgetText(&b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, percent := range map[string]float64{ // 1 late of 560 million is not all
		"99.999 %": 100 * float64(559_999_999) / float64(560_000_000), "100 %": 100, "99.5 %": 99.5, "0 %": 0,
		"99.868 %": 100 * float64(99_868) / float64(100_000), "0.003 %": 0.003, "32.766 %": 32.766,
	} {
		if got := share(percent); got != want {
			t.Errorf("of %v: got %q, want %q", percent, got, want)
		}
	}
	got := behindText([]slo.Behind{
		{Partition: 3, Newest: "2026-11-25T10:00:00.000Z"}, {Partition: 7, Newest: "2026-11-24T10:00:00.000Z"},
	})
	if want := "partitions [3 7] have no event since 2026-11-24T10:00:00.000Z or later"; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The table warns of what is not in the files.
func TestReportWarnsOfWhatIsMissing(t *testing.T) {
	r := slo.Report{Begins: "2026-11-20T09:00:00.000Z", Gaps: []slo.Gap{{Partition: 3, From: 5, To: 9}}}
	text := sloText(&output{}, &r)
	for _, want := range []string{
		"warning    the export begins at 2026-11-20T09:00:00.000Z",
		"warning    offsets 5 to 8 of partition 3 had expired",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report lacks %q: %s", want, text)
		}
	}
}
