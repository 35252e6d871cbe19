package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// notJSON lists verbs without JSON output, or that this test cannot run, with the reason.
var notJSON = map[string]string{
	"dev": "runs until it is stopped", "serve": "runs until it is stopped", "man": "writes files",
	"help": "for people", "completion": "for shells", "bench": "TestBenchJSON, and takes long",
	"history migrate": "needs Cassandra", "history switch": "TestHistorySwitch, and needs Cassandra",
	"calendar delete":   "TestCalendarDelete, and works once",
	"backup":            "TestBackup, and wants a new directory each time",
	"dead-letters show": "TestDeadLetters of test/e2e, and needs one",
	"redrive":           "TestDeadLetters of test/e2e, and needs one",
	"notifications get": "TestNotificationsOfEscalation, and needs one",
	"channels list":     "TestChannels", "channels remove": "TestChannels, and works once",
}

// jsonArgs are arguments for every other verb, in an order that works. DIR is the test's own
// directory.
var jsonArgs = []string{
	"schedule k --in 1h --channel orders --tag team=seats", "schedule w --in 100ms --channel orders --wait",
	"schedule r --every every:1h",
	"schedule old --in 1ms --channel orders", "get k", "reveal k", "list", "search k", "explain k", "occurrences k",
	"watch k",
	"reschedule k --in 2h", "snooze k --for 3h", "pause k", "resume k", "run k", "skip r", "rezone z --tz Asia/Tokyo",
	"ack k", "cancel k", "erase k",
	"apply -f DIR/triggers.yaml", "diff -f DIR/triggers.yaml",
	"preview --every FREQ=DAILY --start 2030-01-01T09:00 --tz Europe/Berlin",
	"events tail --from-beginning -n 1", "events record --dir DIR/history", "events verify --from DIR/history",
	"events export --dir DIR/lake", "events views --dir DIR/lake",
	"report slo --dir DIR/lake",
	"due tail orders --from-beginning -n 1",
	"topics plan", "topics apply", "doctor", "calendar put us DIR/us.json", "calendar list", "calendar get us",
	"preferences set ada DIR/ada.json", "preferences get ada",
	"notifications list --user ada", "erase --user leaver", "erase --user leaver --wait",
	"endpoints list", "endpoints test http://127.0.0.1:1/hook", "tzdata status",
	"watermark", "rejected list", "rejected list --group-by code", "audit", "whoami",
	"lateness", "live -n 2 --states", "forecast -n 3",
	"tzdata apply embedded --dry-run",
	"history rebuild --no-compare --dir DIR/fresh",
	"dead-letters list", "dead-letters list --group-by code", "dead-letters redrive --all --dry-run",
	"sim --days 0.01 --triggers 10 --partitions 1 --faults kill", "sim --faults list",
	"reconcile", "templates preview hello --templates-dir DIR/texts",
	"config show", "config validate", "version",
}

