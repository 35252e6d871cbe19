package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// result is the exit code and the output of one run.
type result struct {
	code     int
	out, err string
}

// cli runs the command line with its own environment.
func cli(t *testing.T, env []string, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(t.Context(), args, stdio{in: strings.NewReader(stdin), out: &out, err: &errs, env: env})
	return result{code, out.String(), errs.String()}
}

// want checks the exit code, and that the output contains the texts.
func (r result) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\nout: %s\nerr: %s", r.code, code, r.out, r.err)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.err, text) {
			t.Errorf("output lacks %q\nout: %s\nerr: %s", text, r.out, r.err)
		}
	}
}

// cluster starts an embedded broker with all topics.
func cluster(t *testing.T) (brokers string) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	brokers = strings.Join(c.ListenAddrs(), ",")
	cli(t, nil, "", "--brokers", brokers, "topics", "apply").want(t, exitOK, "waterclock.commands")
	return brokers
}

// fakeEngine replaces the engine. It answers every command with the events that decide returns,
// on the same partition of the event log, and then writes the trigger's state and its progress.
// If decide returns nil, it does not decide.
type fakeEngine struct {
	mu       sync.Mutex
	commands []string
	states   map[string]*trigger.State
}

func startEngine(t *testing.T, brokers string, decide func(key string,
	command map[string]any) []topics.Event,
) *fakeEngine {
	t.Helper()
	return startEngineWith(t, brokers, nil, decide)
}

func startEngineWith(t *testing.T, brokers string, states map[string]*trigger.State,
	decide func(key string, command map[string]any) []topics.Event,
) *fakeEngine {
	t.Helper()
	e := &fakeEngine{states: states}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers), kgo.ConsumeTopics("waterclock.commands"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done; cl.Close() })
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { e.answer(ctx, cl, r, decide) })
		}
	}()
	return e
}

func (e *fakeEngine) answer(ctx context.Context, cl *kgo.Client, r *kgo.Record,
	decide func(string, map[string]any) []topics.Event,
) {
	e.mu.Lock()
	e.commands = append(e.commands, string(r.Value))
	e.mu.Unlock()
	var command map[string]any
	_ = json.Unmarshal(r.Value, &command)
	events := decide(string(r.Key), command)
	for _, event := range events {
		event.Trigger = string(r.Key)
		if event.Source == "" && event.Type != "occurrence.fired" {
			event.Source = fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset)
		}
		value, _ := json.Marshal(event)
		cl.ProduceSync(ctx, &kgo.Record{Topic: "waterclock.events", Partition: r.Partition, Key: r.Key, Value: value})
	}
	if events == nil {
		return
	}
	if st := e.states[string(r.Key)]; st != nil {
		value, _ := topics.AppendState(nil, st)
		cl.ProduceSync(ctx, &kgo.Record{Topic: "waterclock.state", Partition: r.Partition, Key: r.Key, Value: value})
	}
	value, _ := topics.AppendProgress(nil, &topics.Progress{NextCommand: r.Offset + 1})
	cl.ProduceSync(ctx, &kgo.Record{
		Topic: "waterclock.state", Partition: r.Partition, Key: topics.KeyProgress,
		Value: value,
	})
}

func (e *fakeEngine) last() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.commands[len(e.commands)-1]
}

