package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func ptr[T any](v T) *T { return &v }

// Built-in channels are never new. The check must not ask the brokers, which do not exist here.
func TestBuiltInChannelsAreNotNew(t *testing.T) {
	k := &kafkaCommander{c: &config.Config{}}
	for _, channel := range config.BuiltInChannels() {
		if k.opens(t.Context(), wish{Op: trigger.OpRegister, Fields: map[string]any{"channel": channel}}) {
			t.Errorf("channel %s is new", channel)
		}
	}
}

// A tail that skips existing records says so.
func TestTailSaysWhereItBegins(t *testing.T) {
	if words := (&tailFlags{}).since(); !strings.Contains(words, "--from-beginning") {
		t.Errorf("from the end: %q", words)
	}
	if words := (&tailFlags{fromBeginning: true}).since(); words != "" {
		t.Errorf("from the beginning: %q", words)
	}
}

// decideByKey returns the events for a command, chosen by the trigger's key.
func decideByKey(key string, _ map[string]any) []topics.Event {
	switch key {
	case "gone":
		return []topics.Event{{Type: "cancel.too_late", Reason: "unknown"}}
	case "fired":
		return []topics.Event{{
			Type: "cancel.too_late", Reason: "fired", Occurrence: "o", DueTopic: "waterclock.due.x",
			DuePartition: ptr(int32(3)),
		}}
	case "rejected":
		return []topics.Event{{Type: "command.rejected", Reason: "unknown_zone", Detail: "no such zone"}}
	case "conflict":
		return []topics.Event{{Type: "command.rejected", Reason: "conflict", Detail: "revision is 4"}}
	case "none":
		return []topics.Event{{Type: "command.rejected", Reason: "not_found", Detail: "no such trigger"}}
	case "silent":
		return nil
	case "nothing":
		return []topics.Event{}
	case "fires":
		return []topics.Event{
			{Type: "occurrence.fired", Trigger: "fires", Occurrence: "of before", Source: "x"},
			{Type: "trigger.registered", Revision: 2, State: "PENDING", ScheduledAt: "2026-11-20T14:00:00.000Z"},
			{Type: "occurrence.fired", Revision: 2, Occurrence: "the one", LatenessMS: ptr(int64(2))},
		}
	case "repeated": // what an earlier occurrence still sends: a retry, and a postponed copy
		return []topics.Event{
			{Type: "trigger.registered", Revision: 2, State: "PENDING", ScheduledAt: "2026-11-20T14:00:00.000Z"},
			{
				Type: "occurrence.fired", Occurrence: "retry", Attempt: 2, OccurredAt: "2026-11-20T14:00:01.000Z",
				FirstFired: "2026-11-19T14:00:00.000Z",
			},
			{
				Type: "occurrence.fired", Occurrence: "postponed", Attempt: 1, OccurredAt: "2026-11-20T14:00:02.000Z",
				FirstFired: "2026-11-19T14:00:00.000Z",
			},
			{Type: "occurrence.fired", Occurrence: "earlier", Attempt: 1, OccurredAt: "2026-11-19T14:00:03.000Z"},
			{
				Type: "occurrence.fired", Occurrence: "the one", Attempt: 1, OccurredAt: "2026-11-20T14:00:03.000Z",
				FirstFired: "2026-11-20T14:00:03.000Z",
			},
		}
	case "again": // the earlier firing precedes the duplicate
		return []topics.Event{
			{Type: "occurrence.fired", Occurrence: "the earlier"},
			{Type: "command.duplicate", State: "FIRED", ScheduledAt: "2020-11-20T14:00:00.000Z"},
		}
	case "forgotten":
		return []topics.Event{{Type: "command.duplicate", State: "FIRED", ScheduledAt: "2020-11-20T14:00:00.000Z"}}
	case "cancelled":
		return []topics.Event{
			{Type: "trigger.registered", Revision: 1, State: "PENDING"},
			{Type: "trigger.cancelled", Source: "elsewhere"},
		}
	}
	return []topics.Event{
		{Type: "trigger.registered", Source: "waterclock.commands/0/999", Revision: 77}, // another command's
		{Type: "trigger.registered", Revision: 1, State: "PENDING", ScheduledAt: "2026-11-20T14:00:00.000Z"},
	}
}

