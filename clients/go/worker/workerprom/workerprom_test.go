package workerprom_test

import (
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/clients/go/worker/workerprom"
)

// TestMetrics: each call changes its series, and two channels can share a registry.
func TestMetrics(t *testing.T) {
	to := prometheus.NewPedanticRegistry()
	workerprom.New(to, "sms")
	var m worker.Metrics = workerprom.New(to, "push")
	m.Handled(worker.OutcomeRetry, "whatever a caller says", 20*time.Millisecond)
	m.Skipped(worker.SkipFinal)
	m.Abandoned()
	m.Garbled("ce_id")
	m.ReceiptWritten(time.Millisecond)
	m.ReceiptFailed()
	m.CommitFailed()
	m.Load(worker.Load{
		Running: 1, Ready: 1, Buffered: 1, Bytes: 1, Pending: 1, Assigned: 1, Paused: 1, Held: 1,
		ClockAhead: time.Second,
	})
	families, err := to.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, s := range f.Metric {
			labels := map[string]string{}
			for _, l := range s.Label {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["channel"] == "push" {
				values[f.GetName()] += s.GetCounter().GetValue() + s.GetGauge().GetValue() +
					float64(s.GetHistogram().GetSampleCount())
			}
		}
	}
	for name, v := range values {
		if want := map[bool]float64{true: 3, false: 1}[name == "waterclock_worker_partitions"]; v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	documented := namesInComment(t)
	if got := slices.Sorted(maps.Keys(values)); !slices.Equal(got, documented) || len(got) != 15 {
		t.Errorf("exported %v\ndocumented %v", got, documented)
	}
}

// namesInComment returns the metrics that the comment of Metrics lists.
func namesInComment(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), "workerprom.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE || g.Doc == nil {
			continue
		}
		for _, block := range new(comment.Parser).Parse(g.Doc.Text()).Content {
			if code, ok := block.(*comment.Code); ok {
				names = append(names, regexp.MustCompile(`waterclock_worker_\w+`).FindAllString(code.Text, -1)...)
			}
		}
	}
	slices.Sort(names)
	return names
}
