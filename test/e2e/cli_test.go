package e2e

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// step is one line a user types, and what must come of it.
type step struct {
	name string
	line string // split at spaces; ~ stands for one inside a word
	code int
	want []string // regular expressions found in what it prints, on either stream
}

func (s step) args() []string {
	args := strings.Fields(s.line)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "~", " ")
	}
	return args
}

// TestCommandLine types every verb, once through Kafka and once through the
// HTTP API, at dev and at serve.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, w *world) {
		doors := map[string][]string{"kafka": w.flags, "http": {"--url", "http://" + w.node.http}}
		for _, door := range []string{"kafka", "http"} {
			through := *w
			through.flags = doors[door]
			t.Run("through "+door, func(t *testing.T) {
				for _, s := range triggerSteps(door + "-") {
					typed(t, &through, s)
				}
			})
		}
		for _, s := range operatorSteps(w) {
			typed(t, w, s)
		}
		t.Run("lists", func(t *testing.T) { listsOverCLI(t, w) })
		t.Run("watch", func(t *testing.T) { watches(t, w) })
		t.Run("tails", func(t *testing.T) { tails(t, w) })
		t.Run("files and standard input", func(t *testing.T) { payloadsOverCLI(t, w) })
		t.Run("formats", func(t *testing.T) { formats(t, w) })
	})
}

func typed(t *testing.T, w *world, s step) {
	t.Helper()
	out, code, stderr := w.cli(t, s.args()...)
	if code != s.code {
		t.Errorf("%s: waterclock %s: exit code %d, want %d\n%s%s", s.name, s.line, code, s.code, out, stderr)
	}
	for _, want := range s.want {
		if !regexp.MustCompile("(?s)" + want).MatchString(out + stderr) {
			t.Errorf("%s: waterclock %s: no %q in\n%s%s", s.name, s.line, want, out, stderr)
		}
	}
}