func TestCommandsAndTheirDecisions(t *testing.T) {
	brokers := cluster(t)
	startEngine(t, brokers, decideByKey)
	for _, row := range []struct {
		name string
		args []string
		code int
		want []string
	}{
		{
			"registered",
			[]string{"schedule", "new", "--in", "7m"},
			exitOK,
			[]string{"trigger.registered", "PENDING", "2026-11-20T14:00:00.000Z"},
		},
		{"rejected", []string{"schedule", "rejected", "--in", "7m"}, exitUsage, []string{"unknown_zone: no such zone"}},
		{
			"conflict",
			[]string{"schedule", "conflict", "--in", "7m", "--if-revision", "3"},
			exitConflict,
			[]string{"revision is 4"},
		},
		{"not found", []string{"pause", "none"}, exitNotFound, []string{"none: not_found"}},
		{
			"a wait that would not wait",
			[]string{"schedule", "new", "--in", "7m", "--wait", "--decision-timeout", "0"},
			exitUsage,
			[]string{"omit --decision-timeout"},
		},
		{"cancel of nothing", []string{"cancel", "gone"}, exitNotFound, []string{"no such trigger"}},
		{"cancel too late", []string{"cancel", "fired"}, exitConflict, []string{"waterclock.due.x, partition 3"}},
		{
			"no engine",
			[]string{"cancel", "silent", "--decision-timeout", "300ms"},
			exitOK,
			[]string{"command.accepted", "is one running?"},
		},
		{
			"decided, and nothing told",
			[]string{"ack", "nothing", "--decision-timeout", "10m"},
			exitOK,
			[]string{"nothing was in flight"},
		},
		{
			"decided, and nothing told, as JSON",
			[]string{"ack", "nothing", "--decision-timeout", "10m", "-o", "ndjson"},
			exitOK,
			[]string{`"op":"ack","decided":true,"source"`},
		},
		{
			"a run, of which the firing will tell",
			[]string{"run", "nothing", "--decision-timeout", "3s", "-o", "ndjson"},
			exitOK,
			[]string{`"op":"run_now","decided":true`},
		},
		{"nobody waits", []string{"cancel", "silent", "--decision-timeout", "0"}, exitOK, []string{"command.accepted"}},
		{
			"several, one of them refused",
			[]string{"cancel", "new", "gone"},
			exitNotFound,
			[]string{"trigger.registered", "gone: there is no such trigger"},
		},
		{
			"wait for the firing",
			[]string{"schedule", "fires", "--in", "0", "--wait"},
			exitOK,
			[]string{"occurrence.fired", "the one", "2 ms"},
		},
		{
			"wait for the firing, past what is sent again",
			[]string{"schedule", "repeated", "--every", "24h", "--wait"},
			exitOK,
			[]string{"occurrence.fired", "the one"},
		},
		{
			"wait for what has fired",
			[]string{"schedule", "again", "--in", "0", "--wait"},
			exitOK,
			[]string{"FIRED already; to schedule it again", "occurrence.fired", "the earlier"},
		},
		{
			"wait for what has fired and is forgotten",
			[]string{"schedule", "forgotten", "--in", "0", "--wait"},
			exitConflict,
			[]string{"has fired already, at 2020-11-20T14:00:00.000Z", "--idempotency-key"},
		},
		{
			"cancelled meanwhile",
			[]string{"schedule", "cancelled", "--in", "1h", "--wait"},
			exitConflict,
			[]string{"did not fire: trigger.cancelled"},
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, "", append(row.args, "--brokers", brokers)...).want(t, row.code, row.want...)
		})
	}
}

// An interrupted wait says that the command stays in force.
func TestInterruptedWait(t *testing.T) {
	brokers := cluster(t)
	startEngine(t, brokers, decideByKey)
	ctx, stop := context.WithCancel(t.Context())
	var errs saidThen // writes the note that the wait begins
	errs.do = stop
	code := run(ctx, []string{"schedule", "new", "--in", "7m", "--wait", "--brokers", brokers},
		stdio{in: strings.NewReader(""), out: io.Discard, err: &errs})
	if want := "new: stopped waiting; it stays scheduled"; code != exitFailed ||
		!strings.Contains(errs.text, want) {
		t.Errorf("exit code %d, want 1 and %q in %q", code, want, errs.text)
	}
}

