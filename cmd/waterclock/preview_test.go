package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
)

func TestPreview(t *testing.T) {
	cli(t, nil, "", "preview", "--every", "FREQ=DAILY", "--start", "2026-03-07T02:30", "--tz", "America/New_York", "-n",
		"3",
		"--after", "2026-03-01T00:00:00Z").want(t, exitOK,
		"every day at 02:30, New York time\n\nLOCAL                OFFSET  UTC                   NOTE\n",
		"2026-03-08T03:30:00  -04:00  2026-03-08T07:30:00Z  gap: shifted 1h\n")
	cli(t, nil, "", "preview", "--every", "FREQ=DALY").want(t, exitUsage, "invalid_rule: recurrence:")
	for _, bad := range [][]string{
		{"--every", "FREQ=DALY", "--year", "2026"},
		{"--every", "FREQ=DAILY", "-n", "0"},
		{"--every", "FREQ=DAILY", "-n", "10001"},
		{"--in", "soon"},
		{"--at", "2026-11-20T09:00", "--tz", "Europe/Berln"},
		{"--every", "FREQ=DAILY", "--dst-gap", "jump"},
		{"--every", "FREQ=DAILY", "--dst-gap", "jump", "--year", "2026"},
		{"--every", "FREQ=DAILY", "--after", "then"},
		{"--every", "FREQ=DAILY", "--month", "2026-13"},
	} {
		cli(t, nil, "", append([]string{"preview"}, bad...)...).want(t, exitUsage)
	}
	cli(t, nil, "", "preview", "--every", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30").want(t, exitUsage, "no_occurrences")
	cli(t, nil, "", "preview", "--every", "FREQ=DAILY", "-n", "10000", "-o", "ndjson").want(t, exitOK)
	cli(t, nil, "", "preview", "--help").want(t, exitOK, "at most 10000")
	cli(t, nil, "", "preview", "--every", "FREQ=DAILY;UNTIL=20200101T000000Z", "--start",
		"2019-01-01T00:00:00Z").want(t,
		exitOK, "does not fire again")
	cli(t, nil, "", "preview").want(t, exitUsage, "exactly one of")
}

// The table and the pictures show what dst.gap "skip" leaves out.
func TestPreviewLeftOut(t *testing.T) {
	rule := []string{
		"preview", "--every", "FREQ=DAILY", "--start", "2026-03-01T02:30", "--tz", "America/New_York",
		"--dst-gap", "skip",
	}
	with := func(more ...string) result { return cli(t, nil, "", append(slices.Clone(rule), more...)...) }
	with("--after", "2026-03-07T00:00:00Z", "-n", "2").want(t, exitOK, "2026-03-08T02:30:00",
		"gap: skipped, clocks jump from 02:00 to 03:00")
	with("--month", "2026-03").want(t, exitOK, "[ 7]  8!\n[ 9]",
		"Su 2026-03-08  02:30 (gap: skipped, clocks jump from 02:00 to 03:00)\n")
	with("--year", "2026").want(t, exitOK, "[ 7]  8!",
		"it fires on 305 days of 2026, and DST leaves it out on 1 day, marked !")
	for _, format := range []string{"json", "ndjson"} {
		if r := with("--after", "2026-03-07T00:00:00Z", "-o", format); strings.Contains(r.out, "skipped") {
			t.Errorf("-o %s has more than the contract's occurrences: %s", format, r.out)
		}
	}
}

// Each question gets one line, in order and with its id, whatever the question is.
func TestPreviewLines(t *testing.T) {
	questions := strings.Join([]string{
		`{"id":1,"fire_at":"2026-11-20T09:00:00Z","after":"2026-01-01T00:00:00Z"}`,
		`{"id":"two","recurrence":"FREQ=DALY"}`,
		``,
		`garbled`,
		`{"id":4,"fire_at":"` + strings.Repeat("9", maxLine) + `"}`,
		`{"id":5,"n":1,"n":2}`,
		`{"id":5,"delay":"7m","after":"2026-01-01T00:00:00Z"}`,
	}, "\n")
	r := cli(t, nil, questions, "preview", "--jsonl")
	r.want(t, exitOK)
	want := []string{
		`{"id":1,"occurrences":[{"at":"2026-11-20T09:00:00Z"`,
		`"status":422,"code":"invalid_rule","field":"recurrence"`,
		`{"type":"urn:waterclock:problem:malformed","title":"Bad Request","status":400,"code":"malformed","detail":"the body is not JSON`,
		`"status":413,"code":"too_large"`,
		`{"id":5,"type":"urn:waterclock:problem:invalid","title":"Unprocessable Entity","status":422,"code":"invalid","field":"n"`,
		`{"id":5,"occurrences":[{"at":"2026-01-01T00:07:00Z"`,
	}
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), r.out)
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d is %s, want %s", i+1, lines[i], want[i])
		}
	}
	if !strings.HasPrefix(lines[1], `{"id":"two"`) {
		t.Errorf("a problem without its question's id: %s", lines[1])
	}
}

