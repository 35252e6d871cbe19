package calendar

import (
	"bufio"
	"compress/gzip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestResolveLikeZoneinfo compares with Python's zoneinfo (PEP 495) at every
// clock change from 1970 to 2037 of every distinct zone. The golden file is
// made by testdata/gen_transitions.py.
func TestResolveLikeZoneinfo(t *testing.T) {
	f, err := os.Open("testdata/transitions.txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zr, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	sc := bufio.NewScanner(zr)
	sc.Buffer(nil, 1<<20)
	points := 0
	for sc.Scan() {
		fields := strings.Fields(sc.Text())
		z, err := Embedded().Lookup(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		wall, off0 := int64(0), int64(0)
		for _, item := range fields[1:] {
			n := splitInts(t, item)
			wall += n[0]
			if len(n) > 1 {
				off0 = n[1]
			}
			off1 := off0
			if len(n) > 2 {
				off1 = n[2]
			}
			points++
			checkResolve(t, z, wall, off0, off1)
		}
	}
	if points != 137_228 {
		t.Errorf("%d points, want 137228", points)
	}
}

// checkResolve takes zoneinfo's fold=0 and fold=1 for a wall time. They differ
// in an overlap, where fold=0 is earlier, and in a gap, where it is later.
func checkResolve(t *testing.T, z *Zone, wall, off0, off1 int64) {
	t.Helper()
	w := Wall(wall * 1000)
	first, second := (wall-off0)*1000, (wall-off1)*1000
	if got := z.ResolveFirst(w); got != first {
		t.Errorf("%s %s: ResolveFirst %d, zoneinfo %d", z.name, w, got, first)
	}
	both := z.Resolve(w, DST{GapSkip, OverlapBoth})
	var want []int64
	switch {
	case first == second:
		want = []int64{first}
	case first < second:
		want = []int64{first, second}
	}
	ok := len(both) == len(want)
	for i := range want {
		ok = ok && both[i].At == want[i] && both[i].Fold == (i == 1)
	}
	if !ok {
		t.Errorf("%s %s: Resolve %+v, zoneinfo %v", z.name, w, both, want)
	}
}

func splitInts(t *testing.T, s string) (out []int64) {
	for _, p := range strings.Split(s, ",") {
		n, err := strconv.ParseInt(p, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, n)
	}
	return out
}

// TestSpansAgreeWithTime walks every zone hour by hour over the odd dates, and
// week by week over three centuries.
func TestSpansAgreeWithTime(t *testing.T) {
	for _, name := range Embedded().Names() {
		z, err := Embedded().Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(-5_000_000_000); at < 7_000_000_000; at += 9*86400 + 12345 {
			checkSpan(t, z, at)
		}
		for _, year := range []int{2020, 2024, 2028, 2152} { // 31 December, golang/go#81583
			for h := range 72 {
				checkSpan(t, z, time.Date(year, 12, 30, h, 30, 0, 0, time.UTC).Unix())
			}
		}
	}
}

func checkSpan(t *testing.T, z *Zone, at int64) {
	t.Helper()
	_, want := time.Unix(at, 0).In(z.loc).Zone()
	s := z.span(at)
	if s.off != int64(want) || s.lo > at || s.hi <= at {
		t.Fatalf("%s at %d: span %+v, offset %d", z.name, at, s, want)
	}
	for _, edge := range []int64{max(s.lo, at-1<<40), min(s.hi, at+1<<40) - 1} {
		if _, off := time.Unix(edge, 0).In(z.loc).Zone(); off != want {
			t.Fatalf("%s at %d: span %+v has offset %d at %d, not %d", z.name, at, s, off, edge, want)
		}
	}
}

func TestLookup(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"", "empty"},
		{"Local", "machine"},
		{"localtime", "machine"},
		{"+05:00", "offset"},
		{"UTC+3", "offset"},
		{"america/new_york", "did you mean America/New_York?"},
		{"America/NewYork", "did you mean America/New_York?"},
		{"New York", "did you mean America/New_York?"},
		{"berlin", "did you mean Europe/Berlin?"},
		{"posix/Europe/Berlin", "not an IANA zone"},
		{"right/Europe/Berlin", "not an IANA zone"},
		{"Factory", "not an IANA zone"},
		{"Europe/Berlin\x00", "not an IANA zone"},
		{"../etc/passwd", "not an IANA zone"},
		{strings.Repeat("x", 5000), "not an IANA zone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Embedded().Lookup(c.name)
			e, ok := err.(*Error)
			if !ok || e.Code != CodeUnknownZone || e.Field != "timezone" || !strings.Contains(e.Msg, c.want) {
				t.Errorf("got %v, want unknown_zone with %q", err, c.want)
			}
		})
	}
	for _, name := range []string{
		"UTC", "Europe/Kiev", "Europe/Kyiv", "Etc/GMT+5", "EST5EDT",
		"America/Argentina/ComodRivadavia",
	} {
		if _, err := Embedded().Lookup(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRelease(t *testing.T) {
	z := Embedded()
	if z.Release() != "2025c" || len(z.ID()) != 64 || len(z.Names()) < 590 {
		t.Errorf("release %s, id %s, %d names", z.Release(), z.ID(), len(z.Names()))
	}
	if _, err := LoadZones([]byte("no zip"), "x"); err == nil {
		t.Error("LoadZones took bytes that are no zip")
	}
	if _, err := LoadZones(embedded[:len(embedded)/2], "x"); err == nil {
		t.Error("LoadZones took half a zip")
	}
}

// TestDiff compares two releases two years apart, as Go 1.21.0 and Go 1.26
// carried them. The zones are those whose rules changed in between.
func TestDiff(t *testing.T) {
	blob, err := os.ReadFile("testdata/zoneinfo-2023c.zip")
	if err != nil {
		t.Fatal(err)
	}
	old, err := LoadZones(blob, "2023c")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from string
		want string
	}{
		{
			"2024-01-01T00:00:00Z",
			"America/Asuncion 2025-03-23T03:00:00Z, America/Coyhaique added, America/Scoresbysund " +
				"2024-03-31T01:00:00Z, " +
				"Antarctica/Casey 2024-01-01T00:00:00Z, Antarctica/Vostok 2024-01-01T00:00:00Z, Asia/Almaty " +
				"2024-02-29T18:00:00Z, " +
				"Asia/Gaza 2024-04-13T00:00:00Z, Asia/Hebron 2024-04-13T00:00:00Z, Asia/Qostanay 2024-02-29T18:00:00Z",
		},
		{
			"2026-01-01T00:00:00Z",
			"America/Asuncion 2026-03-22T03:00:00Z, America/Coyhaique added, America/Scoresbysund " +
				"2026-01-01T00:00:00Z, " +
				"Antarctica/Casey 2026-01-01T00:00:00Z, Antarctica/Vostok 2026-01-01T00:00:00Z, Asia/Almaty " +
				"2026-01-01T00:00:00Z, " +
				"Asia/Qostanay 2026-01-01T00:00:00Z",
		},
	} {
		from, _ := ParseInstant(c.from)
		var got []string
		for _, d := range Diff(old, Embedded(), from, from+10*366*msPerDay) {
			s := d.Zone + " " + utcString(d.At)
			if d.Added {
				s = d.Zone + " added"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("from %s:\n got %s\nwant %s", c.from, s, c.want)
		}
	}
	if d := Diff(Embedded(), Embedded(), 0, 100*366*msPerDay); len(d) > 0 {
		t.Errorf("a release differs from itself: %v", d)
	}
}
