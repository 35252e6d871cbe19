package slo

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A partition is behind if it would have had many events since its newest, by its share until
// then. A quiet one is not, nor one that ends where the window does.
func TestBehind(t *testing.T) {
	for _, c := range []struct {
		name  string
		hours [3][6]int // events by partition and hour
		until time.Duration
		want  string
	}{
		{name: "all go on", hours: [3][6]int{{9, 9, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9}, {9, 9, 9, 9, 9, 9}}, want: "[]"},
		{name: "one stands still", hours: [3][6]int{{9, 9, 9, 9, 9, 9}, {9, 9}, {9, 9, 9, 9, 9, 9}}, want: "[1]"},
		{name: "for less than an hour", hours: [3][6]int{{90, 90}, {90, 90}, {90, 1}}, want: "[]"},
		{name: "too few to say", hours: [3][6]int{{9, 9, 5, 5}, {9, 9}, {9, 9, 5, 5}}, want: "[]"},
		{name: "a quiet one", hours: [3][6]int{{99, 99, 99, 99, 99, 99}, {1}, {99, 99, 99, 99, 99, 99}}, want: "[]"},
		{name: "one without any", hours: [3][6]int{{99, 99, 99, 99}, {}, {99, 99, 99, 99}}, want: "[]"},
		{name: "two", hours: [3][6]int{{9, 9}, {9, 9, 9, 9, 9, 30}, {9, 9, 9}}, want: "[0 2]"},
		{
			name: "after the window", hours: [3][6]int{{9, 9, 9, 9, 9, 9}, {9, 9}, {9, 9, 9, 9, 9, 9}},
			until: time.Hour, want: "[]",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a arrivals
			for p := range c.hours {
				for hour, events := range c.hours[p] {
					for i := range events {
						at := noon.Add(time.Duration(hour)*time.Hour + time.Duration(i)*time.Second)
						a.add(int32(p), at.UnixMicro(), 1)
					}
				}
			}
			until := noon.Add(100 * time.Hour)
			if c.until > 0 {
				until = noon.Add(c.until)
			}
			got := []int32{}
			for _, b := range a.behind(until.UnixMicro()) {
				got = append(got, b.Partition)
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("behind are %v, want %s", got, c.want)
			}
		})
	}
}

// The report names a partition whose events all lie before the window, too.
func TestReportNamesWhatIsBehind(t *testing.T) {
	l := newLake(t, 2)
	for hour := -400; hour < 0; hour++ {
		due := noon.Add(time.Duration(hour) * time.Hour)
		for p := range int32(2) {
			if p == 0 || hour < -300 {
				l.add(p, due.Add(2*time.Second), fired("k", due, 2*time.Second))
			}
		}
	}
	r, err := Read(t.Context(), l.export(8), options())
	if err != nil {
		t.Fatal(err)
	}
	last := utc(noon.Add(-301*time.Hour + 2*time.Second))
	if len(r.Behind) != 1 || r.Behind[0].Partition != 1 || r.Behind[0].Newest != last {
		t.Errorf("behind are %v, want partition 1 since %s", r.Behind, last)
	}
	var b bytes.Buffer
	if err := r.HTML(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Partition 1 has no event since " + last, "overspent: 24 late or expired, 0.240 allowed",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page lacks %q: %.2000s", want, b.String())
		}
	}
}