// saidThen calls a function as soon as something is written to it.
type saidThen struct {
	text string
	do   func()
}

func (s *saidThen) Write(b []byte) (int, error) {
	s.text += string(b)
	s.do()
	return len(b), nil
}

// Over HTTP, the wait returns the event if the history has it, else the reason.
func TestWaitOverHTTPForWhatHasFired(t *testing.T) {
	f := newFakeAPI(t)
	cli(t, nil, "", "--url", f.URL, "schedule", "over", "--in", "0", "--wait").want(t, exitOK, "occurrence.fired",
		"the one", "over: its time passed long ago")
	// The result is not an earlier firing of the series.
	cli(t, nil, "", "--url", f.URL, "schedule", "series", "--every", "24h", "--wait").want(t, exitOK, "number 1")
	h := &httpCommander{api: &api{base: f.URL, client: f.Client()}, recalls: 50 * time.Millisecond}
	_, err := h.AwaitFiring(t.Context(), decision{
		TriggerID: "quiet", Decided: true, State: "FIRED",
		FireAt: "2020-11-20T14:00:00.000Z",
	})
	if exitOf(err) != exitConflict || !strings.Contains(err.Error(), "has fired already, at 2020-11-20T14:00:00.000Z") {
		t.Errorf("without a history: %v", err)
	}
}

// The API has not decided within its 2 s. The wait is for the decision first: what the trigger did
// before it is not the result.
func TestWaitOverHTTPForWhatIsUndecided(t *testing.T) {
	f := newFakeAPI(t)
	r := cli(t, nil, "", "--url", f.URL, "schedule", "undecided", "--in", "0", "--wait")
	r.want(t, exitOK, "the one", "not decided yet")
	if strings.Contains(r.err, "fires at \n") {
		t.Errorf("it names no time: %q", r.err)
	}
	cli(t, nil, "", "--url", f.URL, "schedule", "refused", "--in", "0", "--wait").want(t, exitConflict, "conflict")
}

// Without a history the stream of a new trigger has no event of its decision.
func TestWaitOverHTTPWithoutHistory(t *testing.T) {
	f := newFakeAPI(t)
	cli(t, nil, "", "--url", f.URL, "schedule", "recent", "--in", "1s", "--wait").want(t, exitOK, "occurrence.fired")
}

// A trigger that was forgotten has no state, and has not been erased: --wait waits for its next life.
func TestWatchWaitsForWhatIsForgotten(t *testing.T) {
	f := newFakeAPI(t)
	r := cli(t, nil, "", "--url", f.URL, "watch", "forgotten", "--wait")
	if !strings.Contains(r.out, "trigger.registered") || strings.Contains(r.err, "ERASED") {
		t.Errorf("%s%s", r.out, r.err)
	}
}

// The engine decides after the wait for its decision has ended.
func TestWaitOverKafkaForWhatIsUndecided(t *testing.T) {
	brokers := cluster(t)
	decided := make(chan struct{})
	startEngine(t, brokers, func(string, map[string]any) []topics.Event {
		<-decided
		return []topics.Event{
			{Type: "occurrence.fired", Occurrence: "of before"},
			{Type: "trigger.registered", Revision: 2, State: "PENDING", ScheduledAt: "2026-11-20T14:00:00.000Z"},
			{Type: "occurrence.fired", Occurrence: "the one"},
		}
	})
	var out strings.Builder
	var errs saidThen
	errs.do = sync.OnceFunc(func() { close(decided) })
	code := run(t.Context(), []string{
		"schedule", "late", "--in", "0", "--wait", "--decision-timeout", "300ms", "--brokers", brokers,
	}, stdio{in: strings.NewReader(""), out: &out, err: &errs})
	if code != exitOK || !strings.Contains(out.String(), "the one") {
		t.Errorf("exit code %d: %s%s", code, out.String(), errs.text)
	}
}