// TestEveryVerbSpeaksJSON runs every verb with -o json and with --jq against a `waterclock dev`.
// A new verb must be added to one of the lists.
func TestEveryVerbSpeaksJSON(t *testing.T) {
	kafka, url := startDev(t, "--set", "watermarks.interval=100ms")
	dir := t.TempDir()
	for name, text := range map[string]string{
		"triggers.yaml": "- {id: a, delay: 7h}\n",
		"us.json":       `{"dates":["2030-07-04"]}`,
		"ada.json":      `{"opted_out_channels":["sms"],"timezone":"Asia/Tokyo"}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	texts := filepath.Join(dir, "texts")
	if err := errors.Join(os.Mkdir(texts, 0o700), os.WriteFile(filepath.Join(texts, "hello.tmpl"),
		[]byte(`{{ define "title" }}Hello{{ end }}`), 0o600)); err != nil {
		t.Fatal(err)
	}
	global := []string{"--brokers", kafka, "--data-dir", filepath.Join(dir, "data"), "-o", "json"}
	cli(t, nil, "", append(global, "schedule", "z", "--at", "2030-01-01T09:00", "--tz", "Europe/Berlin")...).want(t,
		exitOK)
	left := leaves(newRoot(newApp(stdio{})), nil)
	for _, line := range jsonArgs {
		args := strings.Fields(strings.ReplaceAll(line, "DIR", dir))
		verb := leafOf(left, args)
		if verb == "" {
			t.Errorf("%s is no verb", line)
			continue
		}
		left[verb] = true
		t.Run(verb, func(t *testing.T) { speaksJSON(t, append(global, "--url", url), args) })
	}
	for verb, tried := range left {
		if first, _, _ := strings.Cut(verb, " "); !tried && notJSON[first] == "" && notJSON[verb] == "" {
			t.Errorf("%s: nobody has looked at its -o json", verb)
		}
	}
}

// speaksJSON checks that all output is JSON, and that a filter works on it.
func speaksJSON(t *testing.T, global, args []string) {
	r := timed(t, append(global[:len(global):len(global)], args...))
	dec, n := json.NewDecoder(strings.NewReader(r.out)), 0
	for ; ; n++ {
		var v any
		if err := dec.Decode(&v); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v: %v\nout: %s\nerr: %s", args, err, r.out, r.err)
		}
	}
	if n == 0 || r.code != exitOK && args[0] != "diff" && args[0] != "doctor" &&
		args[1] != "test" { // its exit code is the result of the check
		t.Fatalf("%v: exit code %d, %d values\nout: %s\nerr: %s", args, r.code, n, r.out, r.err)
	}
	if args[0] == "watch" || strings.Contains(strings.Join(args, " "), "--wait") {
		return
	}
	if f := timed(t, append(global[:len(global):len(global)],
		append([]string{"--jq", `"it is " + type`}, args...)...)); !strings.HasPrefix(f.out, "it is ") {
		t.Errorf("%v --jq: %d\nout: %s\nerr: %s", args, f.code, f.out, f.err)
	}
}

// timed runs a verb, and stops it if it follows a stream.
func timed(t *testing.T, args []string) result {
	var out, errs strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if args[len(args)-2] == "watch" {
		time.AfterFunc(time.Second, cancel)
	}
	code := run(ctx, args, stdio{in: strings.NewReader(""), out: &out, err: &errs})
	return result{code, out.String(), errs.String()}
}

// leaves returns the verbs without subcommands, by their words, but not those that no user calls.
func leaves(cmd *cobra.Command, path []string) map[string]bool {
	all := map[string]bool{}
	for _, below := range cmd.Commands() {
		if below.Hidden {
			continue
		}
		words := append(path[:len(path):len(path)], below.Name())
		if !below.HasSubCommands() {
			all[strings.Join(words, " ")] = false
		}
		for verb := range leaves(below, words) {
			all[verb] = false
		}
	}
	return all
}

func leafOf(verbs map[string]bool, args []string) string {
	for _, n := range []int{2, 1} {
		if verb := strings.Join(args[:min(n, len(args))], " "); len(args) >= n {
			if _, ok := verbs[verb]; ok {
				return verb
			}
		}
	}
	return ""
}

// startDev runs `waterclock dev` in this process until the test ends.
func startDev(t *testing.T, more ...string) (kafka, url string) {
	out, printed := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{
			"dev", "--listen", "127.0.0.1:0", "--kafka-listen", "127.0.0.1:0", "--data-dir",
			filepath.Join(t.TempDir(), "dev"),
			"--set", "log.level=error",
		}, more...), stdio{in: strings.NewReader(""), out: printed, err: os.Stderr})
		printed.Close()
	}()
	t.Cleanup(func() { stop(); <-ended })
	lines := bufio.NewScanner(out)
	for url == "" && lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) > 1 && words[0] == "Kafka":
			kafka = words[1]
		case len(words) > 1 && words[0] == "HTTP":
			url = words[1]
		}
	}
	if url == "" {
		t.Fatal("dev ended before it said where it listens")
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	return kafka, url
}
