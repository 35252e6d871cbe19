package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/topics"
)

// devCauses is a dev server with channel tasks, which waits for receipts that the test writes.
type devCauses struct {
	t     *testing.T
	url   string
	at    string // address of the brokers
	kafka *kgo.Client
}

func newDevCauses(t *testing.T) *devCauses {
	kafka, url := startDev(t, "--set", "channels.tasks.receipts=true")
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &devCauses{t: t, url: url, at: kafka, kafka: cl}
}

func (d *devCauses) call(method, path, body string) (status int, answer map[string]any) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		d.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	return resp.StatusCode, answer
}

func (d *devCauses) put(id, body string) {
	d.t.Helper()
	if status, a := d.call("PUT", "/v1/triggers/"+id, body); status != http.StatusCreated {
		d.t.Fatalf("%s: %d %v", id, status, a)
	}
}

func (d *devCauses) produce(topic, key, value string) {
	d.t.Helper()
	r := &kgo.Record{Topic: topic, Key: []byte(key), Value: []byte(value)}
	if err := d.kafka.ProduceSync(d.t.Context(), r).FirstErr(); err != nil {
		d.t.Fatal(err)
	}
}

// inFlight waits until a trigger is in flight, and returns the occurrence.
func (d *devCauses) inFlight(id string) string {
	d.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, a := d.call("GET", "/v1/triggers/"+id, "")
		list, _ := a["live"].([]any)
		for _, l := range list {
			if o, _ := l.(map[string]any); o["kind"] == "in_flight" {
				return cell(o["occurrence"])
			}
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("not in flight: %v", a)
		}
	}
}

func (d *devCauses) receipt(id, outcome, code string) {
	d.t.Helper()
	d.produce(topics.Names{}.Receipts(), id, fmt.Sprintf(`{"due_id":"%s@%s#0","channel":"tasks","outcome":"%s","code":"%s"}`,
		id, d.inFlight(id), outcome, code))
}

// These are the causes that a dev server can reproduce. The route and the command line name each
// cause, and cite the event that decided it, from the history.
func TestExplainInDev(t *testing.T) {
	d := newDevCauses(t)
	past := time.Now().Add(-2 * time.Hour).UTC().Format(time.RFC3339)
	const now, later = `{"channel":"tasks","delay":"10ms"}`, `{"channel":"tasks","delay":"1h"}`
	answered := func(outcome, code string) func(string) {
		return func(id string) { d.put(id, now); d.receipt(id, outcome, code) }
	}
	for _, row := range []struct {
		code, cites, says string
		cause             func(id string)
	}{
		{"scheduled", "trigger.registered", "Scheduled: it fires ", func(id string) { d.put(id, later) }},
		{"paused", "trigger.paused", "(holiday)", func(id string) {
			d.put(id, later)
			d.call("POST", "/v1/triggers/"+id+":pause", `{"note":"holiday"}`)
		}},
		{"in_flight", "occurrence.fired", "no receipt yet", func(id string) { d.put(id, now); d.inFlight(id) }},
		{"retrying", "delivery.retried", "http_503", answered("retry", "http_503")},
		{"delivered", "delivery.delivered", "the tasks worker says so", answered("delivered", "")},
		{"suppressed", "delivery.suppressed", "opted out", answered("suppressed", "opted_out")},
		{"postponed", "delivery.postponed", "its breaker is open", answered("postponed", "breaker_open")},
		{"failed", "delivery.dead_lettered", "It is a dead letter", answered("failed", "no_address")},
		{"cancelled", "cancel.too_late", "too late", func(id string) {
			d.put(id, now)
			d.inFlight(id)
			d.call("DELETE", "/v1/triggers/"+id, "")
		}},
		{"expired", "occurrence.expired", "over its expires_after", func(id string) {
			d.put(id, `{"channel":"tasks","fire_at":"`+past+`","expires_after":"1m"}`)
		}},
		{"skipped", "occurrence.skipped", "left out by a skip", func(id string) {
			d.put(id, `{"channel":"tasks","recurrence":"FREQ=DAILY","start":"2060-01-01T09:00","timezone":"Europe/Berlin"}`)
			d.call("POST", "/v1/triggers/"+id+":skip", "")
		}},
		{"misfired", "occurrence.expired", "misfire policy", func(id string) {
			d.put(id, `{"channel":"tasks","fire_at":"`+past+`","misfire":"skip"}`)
		}},
		{"fired", "occurrence.fired", " to waterclock.due.orders", func(id string) {
			d.put(id, `{"channel":"orders","delay":"10ms"}`)
		}},
		{"rejected", "command.rejected", "period_too_short", func(id string) {
			d.produce(topics.Names{}.Commands(), id, `{"op":"register","channel":"tasks","recurrence":"every:1s"}`)
		}},
		{"erased", "trigger.erased", "its content is gone", func(id string) {
			d.put(id, later)
			d.call("POST", "/v1/triggers/"+id+":erase", "")
		}},
		{"unknown", "", "There is no trigger", func(string) {}},
	} {
		t.Run(row.code, func(t *testing.T) {
			d.t = t
			id := "k-" + row.code
			row.cause(id)
			x := d.explained(id, row.code)
			if !strings.Contains(x.Sentence, row.says) || x.History == nil || !*x.History {
				t.Errorf("lacks %q: %+v", row.says, x)
			}
			if got := d.typeOf(id, &x); got != row.cites {
				t.Errorf("cites %q, want %q: %+v", got, row.cites, x)
			}
			if row.code != "unknown" && row.code != "rejected" {
				cli(t, nil, "", "explain", id, "--url", d.url).want(t, exitOK, row.says)
			}
			// Over Kafka alone the answer is the same, from topics state and events.
			if over := cli(t, nil, "", "explain", id, "--brokers", d.at); row.code == "unknown" {
				over.want(t, exitNotFound, "There is no trigger")
			} else {
				over.want(t, exitOK, x.Sentence)
				cli(t, nil, "", "explain", id, "--brokers", d.at, "-o", "json", "--jq", ".code, .evidence[0].event_id").
					want(t, exitOK, row.code+"\n"+x.Evidence[0].EventID)
			}
		})
	}
}

// explained repeats the request until the answer has the code, because decisions take a moment.
func (d *devCauses) explained(id, code string) (x apiSentence) {
	d.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		_, a := d.call("GET", "/v1/triggers/"+id+"/explain", "")
		text, err := json.Marshal(a)
		if err != nil {
			d.t.Fatal(err)
		}
		x = apiSentence{}
		if err := json.Unmarshal(text, &x); err != nil {
			d.t.Fatal(err)
		}
		if x.Code == code {
			return x
		}
		if time.Now().After(deadline) {
			d.t.Fatalf("%s, want %s: %+v", x.Code, code, x)
		}
	}
}

// typeOf returns the type of the first cited event, from the history.
func (d *devCauses) typeOf(id string, x *apiSentence) string {
	if len(x.Evidence) == 0 {
		return ""
	}
	_, a := d.call("GET", "/v1/triggers/"+id+"/events", "")
	list, _ := a["items"].([]any)
	for _, e := range list {
		if e, _ := e.(map[string]any); e["event_id"] == x.Evidence[0].EventID {
			return cell(e["type"])
		}
	}
	return x.Evidence[0].Source
}