// A preview asks for calendars only if the user named a server.
func TestPreviewLinesWithCalendars(t *testing.T) {
	kafka, url := startDev(t)
	cli(t, nil, "2030-01-02\n", "calendar", "put", "office", "--brokers", kafka).want(t, exitOK)
	question := func(name string) string {
		return `{"id":1,"recurrence":"FREQ=DAILY","start":"2030-01-01T09:00","after":"2030-01-01T00:00:00Z","n":2,"calendars":{"names":["` + name + `"],"on":"skip"}}` + "\n"
	}
	both := question("office") + question("nobodys") + question("office")
	for _, door := range [][]string{{"--brokers", kafka}, {"--url", url}} {
		r := cli(t, nil, both, append([]string{"preview", "--jsonl"}, door...)...)
		r.want(t, exitOK,
			`{"id":1,"occurrences":[{"at":"2030-01-01T09:00:00Z","local":"2030-01-01T09:00:00Z"},{"at":"2030-01-03T09:00:00Z"`,
			`"code":"invalid","field":"calendars","detail":"there is no calendar`)
		if strings.Count(r.out, "occurrences") != 2 {
			t.Errorf("by %v: %s", door, r.out)
		}
	}
	cli(t, nil, question("office"), "preview", "--jsonl").want(t, exitOK,
		`{"id":1,"type":"urn:waterclock:problem:unsupported"`, `"status":422`, "add --brokers or --url")
	cli(t, nil, both+`{"delay":"1s"}`, "preview", "--jsonl", "--url", "http://"+nobody(t)).want(t, exitOK,
		`{"id":1,"type":"urn:waterclock:problem:unavailable","title":"Service Unavailable","status":503,"code":"unavailable","field":"calendars","detail":"no API answers`, `{"occurrences":[`)
}

// A program may wait for each answer before it asks again.
func TestPreviewConversation(t *testing.T) {
	questions, ask := io.Pipe()
	hear, answers := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- run(t.Context(), []string{"preview", "--jsonl"}, stdio{in: questions, out: answers, err: io.Discard})
		answers.Close()
	}()
	in := bufio.NewScanner(hear)
	for i := range 3 {
		fmt.Fprintf(ask, `{"id":%d,"delay":"1m"}`+"\n", i)
		if !in.Scan() {
			t.Fatal("no answer")
		}
		var answer struct{ ID int }
		if err := json.Unmarshal(in.Bytes(), &answer); err != nil || answer.ID != i {
			t.Fatalf("answer %s (%v), want that of %d", in.Text(), err, i)
		}
	}
	ask.Close()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
}

// An interrupted run is no success, and ends with a whole line.
func TestPreviewInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var out bytes.Buffer
	line := `{"delay":"1m"}` + "\n"
	questions := &thenStop{strings.NewReader(line + line + line), stop}
	code := run(ctx, []string{"preview", "--jsonl"}, stdio{in: questions, out: &out, err: io.Discard})
	if code == exitOK || !strings.HasSuffix(out.String(), "}\n") {
		t.Errorf("exit code %d, printed %q", code, out.String())
	}
}

// thenStop stops the run after the first question of a block.
type thenStop struct {
	io.Reader

	stop func()
}

func (r *thenStop) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.stop()
	return n, err
}

// TestCalendarsNeedADoor: the code unsupported is exit code 2, whoever refuses it.
func TestCalendarsNeedADoor(t *testing.T) {
	for _, more := range [][]string{nil, {"--month", "2026-12"}} {
		args := append([]string{"preview", "--every", "FREQ=DAILY", "--calendars", "us"}, more...)
		cli(t, nil, "", args...).want(t, exitUsage, "unsupported: calendars: named calendars are in Kafka")
	}
}

func FuzzPreviewLine(f *testing.F) {
	for _, seed := range []string{
		"{}\n", "\n\n", "x", `{"delay":"1s"}` + "\n" + `{"delay":`,
		`{"id":[1,{}],"n":1e9,"fire_at":1}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, questions string) {
		r := cli(t, nil, questions, "preview", "--jsonl")
		asked := 0
		for _, line := range strings.Split(questions, "\n") {
			if strings.TrimSpace(line) != "" {
				asked++
			}
		}
		if n := strings.Count(r.out, "\n"); n != asked || r.code != exitOK {
			t.Fatalf("%d answers to %d questions, exit code %d: %q", n, asked, r.code, r.out)
		}
	})
}
