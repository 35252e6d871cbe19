package calendar

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// timeCase is a line of testdata/time-cases.jsonl: rules from the test suites
// of libical, dateutil, lib-recur, ical4j and rrule.js, with instants on which
// two independent evaluators agree.
type timeCase struct {
	ID       string   `json:"id"`
	Start    string   `json:"dtstart_local"`
	Zone     string   `json:"tz"`
	Rule     string   `json:"rrule"`
	After    string   `json:"after"`
	Limit    int      `json:"limit"`
	Never    bool     `json:"never"`
	Expected []string `json:"expected_utc"`
}

// disputedCases are refused by the contract's list of disputed shapes.
var disputedCases = map[string]bool{"c292": true}

func TestTimeCases(t *testing.T) { runTimeCases(t, timeCases(t)) }

// TestRulesLikeDateutil: 1,500 random rules, made by testdata/gen_rules.py.
func TestRulesLikeDateutil(t *testing.T) { runTimeCases(t, zipped(t, "testdata/rules.jsonl.gz", 1500)) }

// TestCronByDefinition: 700 random expressions, made by testdata/gen_crons.py.
func TestCronByDefinition(t *testing.T) { runTimeCases(t, zipped(t, "testdata/crons.jsonl.gz", 700)) }

func zipped(t *testing.T, name string, want int) []timeCase {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	return readCases(t, zr, want)
}

func runTimeCases(t *testing.T, cases []timeCase) {
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			question := map[string]any{
				"id": c.ID, "recurrence": c.Rule, "timezone": c.Zone, "after": c.After,
				"n": c.Limit,
			}
			if c.Start != "" {
				question["start"] = c.Start
			}
			body, _ := json.Marshal(question)
			resp, err := Preview(Embedded(), body, 0)
			var want Code
			switch {
			case disputedCases[c.ID]:
				want = CodeDisputedRule
			case c.Never:
				want = CodeNoOccurrences
			}
			if err != nil || want != "" {
				if err == nil || err.Code != want {
					t.Fatalf("%s from %s %s: error %v, want code %q", c.Rule, c.Start, c.Zone, err, want)
				}
				return
			}
			var got []string
			for _, o := range resp.Occurrences {
				got = append(got, o.At)
			}
			if !equal(got, c.Expected) {
				t.Errorf("%s from %s %s after %s\n got %v\nwant %v", c.Rule, c.Start, c.Zone, c.After, got, c.Expected)
			}
		})
	}
}

func timeCases(t testing.TB) []timeCase {
	t.Helper()
	f, err := os.Open("testdata/time-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readCases(t, f, 395)
}

func readCases(t testing.TB, r io.Reader, want int) (all []timeCase) {
	t.Helper()
	for sc := bufio.NewScanner(r); sc.Scan(); {
		var c timeCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
	if len(all) != want {
		t.Fatalf("%d cases, want %d", len(all), want)
	}
	return all
}

func equal(a, b []string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
