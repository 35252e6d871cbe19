package pipeline_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/live"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
)

// newsOf asks as a gateway does: from where the answer before has ended.
func newsOf(t *testing.T, node *pipelinetest.Node, partition int32, at *live.Asked) []json.RawMessage {
	t.Helper()
	news, err := node.News(partition, []live.Asked{*at})
	if err != nil {
		t.Fatal(err)
	}
	at.Life, at.Next = news[0].Life, news[0].Next
	return news[0].Facts
}

// The owners show what happens to a tenant that is watched, each fact once, without payloads, and
// nothing of other tenants.
func TestOwnersShowWhatHappens(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 2})
	w.Start("a")
	w.AwaitOwners()
	node := w.Node("a")
	at := []live.Asked{{Tenant: "acme"}, {Tenant: "acme"}}
	ask := func() (facts []topics.Event) {
		for p := range int32(2) {
			for _, data := range newsOf(t, node, p, &at[p]) {
				var e topics.Event
				if err := json.Unmarshal(data, &e); err != nil || len(data) > 4<<10 {
					t.Fatalf("%s: %v", data, err)
				}
				facts = append(facts, e)
			}
		}
		return facts
	}
	if facts := ask(); len(facts) != 0 {
		t.Errorf("before anything happened: %+v", facts)
	}
	large := strings.Repeat("a long line of a payload ", 150)
	for i := range 5 {
		w.Send(fmt.Sprintf("acme/%d", i), `{"op":"register","delay":"10ms","channel":"push","payload":{"say":"`+large+`"}}`)
		w.Send(fmt.Sprintf("blue/%d", i), `{"op":"register","delay":"10ms","channel":"push"}`)
	}
	seen := map[string]int{}
	for deadline := time.Now().Add(20 * time.Second); len(seen) < 10; time.Sleep(10 * time.Millisecond) {
		for _, e := range ask() {
			if e.Tenant != "acme" || len(e.Payload) > 0 || strings.Contains(e.Detail, "payload") {
				t.Errorf("it shows %+v", e)
			}
			if e.Type == "trigger.registered" || e.Type == "occurrence.fired" {
				seen[e.Type+" "+e.EventID]++
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("it shows %v", seen)
		}
	}
	for name, n := range seen {
		if n != 1 {
			t.Errorf("%s: %d times", name, n)
		}
	}
}

// The record of a trespass is a fact of no trigger. Who watches would learn by it that the other tenant exists.
func TestOwnersShowNoTrespass(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1})
	w.Start("a")
	w.AwaitOwners()
	node, at := w.Node("a"), live.Asked{Tenant: "blue"}
	newsOf(t, node, 0, &at)
	w.Send("blue/acme/t/", `{"op":"pause"}`)
	w.Send("blue/t", `{"op":"register","delay":"1h","channel":"push"}`)
	shown := 0
	for deadline := time.Now().Add(20 * time.Second); shown == 0 && time.Now().Before(deadline); {
		shown += len(newsOf(t, node, 0, &at))
		time.Sleep(10 * time.Millisecond)
	}
	if shown != 1 {
		t.Errorf("%d facts are shown, want that of the register", shown)
	}
}

// A command whose key names no trigger is a fact for those who see all tenants, and for nobody else.
func TestOwnersShowNameless(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1})
	w.Start("a")
	w.AwaitOwners()
	node := w.Node("a")
	at := []live.Asked{{Tenant: live.Nameless}, {Tenant: "default"}, {Tenant: "blue"}}
	for i := range at {
		newsOf(t, node, 0, &at[i])
	}
	for _, key := range []string{"blue/", strings.Repeat("x", 300)} {
		w.Send(key, `{"op":"register","delay":"1h"}`)
	}
	w.Send("last", `{"op":"register","delay":"1h","channel":"push"}`)
	w.Send("blue/last", `{"op":"register","delay":"1h","channel":"push"}`)
	shown := make([][]json.RawMessage, len(at))
	for deadline := time.Now().Add(20 * time.Second); len(shown[0]) < 2 || len(shown[1]) < 1 || len(shown[2]) < 1; {
		for i := range at {
			shown[i] = append(shown[i], newsOf(t, node, 0, &at[i])...)
		}
		if time.Now().After(deadline) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(shown[0]) != 2 || len(shown[1]) != 1 || len(shown[2]) != 1 {
		t.Errorf("of no trigger %s, of the tenants %s and %s", shown[0], shown[1], shown[2])
	}
	for _, data := range shown[0] {
		if !strings.Contains(string(data), `"reason":"invalid_key"`) {
			t.Errorf("it shows %s", data)
		}
	}
}
