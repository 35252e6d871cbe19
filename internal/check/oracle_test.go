package check

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// oracleCase is a line of the test files of package calendar. On these instants two evaluators
// agree that are neither ours nor rrule-go.
type oracleCase struct {
	ID       string   `json:"id"`
	Start    string   `json:"dtstart_local"`
	Zone     string   `json:"tz"`
	Rule     string   `json:"rrule"`
	After    string   `json:"after"`
	Limit    int      `json:"limit"`
	Never    bool     `json:"never"`
	Expected []string `json:"expected_utc"`
}

// TestOracleTimeCases runs 395 cases of libical, dateutil, lib-recur, ical4j and rrule.js.
func TestOracleTimeCases(t *testing.T) {
	f, err := os.Open("../../calendar/testdata/time-cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	holdOracle(t, f, 395)
}

// TestOracleLikeDateutil runs 1,500 random rules with results of python-dateutil
// (calendar/testdata/gen_rules.py).
func TestOracleLikeDateutil(t *testing.T) { holdOracleZipped(t, "rules.jsonl.gz", 1500) }

// TestOracleCronByDefinition runs 700 random expressions (calendar/testdata/gen_crons.py).
func TestOracleCronByDefinition(t *testing.T) { holdOracleZipped(t, "crons.jsonl.gz", 700) }

func holdOracleZipped(t *testing.T, name string, want int) {
	f, err := os.Open("../../calendar/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	holdOracle(t, zr, want)
}

func holdOracle(t *testing.T, r io.Reader, want int) {
	n := 0
	for sc := bufio.NewScanner(r); sc.Scan(); n++ {
		var c oracleCase
		if err := json.Unmarshal(sc.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.ID, func(t *testing.T) { holdOracleTo(t, &c) })
	}
	if n != want {
		t.Fatalf("%d cases, want %d", n, want)
	}
}

func holdOracleTo(t *testing.T, c *oracleCase) {
	after, ok := instantText(c.After)
	if !ok {
		t.Fatalf("after %q", c.After)
	}
	s, err := newSeries(&recurrence{text: c.Rule, start: c.Start, zone: c.Zone}, nil, after, nil)
	if err != nil {
		if c.Never {
			return
		}
		t.Fatal(err)
	}
	var got []string
	for it := s.later(after); len(got) < c.Limit; {
		o, ok := it.next()
		if !ok {
			break
		}
		got = append(got, spell(o.at))
	}
	same := len(got) == len(c.Expected)
	for i := range got {
		if !same {
			break
		}
		at, _ := instantText(c.Expected[i])
		same = got[i] == spell(at)
	}
	if !same {
		t.Errorf("%s from %s %s after %s\n got %v\nwant %v", c.Rule, c.Start, c.Zone, c.After, got, c.Expected)
	}
}

// TestOracleStartInAnOverlap has a start that occurs twice. The policy must select the pass, also
// for cron of real time. Clocks go back at 01:00Z.
func TestOracleStartInAnOverlap(t *testing.T) {
	for _, c := range []struct{ overlap, want string }{
		{"first", "2026-10-25T00:15:00.000Z"},
		{"second", "2026-10-25T01:15:00.000Z"},
		{"both", "2026-10-25T00:15:00.000Z"},
	} {
		s, err := newSeries(&recurrence{
			text: "cron:15 */6 * * *", start: "2026-10-25T00:00", zone: "Atlantic/Azores",
			gap: "shift", overlap: c.overlap,
		}, nil, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := s.later(0).next(); !ok || spell(o.at) != c.want {
			t.Errorf("overlap %s: first is %s, want %s", c.overlap, spell(o.at), c.want)
		}
	}
}

// TestOracleUntilInAGap has an end that clocks skip. Cron of real time ends before the gap, and
// elapsed time when the end is shifted to. Clocks go from 02:00 to 03:00 at 07:00Z.
func TestOracleUntilInAGap(t *testing.T) {
	for text, want := range map[string]string{
		"cron:*/30 * * * *": "2026-03-08T06:30:00.000Z",
		"every:30m":         "2026-03-08T07:30:00.000Z",
	} {
		s, err := newSeries(&recurrence{
			text: text, start: "2026-03-08T01:00", until: "2026-03-08T02:30", zone: "America/New_York",
			gap: "shift", overlap: "first",
		}, nil, 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		var last int64
		next := s.later(0)
		for o, ok := next.next(); ok; o, ok = next.next() {
			last = o.at
		}
		if spell(last) != want {
			t.Errorf("%s: last is %s, want %s", text, spell(last), want)
		}
	}
}

// TestOraclePhaseInAGap moves a series to a zone whose clocks skip the local time after which it
// began. The series continues at the gap's end, which is a later local time. Clocks go from 02:00
// to 03:00 at 07:00Z.
func TestOraclePhaseInAGap(t *testing.T) {
	w, _, _ := localTime("2026-03-08T02:26:00")
	for _, text := range []string{"cron:*/7 * * * *", "cron:0 3 * * *", "FREQ=DAILY;BYHOUR=3;BYMINUTE=0;BYSECOND=0"} {
		s, err := newSeries(&recurrence{text: text, zone: "America/New_York", gap: "shift", overlap: "first"}, nil, 0,
			&phaseStart{wall: w, at: 1772933160000}) // 02:26 in Berlin
		if err != nil {
			t.Fatal(err)
		}
		if o, ok := s.later(0).next(); !ok || spell(o.at) != "2026-03-08T07:00:00.000Z" {
			t.Errorf("%s: first is %s, want the gap's end", text, spell(o.at))
		}
	}
}
