package slo

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"
	"time"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Funcs(template.FuncMap{
	"percent": func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) },
	"share":   Share,
	"rate":    func(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) },
	"ms":      MS,
	"allowed": Allowed,
}).Parse(pageText))

// Share is a percentage with three decimals, rounded down, so that 100 % really means all. Nine are right: what is cut
// off is no error of the number.
func Share(percent float64) string {
	text := strconv.FormatFloat(percent, 'f', 9, 64)
	return text[:len(text)-len("000000")]
}

// MS is a lateness as people read it.
func MS(ms *int64) string {
	switch {
	case ms == nil:
		return ""
	case *ms < 10_000:
		return strconv.FormatInt(*ms, 10) + " ms"
	}
	return (time.Duration(*ms) * time.Millisecond).Round(time.Second).String()
}

// HTML writes the report as a page that needs no other file, no script and no network.
func (r *Report) HTML(w io.Writer) error {
	return page.Execute(w, struct {
		*Report
		Groups []group
		Chart  chart
	}{r, []group{
		{"Channel", r.Channels},
		{"Priority", r.Priority},
		{"Tenant", r.Tenants},
		{"Hour (UTC)", r.Hours},
	}, r.chart()})
}

type group struct {
	Title string
	Lines []Line
}

// chart is lateness over time, on a logarithmic scale.
type chart struct {
	Width, Height int
	Left, Bottom  int
	Lines         []curve
	Limit         string // y of the objective
	Rows          []tick
	Columns       []tick
}

type curve struct {
	Name, Class, Points string
}

type tick struct{ At, Text string }

const (
	chartWidth  = 960
	chartHeight = 320
	chartLeft   = 64
	chartBottom = 28
)

// chart has a point for each hour in which something fired; hours without break the curve.
func (r *Report) chart() chart {
	c := chart{Width: chartWidth, Height: chartHeight, Left: chartLeft, Bottom: chartHeight - chartBottom}
	top := r.top()
	from, _ := time.Parse(time.RFC3339, r.From)
	until, _ := time.Parse(time.RFC3339, r.Until)
	x := func(at time.Time) float64 {
		return chartLeft + (chartWidth-chartLeft-8)*float64(at.Sub(from))/float64(until.Sub(from))
	}
	y := func(ms int64) float64 {
		share := height(ms) / height(top)
		return 8 + (chartHeight-chartBottom-8)*(1-share)
	}
	for ms, label := range rows(top) {
		c.Rows = append(c.Rows, tick{number(y(ms)), label})
	}
	for at, label := range columns(from, until) {
		c.Columns = append(c.Columns, tick{number(x(at)), label})
	}
	c.Limit = number(y(r.WithinMS))
	for i, class := range []string{"p50", "p99", "max"} {
		c.Lines = append(c.Lines, curve{class, class, r.points(i, x, y)})
	}
	return c
}

// points are an SVG path: of p50, p99 or the worst.
func (r *Report) points(which int, x func(time.Time) float64, y func(int64) float64) string {
	var b strings.Builder
	from, _ := time.Parse(time.RFC3339, r.From)
	for l := range r.levels(which) {
		begin := x(l.at)
		if l.at.Before(from) {
			begin = x(from)
		}
		verb := "L"
		if l.after {
			verb = "M"
		}
		fmt.Fprintf(&b, "%s%s %sh2", verb, number(begin), number(y(l.ms)))
	}
	return b.String()
}

func (l *Line) valueOf(which int) *int64 {
	want := []float64{50, 99}
	if which >= len(want) {
		return l.MaxMS
	}
	for _, v := range l.Percentiles {
		if v.Percent == want[which] {
			return v.MS
		}
	}
	return nil
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