// triggerSteps is the life of some triggers whose keys begin with p.
func triggerSteps(p string) []step {
	const instant = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`
	steps := []step{
		{
			"in and wait", "schedule K-tea --in 1s --data {\"say\":\"tea\"} --wait", 0,
			[]string{`occurrence\.fired`, `K-tea`, `late by +\d+ ms`},
		},
		{"again, the same", "schedule K-tea --in 1s --data {\"say\":\"tea\"}", 0, []string{`FIRED|duplicate|decided`}},
		{"too late to cancel", "cancel K-tea", 4, []string{"fired"}},
		{
			"at an instant",
			"schedule K-at --at 2031-01-01T00:00:00Z --channel orders --user u1 --tag type=x --priority high", 0,
			[]string{"2031-01-01T00:00:00.000Z"},
		},
		{
			"at a local time", "schedule K-local --at 2031-07-01T09:00 --tz Europe/Berlin", 0,
			[]string{"2031-07-01T07:00:00.000Z"},
		},
		{
			"every, a rule",
			"schedule K-rule --every FREQ=WEEKLY;BYDAY=MO --start 2031-01-06T09:00 --tz America/New_York",
			0,
			[]string{"2031-01-06T14:00:00.000Z"},
		},
		{"every, cron", "schedule K-cron --every 0~9~*~*~1-5", 0, []string{"T09:00:00.000Z"}},
		{"every, a duration", "schedule K-every --every 15m", 0, []string{instant}},
		{"get", "get K-at", 0, []string{"PENDING", "orders", "u1", "high"}},
		{"get two, one missing", "get K-at K-nobody", 3, []string{"K-at", "not_found"}},
		{"reschedule", "reschedule K-at --in 2h", 0, []string{`revision +2`}},
		{"reschedule in vain", "reschedule K-at --in 3h --if-revision 1", 4, []string{"conflict"}},
		{"snooze", "snooze K-at --for 1h", 0, []string{`revision +3`, "PENDING"}},
		{"snooze without a time", "snooze K-at", 2, []string{"--for or --until"}},
		{"pause", "pause K-at --note closed", 0, []string{"PAUSED"}},
		{"get what is paused", "get K-at", 0, []string{"PAUSED", "closed"}},
		{"run while paused", "run K-at", 0, []string{`fired|decided`}},
		{"resume", "resume K-at", 0, []string{"PENDING"}},
		{"if absent", "schedule K-at --in 1h --if-absent", 4, []string{"exists"}},
		{"idempotent", "schedule K-idem --in 1h --idempotency-key k1", 0, nil},
		{"idempotent again", "schedule K-idem --in 1h --idempotency-key k1", 0, nil},
		{"idempotent otherwise", "schedule K-idem --in 2h --idempotency-key k1", 4, []string{"idempotency_conflict"}},
		{"run a one-shot", "run K-idem", 0, nil},
		{"cancel two", "cancel K-at K-idem", 0, []string{"K-at.*K-idem"}},
		{"cancel nobody", "cancel K-nobody", 3, nil},
		{"pause nobody", "pause K-nobody2", 3, []string{"not_found"}},
		{"snooze nobody", "snooze K-nobody2 --for 1m", 3, []string{"not_found"}},
		{"resume nobody", "resume K-nobody2", 3, []string{"not_found"}},
		{"run nobody", "run K-nobody2", 3, []string{"not_found"}},
		{"a rule nobody understands", "schedule K-bad --every FREQ=SOMETIMES", 2, []string{"invalid_rule"}},
		{
			"a zone with a slip", "schedule K-bad --at 2031-01-01T09:00 --tz Europe/Berln", 2,
			[]string{"unknown_zone", "Europe/Berlin"},
		},
		{"two times", "schedule K-bad --in 1s --at 2031-01-01T00:00:00Z", 2, []string{"exactly one"}},
		{"no time", "schedule K-bad", 2, []string{"exactly one"}},
		{"no key", "schedule --in 1s", 2, []string{"KEY"}},
		{"a bad key", "schedule /x --in 1s", 2, []string{"/x"}},
		{"data that is no JSON", "schedule K-bad --in 1s --data hello", 2, []string{"JSON"}},
		{"unknown flag", "schedule K-bad --inn 1s", 2, []string{"inn"}},
		{"unknown verb", "shedule K-bad", 2, []string{"schedule"}},
		{"write and go", "schedule K-go --in 1h --decision-timeout 0 -o json", 0, []string{`"trigger_id": "K-go"`}},
	}
	for i := range steps {
		steps[i].line = strings.ReplaceAll(steps[i].line, "K-", p)
		for j := range steps[i].want {
			steps[i].want[j] = strings.ReplaceAll(steps[i].want[j], "K-", p)
		}
	}
	return steps
}

// operatorSteps are the verbs about the system itself.
func operatorSteps(w *world) []step {
	return []step{
		{"version", "version -o json", 0, []string{`"version"`, `"go"`}},
		{"config show", "config show", 0, []string{"brokers +" + regexp.QuoteMeta(w.brokers[0]) + " +flag"}},
		{"config show as JSON", "config show -o json --changed", 0, []string{`"key": "brokers"`}},
		{"config validate", "config validate", 0, []string{"ok"}},
		{
			"config validate, wrong", "config validate --set topics.partitions=-3 --set dedup.horizon=soon", 2,
			[]string{"topics.partitions.*dedup.horizon|dedup.horizon.*topics.partitions"},
		},
		{"config, unknown setting", "config validate --set topics.partition=3", 2, []string{"topics.partitions"}},
		{"topics plan, nothing to do", "topics plan -o ndjson", 0, []string{"have the required settings"}},
		{"topics apply, nothing to do", "topics apply -o json", 0, []string{`\[\]`}},
		{"topics plan, too many partitions", "topics plan --set topics.partitions=8", 4, []string{"partition"}},
		{
			"topics apply, too many partitions", "topics apply --set topics.partitions=8", 4,
			[]string{"topics.partitions"},
		},
		{"no broker there", "topics plan --brokers 127.0.0.1:1", 1, []string{"no broker answers", "waterclock dev"}},
		{"no API there", "list --url http://127.0.0.1:1", 1, []string{"no API answers"}},
		{"a format of our own", "list -o yaml", 2, []string{"table, json or ndjson"}},
		{"completion", "completion bash", 0, []string{"complete"}},
		{"completion zsh", "completion zsh", 0, []string{"compdef"}},
		{"completion fish", "completion fish", 0, []string{"complete -c waterclock"}},
		{"completes verbs", "__complete sch", 0, []string{"schedule"}},
		{"completes formats", "__complete list -o n", 0, []string{"ndjson"}},
		{"a channel nobody used", "due tail nobody --no-follow", 3, []string{"nobody"}},
		{"help", "", 0, []string{"schedule.*list.*doctor"}},
	}
}

// lines are the JSON lines of an output.
func lines(t *testing.T, out string) (all []map[string]any) {
	t.Helper()
	for line := range strings.Lines(out) {
		var v map[string]any
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

// must is a call that has to end well.
func (w *world) must(t *testing.T, args ...string) string {
	t.Helper()
	out, code, stderr := w.cli(t, args...)
	if code != 0 {
		t.Fatalf("waterclock %s: exit code %d\n%s%s", strings.Join(args, " "), code, out, stderr)
	}
	return out
}

// listsOverCLI: what is paused has no next time and comes last.
func listsOverCLI(t *testing.T, w *world) {
	for i := range 6 {
		args := []string{
			"schedule", fmt.Sprintf("list-%d", i), "--at", fmt.Sprintf("2032-01-0%dT00:00:00Z", i+1),
			"--user", fmt.Sprintf("lu%d", i%2), "--tag", fmt.Sprintf("color=c%d", i%3),
		}
		if i > 3 {
			args = append(args, "--channel", "lists")
		}
		w.must(t, args...)
	}
	w.must(t, "pause", "list-0")
	w.must(t, "cancel", "list-1")
	for _, c := range []struct{ name, line, want string }{
		{"user", "list --user lu0", "list-2 list-4 list-0"},
		{"user and state", "list --user lu0 --state pending", "list-2 list-4"},
		{"channel", "list --channel lists", "list-4 list-5"},
		{"tag", "list --tag color:c1 --user lu0", "list-4"},
		{"from and to", "list --from 2032-01-03T00:00:00Z --to 2032-01-05T00:00:00Z", "list-2 list-3"},
		{"state", "list --state cancelled --tag color:c1", "list-1"},
		{"limit", "list --user lu0 --limit 1", "list-2"},
		{"nothing", "list --user lu9", ""},
	} {
		var ids []string
		for _, v := range lines(t, w.must(t, append(strings.Fields(c.line), "-o", "ndjson")...)) {
			ids = append(ids, fmt.Sprint(v["trigger_id"]))
		}
		if got := strings.Join(ids, " "); got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.name, c.line, got, c.want)
		}
	}
}

// watches follows a trigger from before its firing, and ends on interrupt.
func watches(t *testing.T, w *world) {
	w.must(t, "schedule", "watched", "--in", "1500ms")
	file, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, append([]string{"watch", "watched", "-o", "ndjson"}, w.flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fired := false
	for scan := bufio.NewScanner(out); !fired && scan.Scan(); {
		var e map[string]any
		if err := json.Unmarshal(scan.Bytes(), &e); err != nil || e["trigger"] != "watched" {
			t.Errorf("%s: %v", scan.Text(), err)
		}
		fired = e["type"] == "occurrence.fired"
	}
	if !fired {
		t.Error("the firing was not shown")
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after an interrupt: %v", err)
	}
}

func tails(t *testing.T, w *world) {
	w.must(t, "schedule", "tailed", "--in", "0s", "--channel", "tails", "--data", `{"n":1}`, "--header", "note=a",
		"--wait")
	bin := filepath.Join(t.TempDir(), "bytes")
	if err := os.WriteFile(bin, everyByte, 0o600); err != nil {
		t.Fatal(err)
	}
	w.must(t, "schedule", "tailed-bytes", "--in", "0s", "--channel", "tails", "--data", "@"+bin, "--wait")
	byKey := map[string]map[string]any{}
	for _, v := range lines(t, w.must(t, "due", "tail", "tails", "--from-beginning", "-n", "2", "-o", "ndjson")) {
		byKey[fmt.Sprint(v["key"])] = v
	}
	first, second := byKey["tailed"], byKey["tailed-bytes"]
	headers, _ := first["headers"].(map[string]any)
	if value, _ := first["value"].(map[string]any); value["n"] != 1.0 || headers["note"] != "a" ||
		headers["ce_subject"] != "tailed" {
		t.Errorf("due line: %v", first)
	}
	if want := base64.StdEncoding.EncodeToString(everyByte); second["value_base64"] != want || second["value"] != nil {
		t.Errorf("due line of bytes: %v", second)
	}
	got := w.must(t, "events", "tail", "--from-beginning", "--no-follow", "-o", "ndjson", "--trigger", "tailed", "--jq",
		".type")
	if want := "trigger.registered\noccurrence.fired\n"; got != want {
		t.Errorf("events: %q, want %q", got, want)
	}
	for _, e := range lines(t, w.must(t, "events", "tail", "--from-beginning", "--no-follow", "-o", "ndjson", "--type",
		"occurrence.*")) {
		if !strings.HasPrefix(fmt.Sprint(e["type"]), "occurrence.") {
			t.Errorf("--type let pass %v", e["type"])
		}
	}
}

func payloadsOverCLI(t *testing.T, w *world) {
	if out, code, stderr := waterclock(t, `{"from":"stdin"}`,
		w.line([]string{"schedule", "stdin", "--in", "1h", "--data", "-"})...); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, stderr)
	}
	a := w.call(t, http.MethodGet, "/v1/triggers/stdin", "")
	if payload, _ := a.body["payload"].(map[string]any); payload["from"] != "stdin" {
		t.Errorf("payload of standard input: %v", a)
	}
}

// formats: json and ndjson are JSON, a table has a head; none has the notes.
func formats(t *testing.T, w *world) {
	w.must(t, "schedule", "format", "--at", "2033-01-01T00:00:00Z", "--user", "fu")
	var list []map[string]any
	if err := json.Unmarshal([]byte(w.must(t, "list", "--user", "fu", "-o", "json")), &list); err != nil ||
		len(list) != 1 {
		t.Errorf("list -o json: %v %v", list, err)
	}
	if err := json.Unmarshal([]byte(w.must(t, "list", "--user", "nobody", "-o", "json")), &list); err != nil ||
		len(list) != 0 {
		t.Errorf("empty list -o json: %v %v", list, err)
	}
	var one map[string]any
	if err := json.Unmarshal([]byte(w.must(t, "get", "format", "-o", "json")), &one); err != nil ||
		one["trigger_id"] != "format" {
		t.Errorf("get -o json: %v %v", one, err)
	}
	if got := lines(t, w.must(t, "get", "format", "format", "-o", "ndjson")); len(got) != 2 {
		t.Errorf("get -o ndjson: %v", got)
	}
	if table := w.must(t, "list", "--user", "fu", "-o",
		"table"); !regexp.MustCompile(`(?s)^TRIGGER +STATE +NEXT.*\nformat +PENDING +2033-01-01T00:00:00.000Z`).
		MatchString(table) {
		t.Errorf("list as a table:\n%s", table)
	}
}

// TestTopicsApply makes what is missing, says so before, and does nothing twice.
func TestTopicsApply(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3)
	prefix := newName("apply") + "."
	flags := []string{
		"--brokers", strings.Join(c.brokers, ","), "--set", "topics.prefix=" + prefix, "--set",
		"topics.partitions=3", "-o", "ndjson",
	}
	// commands receipts state due.default events rejected dead-letter control endpoints watermarks
	// audit
	for i, want := range []int{11, 11, 0} {
		verb := []string{"plan", "apply", "plan"}[i]
		out, code, stderr := waterclock(t, "", append([]string{"topics", verb}, flags...)...)
		if made := strings.Count(out, `"create"`); code != 0 || made != want {
			t.Errorf("topics %s: exit code %d, %d topics to create, want %d\n%s%s", verb, code, made, want, out, stderr)
		}
	}
}

// TestBenchRedrive: a small run finds each dead letter sent once more, as it is.
func TestBenchRedrive(t *testing.T) {
	t.Parallel()
	out := run(t, "bench", "redrive", "--json", "--letters", "100", "--payload", "100")
	var r struct {
		PerS    float64 `json:"redriven_per_s"`
		RSSPeak int64   `json:"rss_peak_bytes"`

		Progress int `json:"progress_lines"`
		Second   int `json:"redriven_by_a_second_run"`
		Refused  int
		Lost     int
		Doubled  int
		Wrong    int
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if r.Progress < 1 || r.PerS <= 0 || r.RSSPeak <= 0 || r.Lost+r.Doubled+r.Wrong+r.Second+r.Refused > 0 {
		t.Errorf("bench redrive: %s", out)
	}
}

// TestBenchJSON: a small run on both brokers prints the contract's figures.
func TestBenchJSON(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4)
	for _, b := range []struct {
		name string
		args []string
	}{{"embedded", nil}, {"kafka", []string{"--brokers", strings.Join(c.brokers, ",")}}} {
		t.Run(b.name, func(t *testing.T) {
			out := run(t, append([]string{
				"bench", "--json", "--triggers", "2000", "--payload", "100", "--window", "1s",
				"--data-dir", t.TempDir(),
			}, b.args...)...)
			var r struct {
				Registers  float64                          `json:"registers_per_s"`
				Fires      float64                          `json:"fires_per_s"`
				Lateness   *struct{ P50, P99, Max float64 } `json:"lateness_ms"`
				CPU        float64                          `json:"cpu_seconds"`
				RSS        float64                          `json:"rss_bytes"`
				PerTrigger float64                          `json:"bytes_per_trigger"`
				Lost       int
				Duplicates int
				Early      int
			}
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if r.Registers <= 0 || r.Fires <= 0 || r.Lateness == nil || r.Lateness.Max <= 0 || r.CPU <= 0 ||
				r.RSS <= 0 || r.Lost+r.Duplicates+r.Early > 0 {
				t.Errorf("bench: %s", out)
			}
		})
	}
}