// A user who may write commands may not be allowed to read topic state. Then the event alone is
// the answer.
func TestWithoutTopicState(t *testing.T) {
	brokers := cluster(t)
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).DeleteTopics(t.Context(), "waterclock.state"); err != nil {
		t.Fatal(err)
	}
	startEngine(t, brokers, decideByKey)
	cli(t, nil, "", "schedule", "new", "--in", "7m", "--brokers", brokers, "--decision-timeout", "10m").want(t, exitOK,
		"trigger.registered", "2026-11-20T14:00:00.000Z")
}

// The second client may not connect although the first one did. That is an error, and there is nothing to close.
func TestWatcherThatCannotConnect(t *testing.T) {
	c, err := config.Load(config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Brokers = []string{cluster(t)}
	a := newApp(stdio{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
	k, err := newKafkaCommander(t.Context(), a, c, decisionWithin)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	unreadable := *c
	unreadable.Kafka.TLS.Enabled, unreadable.Kafka.TLS.CA = true, "/does/not/exist"
	k.c = &unreadable
	for range 2 { // each command closes the watcher of the one before
		if _, err := k.Do(t.Context(), wish{Key: "k", Op: trigger.OpCancel}); err == nil {
			t.Error("it wrote a command without a watcher")
		}
	}
}

func TestNoTopics(t *testing.T) {
	cli(t, nil, "", "--brokers", cluster(t), "--set", "topics.prefix=other.", "cancel", "k").want(t, exitFailed,
		"there is no topic other.commands", "waterclock topics apply")
}

// Every verb writes the JSON that the contract specifies.
func TestCommandSpelling(t *testing.T) {
	brokers := cluster(t)
	e := startEngine(t, brokers,
		func(string, map[string]any) []topics.Event { return []topics.Event{{Type: "trigger.registered"}} })
	for _, row := range []struct {
		name, stdin, want string
		args              []string
	}{
		{
			"delay", "", `{"op":"register","delay":"7m","channel":"orders","payload":{"holdId":"h"}}`,
			[]string{"schedule", "k", "--in", "7m", "--channel", "orders", "--data", `{"holdId":"h"}`},
		},
		{
			"local time", "",
			`{"op":"register","fire_at":"2026-11-20T09:00","timezone":"Europe/Berlin","user_id":"u","priority":"high"}`,
			[]string{
				"schedule", "k", "--at", "2026-11-20T09:00", "--tz", "Europe/Berlin", "--user", "u", "--priority",
				"high",
			},
		},
		{
			"rule as it is", "",
			`{"op":"register","recurrence":"FREQ=WEEKLY;BYDAY=MO","count":3,"exclude":["2026-12-25"],"dst":{"gap":"skip"}}`,
			[]string{
				"schedule", "k", "--every", "FREQ=WEEKLY;BYDAY=MO", "--count", "3", "--exclude", "2026-12-25",
				"--dst-gap",
				"skip",
			},
		},
		{
			"five fields are cron", "", `{"op":"register","recurrence":"cron:0 9 * * 1-5"}`,
			[]string{"schedule", "k", "--every", "0 9 * * 1-5"},
		},
		{
			"a duration is every", "", `{"op":"register","recurrence":"every:15m"}`,
			[]string{"schedule", "k", "--every", "15m"},
		},
		{
			"a nickname is cron", "", `{"op":"register","recurrence":"cron:@daily"}`,
			[]string{"schedule", "k", "--every", "@daily"},
		},
		{
			"bytes from standard input", "\x00\x01", `{"op":"register","delay":"1s","payload_base64":"AAE="}`,
			[]string{"schedule", "k", "--in", "1s", "--data", "-"},
		},
		{
			"JSON from standard input", ` [1.50] `, `{"op":"register","delay":"1s","payload":[1.50]}`,
			[]string{"schedule", "k", "--in", "1s", "--data", "-"},
		},
		{
			"callback", "",
			`{"op":"register","delay":"1s","channel":"webhook","callback":{"url":"https://a.example/h"}}`,
			[]string{"schedule", "k", "--in", "1s", "--callback-url", "https://a.example/h"},
		},
		{
			"callback with all its fields", "",
			`{"op":"register","delay":"1s","channel":"webhook","callback":{"url":"https://a.example/h","timeout":"5s",` +
				`"retry":["10s","2m"],"body":"raw","recheck":true}}`,
			[]string{
				"schedule", "k", "--in", "1s", "--callback-url", "https://a.example/h", "--callback-timeout", "5s",
				"--callback-retry", "10s,2m", "--callback-body", "raw", "--callback-recheck",
			},
		},
		{
			"callback of one attempt", "",
			`{"op":"register","delay":"1s","channel":"webhook","callback":{"url":"https://a.example/h","retry":[]}}`,
			[]string{
				"schedule", "k", "--in", "1s", "--callback-url", "https://a.example/h", "--callback-retry", "none",
			},
		},
		{
			"tags and conditions", "",
			`{"op":"register","delay":"1s","tags":{"a":"b=c"},"headers":{"h":"v"},"if_absent":true,"idempotency_key":"i"}`,
			[]string{
				"schedule", "k", "--in", "1s", "--tag", "a=b=c", "--header", "h=v", "--if-absent", "--idempotency-key",
				"i",
			},
		},
		{
			"reschedule", "", `{"op":"reschedule","delay":"1h","if_revision":2}`,
			[]string{"reschedule", "k", "--in", "1h", "--if-revision", "2"},
		},
		{"cancel", "", `{"op":"cancel"}`, []string{"cancel", "k"}},
		{"snooze for", "", `{"op":"snooze","for":"10m"}`, []string{"snooze", "k", "--for", "10m"}},
		{
			"snooze until", "", `{"op":"snooze","until":"2026-11-20T09:00"}`,
			[]string{"snooze", "k", "--until", "2026-11-20T09:00"},
		},
		{"skip", "", `{"op":"skip","occurrence":"2026-12-25"}`, []string{"skip", "k", "--occurrence", "2026-12-25"}},
		{"pause", "", `{"op":"pause","note":"on holiday"}`, []string{"pause", "k", "--note", "on holiday"}},
		{"resume", "", `{"op":"resume"}`, []string{"resume", "k"}},
		{"run", "", `{"op":"run_now"}`, []string{"run", "k"}},
		{"rezone", "", `{"op":"rezone","timezone":"Asia/Tokyo"}`, []string{"rezone", "k", "--tz", "Asia/Tokyo"}},
		{"ack", "", `{"op":"ack"}`, []string{"ack", "k"}},
		{"erase", "", `{"op":"erase"}`, []string{"erase", "k"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			cli(t, nil, row.stdin, append(row.args, "--brokers", brokers)...).want(t, exitOK)
			var got, want any
			if err := json.Unmarshal([]byte(e.last()), &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(row.want), &want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("wrote %s, want %s", e.last(), row.want)
			}
			if strings.Contains(row.want, "1.50") && !strings.Contains(e.last(), "1.50") {
				t.Errorf("the payload's digits changed: %s", e.last())
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	run := wish{Key: "k", Op: 8}
	for _, row := range []struct {
		name  string
		event topics.Event
		w     wish
		want  bool
	}{
		{"its source", topics.Event{Trigger: "k", Source: "c.c/3/14"}, wish{Key: "k"}, true},
		{"another command", topics.Event{Trigger: "k", Source: "c.c/3/15"}, wish{Key: "k"}, false},
		{"another trigger", topics.Event{Trigger: "j", Source: "c.c/3/14"}, wish{Key: "k"}, false},
		{"a run's firing", topics.Event{Trigger: "k", Occurrence: "run-3-14"}, run, true},
		{"another run's firing", topics.Event{Trigger: "k", Occurrence: "run-3-1"}, run, false},
		{"a firing after a pause", topics.Event{Trigger: "k", Occurrence: "run-3-14"}, wish{Key: "k", Op: 6}, false},
	} {
		if got := answers(&row.event, row.w, "c.c/3/14"); got != row.want {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// TestAckAndEraseOverHTTP: the API has both verbs, so --url suffices.
func TestAckAndEraseOverHTTP(t *testing.T) {
	_, url := startDev(t)
	api := func(args ...string) result { return cli(t, nil, "", append(args, "--url", url, "-o", "json")...) }
	api("schedule", "pills", "--in", "1h", "--user", "u", "--escalation", "push,10m:sms").want(t, exitOK)
	if get := api("get", "pills"); !strings.Contains(get.out, `"after": "10m"`) {
		t.Errorf("the steps are spelled as they were given: %s", get.out)
	}
	api("ack", "pills").want(t, exitOK)
	if r := api("erase", "pills"); r.code != exitOK || !strings.Contains(r.out, `"ERASED"`) {
		t.Errorf("erase: %d %s %s", r.code, r.out, r.err)
	}
	api("ack", "nobody").want(t, exitNotFound)
}

// A register over Kafka warns about a channel that waits for receipts if no worker reads it, as
// the API does. The doctor warns once something is due there. With a worker, none of them warns.
// The role history, which reads the content of all channels, does not count as a worker.
func TestNobodyServesAChannel(t *testing.T) {
	w := devInProcess(t, nil, "--set", "channels.asks.receipts=true")
	n := 0
	says := func(want bool) func() bool {
		return func() bool {
			n++
			r := cli(t, nil, "", "--brokers", w.kafka, "--set", "channels.asks.receipts=true", "schedule",
				fmt.Sprintf("k%d", n), "--in", "1ms", "--channel", "asks", "-o", "json")
			if r.code != exitOK {
				t.Fatal(r.code, r.err)
			}
			return strings.Contains(r.out, "nobody serves channel asks now") == want
		}
	}
	doctor := func(want string) func() bool {
		return func() bool {
			r := cli(t, nil, "", "--brokers", w.kafka, "--url", w.http, "--set", "channels.asks.receipts=true",
				"doctor")
			return strings.Contains(r.out, want)
		}
	}
	overHTTP := func(want bool) func() bool {
		return func() bool {
			n++
			status, body := w.call("PUT", fmt.Sprintf("/v1/triggers/k%d", n), `{"delay":"1ms","channel":"asks"}`)
			if status >= 300 {
				t.Fatal(status, body)
			}
			return strings.Contains(body, "nobody serves channel asks now") == want
		}
	}
	w.eventually("the note", says(true))
	w.eventually("the API's note", overHTTP(true))
	w.eventually("doctor's warning", doctor("no consumer group reads the due events of asks"))
	worker, err := kgo.NewClient(kgo.SeedBrokers(w.kafka), kgo.ConsumerGroup("waterclock.asks"),
		kgo.ConsumeTopics("waterclock.due.asks"))
	if err != nil {
		t.Fatal(err)
	}
	defer worker.Close()
	w.eventually("no note", says(false))
	w.eventually("no note of the API's", overHTTP(false))
	w.eventually("doctor's consent", doctor(noneUnserved))
}

// noneUnserved is the doctor's line for a dev without providers in which nothing waits.
const noneUnserved = "no trigger uses a channel that no consumer group reads (email, push, sms)"

// The doctor names a channel without a worker as soon as a live trigger uses it, also in its
// escalation, and long before anything is due.
func TestDoctorNamesAChannelBeforeItIsDue(t *testing.T) {
	w := devInProcess(t, nil)
	doctor := func(url string) string {
		t.Helper()
		return cli(t, nil, "", "--brokers", w.kafka, "--url", url, "doctor").out
	}
	w.eventually("nothing to warn of", func() bool { return strings.Contains(doctor(w.http), noneUnserved) })
	body := `{"delay":"1h","channel":"push","escalation":[{"channel":"push"},{"after":"1h","channel":"sms"}]}`
	if status, answer := w.call("PUT", "/v1/triggers/rent", body); status != 201 {
		t.Fatal(status, answer)
	}
	const warning = "no consumer group reads the due events of push (trigger rent waits), sms (trigger rent waits). " +
		"Start its worker"
	if out := doctor(w.http); !strings.Contains(out, warning) {
		t.Errorf("it does not warn: %s", out)
	}
	out := doctor("http://127.0.0.1:1")
	if !strings.Contains(out, "is unknown: only an API knows, and none answered within 2s") {
		t.Errorf("without an API: %s", out)
	}
	if status, answer := w.call("DELETE", "/v1/triggers/rent", ""); status != 200 {
		t.Fatal(status, answer)
	}
	if out := doctor(w.http); !strings.Contains(out, noneUnserved) {
		t.Errorf("the trigger is cancelled: %s", out)
	}
}