// nobody returns an address where nothing listens.
func nobody(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestUsage(t *testing.T) {
	for _, row := range []struct {
		name string
		args []string
		want string
	}{
		{"unknown verb", []string{"shedule", "k", "--in", "7m"}, "schedule"},
		{"unknown flag", []string{"schedule", "k", "--inn", "7m"}, "unknown flag: --inn; did you mean --in?"},
		{"unknown flag of a verb below", []string{"tzdata", "status", "--jqq", "."}, "did you mean --jq?"},
		{"unknown flag like none", []string{"list", "--zzzz"}, "(waterclock list --help lists the flags)"},
		{"no key", []string{"cancel"}, "needs the KEY"},
		{"two keys", []string{"schedule", "a", "b", "--in", "1m"}, "one KEY"},
		{"bad key", []string{"cancel", "/x"}, "not a trigger key"},
		{"no time", []string{"schedule", "k"}, "exactly one of --in, --at and --every"},
		{"two times", []string{"schedule", "k", "--in", "7m", "--at", "x"}, "exactly one of"},
		{"a time without a zone", []string{"schedule", "k", "--at", "2026-12-01T09:00"}, "add --tz Europe/Berlin"},
		{
			"a time with a blank",
			[]string{"preview", "--at", "2026-12-01 09:00", "--tz", "Europe/Berlin"},
			"2026-12-01T09:00",
		},
		{
			"an empty zone",
			[]string{"schedule", "k", "--every", "FREQ=DAILY", "--tz", ""},
			"--tz is empty: omit it for UTC",
		},
		{"an empty zone in a preview", []string{"preview", "--every", "FREQ=DAILY", "--tz="}, "--tz is empty"},
		{
			"an empty zone in a picture",
			[]string{"preview", "--every", "FREQ=DAILY", "--tz=", "--year", "2026"},
			"--tz is empty",
		},
		{
			"an empty zone of a reschedule",
			[]string{"reschedule", "k", "--every", "FREQ=DAILY", "--tz="},
			"--tz is empty",
		},
		{"an empty zone to move to", []string{"rezone", "k", "--tz="}, "with --tz"},
		{"an empty start", []string{"schedule", "k", "--every", "FREQ=DAILY", "--start", ""}, "--start is empty"},
		{"an empty after", []string{"preview", "--every", "FREQ=DAILY", "--after", ""}, "--after is empty"},
		{"data is no JSON", []string{"schedule", "k", "--in", "7m", "--data", "hello"}, "--data is not JSON"},
		{"data file missing", []string{"schedule", "k", "--in", "7m", "--data", "@/does/not/exist"}, "no such file"},
		{"tag without value", []string{"schedule", "k", "--in", "7m", "--tag", "a"}, "name=value"},
		{"snooze without time", []string{"snooze", "k"}, "--for or --until"},
		{"rezone without zone", []string{"rezone", "k"}, "--tz"},
		{"format", []string{"version", "-o", "yaml"}, "table, json or ndjson"},
		{"filter", []string{"version", "--jq", ".["}, "--jq"},
		{"setting", []string{"config", "show", "--set", "topics.partitons=3"}, "did you mean topics.partitions?"},
		{
			"help about what is not there",
			[]string{"help", "shedule"},
			"there is no waterclock shedule; did you mean schedule?",
		},
		{"help about what is not there below", []string{"help", "events", "tial"}, "did you mean tail?"},
		{"help about the argument of a verb", []string{"help", "cancel", "k"}, "there is no waterclock cancel k"},
		{"a shell nobody knows", []string{"completion", "tcsh"}, "there is no waterclock completion tcsh"},
		{
			"a rule without a day",
			[]string{"preview", "--every", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30"},
			"no_occurrences",
		},
		{"erase of nobody", []string{"erase", "--user", ""}, "--user is empty"},
		{"erase of a user and a trigger", []string{"erase", "k", "--user", "u"}, "not both"},
		{"erase of a trigger, waiting", []string{"erase", "k", "--wait"}, "--wait goes with --user"},
		{
			"roles of dev",
			[]string{"dev", "--roles", "engine"},
			"dev runs every role in one process: --roles is for waterclock serve",
		},
		{"roles of dev by --set", []string{"dev", "--set", "roles=engine"}, "--roles is for waterclock serve"},
		{"an empty user", []string{"list", "--user", ""}, "--user is empty"},
		{"an empty state", []string{"list", "--state="}, "--state is empty"},
		{"an empty channel", []string{"list", "--channel="}, "--channel is empty"},
		{"an empty from", []string{"list", "--from="}, "--from is empty"},
		{"an empty to", []string{"list", "--to="}, "--to is empty"},
		{"an empty label", []string{"list", "--tag="}, "write name=value"},
		{
			"not an instant",
			[]string{"list", "--from", "yesterday"},
			"write an instant such as 2026-11-20T14:00:00Z or 2026",
		},
		{
			"from after to",
			[]string{"list", "--from", "2061-01-01T00:00:00Z", "--to", "2060-01-01T00:00:00Z"},
			"--from 2061-01-01T00:00:00Z is after --to 2060-01-01T00:00:00Z: nothing lies between them",
		},
		{
			"from after to, in dead letters",
			[]string{"dead-letters", "redrive", "--from", "2061-01-01T00:00:00Z", "--to", "2060-01-01T00:00:00Z"},
			"is after --to",
		},
		{
			"from after to, in notifications",
			[]string{"notifications", "list", "--user=u", "--from=2061-01-01T00:00Z", "--to=2060-01-01T00:00Z"},
			"is after --to",
		},
		{
			"from after to, in refused commands",
			[]string{"rejected", "list", "--from", "2061-01-01T00:00Z", "--to", "2060-01-01T00:00Z"},
			"is after --to",
		},
		{
			"not an instant, in the audit log",
			[]string{"audit", "--from", "yesterday"},
			"write an instant such as 2026-11-20T14:00:00Z or 2026",
		},
		{"an empty trigger", []string{"events", "tail", "--trigger="}, "--trigger is empty"},
		{"events of a trigger", []string{"events", "tail", "c1"}, "write --trigger c1"},
		{"due events of no channel", []string{"due", "tail"}, "needs the name of one CHANNEL"},
		{"due events of a bad channel", []string{"due", "tail", "BAD NAME"}, "\"BAD NAME\" is not a channel: lower"},
		{
			"setting that is none",
			[]string{"config", "show", "--set", "nosuch=1"},
			"nosuch (flag --set nosuch): is not a setting",
		},
		{
			"setting with a bad value",
			[]string{"config", "show", "--set", "topics.partitions=x"},
			"topics.partitions (flag --set topics.partitions): ",
		},
		{"unknown verb below", []string{"events", "tial"}, "did you mean tail?"},
	} {
		t.Run(row.name, func(t *testing.T) { cli(t, nil, "", row.args...).want(t, exitUsage, row.want) })
	}
}

// A script whose variable is not set passes an empty flag. The register would not be the one that was meant.
func TestEmptyFieldsOfARegister(t *testing.T) {
	for _, name := range []string{
		"channel", "user", "data", "idempotency-key", "expires-after", "escalation", "callback-url", "callback-timeout",
	} {
		cli(t, nil, "", "schedule", "k", "--in", "7m", "--"+name, "").want(t, exitUsage, "--"+name+" is empty: omit it")
	}
	for _, verb := range [][]string{{"schedule", "k"}, {"reschedule", "k"}, {"preview"}} { // else it fires on holidays
		cli(t, nil, "", append(verb, "--every", "@daily", "--calendars", "")...).want(t, exitUsage,
			"--calendars is empty: omit it")
	}
}

func TestNobodyAnswers(t *testing.T) {
	address := nobody(t)
	cli(t, nil, "", "--brokers", address, "cancel", "k").want(t, exitFailed,
		"no broker answers at "+address+": start one with `waterclock dev`, or name yours with --brokers")
	cli(t, nil, "", "--url", "http://"+address, "get", "k").want(t, exitFailed,
		"no API answers at http://"+address+": start one with `waterclock dev`, or name yours with --url")
}

func TestVersionAndHelp(t *testing.T) {
	cli(t, nil, "", "version", "-o", "json", "--jq", ".version").want(t, exitOK, buildVersion())
	cli(t, nil, "").want(t, exitOK, "schedule", "--brokers")
	cli(t, nil, "", "completion").want(t, exitOK, "bash")
	cli(t, nil, "", "help", "events", "tail").want(t, exitOK, "Print events as they happen", "--no-follow")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		cli(t, nil, "", "completion", shell).want(t, exitOK, "waterclock")
	}
}

// The help of dev shows the defaults of dev.
func TestHelpShowsTheDefaultsOfDev(t *testing.T) {
	for verb, want := range map[string]string{"dev": "(default 4)", "serve": "(default 16)"} {
		r := cli(t, nil, "", verb, "--help")
		r.want(t, exitOK)
		for _, line := range strings.Split(r.out, "\n") {
			if strings.Contains(line, "--topics-partitions") && !strings.Contains(line, want) {
				t.Errorf("%s: %s", verb, line)
			}
		}
		if offered := strings.Contains(r.out, "--roles"); offered == (verb == "dev") {
			t.Errorf("%s offers --roles: %v", verb, offered)
		}
	}
}

// The help of dev and serve fits on a page, and names every setting.
func TestHelpIsBrief(t *testing.T) {
	for _, verb := range []string{"dev", "serve"} {
		r := cli(t, nil, "", verb, "--help")
		r.want(t, exitOK, "config show --docs", "  --memory-limit size ")
		if !slices.Contains(strings.Fields(r.out), "--webhook-breaker-open") { // wherever its line ends
			t.Errorf("the help of %s does not name --webhook-breaker-open", verb)
		}
		if n := strings.Count(r.out, "\n"); n > 70 {
			t.Errorf("the help of %s has %d lines", verb, n)
		}
		for _, s := range config.Settings() {
			flag := "--" + config.FlagName(s.Key)
			if !s.Named() && !s.Secret && flag != "--roles" && !strings.Contains(r.out, flag) {
				t.Errorf("the help of %s does not name %s", verb, flag)
			}
		}
	}
	cli(t, nil, "", "config", "show", "--docs").want(t, exitOK, "WHAT IT IS", "How many other members keep a warm copy")
	cli(t, nil, "", "config", "show", "--docs", "-o", "ndjson").want(t, exitOK,
		`{"key":"admin.listen","value":"","source":"default","doc":"Address of /healthz`)
}

func TestConfigShow(t *testing.T) {
	env := []string{"WATERCLOCK_LISTEN=127.0.0.1:9", "WATERCLOCK_WEBHOOK_SECRET=whsec_hunter2hunter2hunter2hunter2hunt"}
	r := cli(t, env, "", "--brokers", "a:1", "config", "show", "-o", "ndjson", "--changed")
	r.want(t, exitOK, `{"key":"brokers","value":"a:1","source":"flag --brokers"}`,
		`{"key":"listen","value":"127.0.0.1:9","source":"env WATERCLOCK_LISTEN"}`)
	if strings.Contains(r.out, "hunter2") {
		t.Error("a secret was shown")
	}
	cli(t, nil, "", "config", "show", "--dev", "--jq", `.[]|select(.key=="topics.partitions")|.value`).want(t, exitOK,
		"4")
	cli(t, []string{"WATERCLOCK_OUTPUT=ndjson"}, "", "config", "show").want(t, exitOK, `{"key":"group"`)
}

func TestAcceptGapOfNoPartition(t *testing.T) {
	cli(t, nil, "", "serve", "--accept-gap", "99:1").want(t, exitUsage, "--accept-gap 99:1", "topics.partitions is 16")
}

func TestConfigValidate(t *testing.T) {
	cli(t, []string{"WATERCLOCK_LISTN=x"}, "", "config", "validate").want(t, exitOK, "did you mean WATERCLOCK_LISTEN?")
	cli(t, nil, "", "config", "validate", "--set", "topics.manage=maybe", "--set", "log.level=loud").want(t, exitUsage,
		"topics.manage", "log.level")
	cli(t, nil, "", "config", "validate", "--serve", "--set", "roles=history").want(t, exitUsage, "cassandra.hosts")
	cli(t, nil, "", "--config", "/does/not/exist.yaml", "config", "validate").want(t, exitUsage, "exist.yaml")
}
