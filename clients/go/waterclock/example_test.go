package waterclock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/waterclock/waterclock/clients/go/waterclock"
)

// exampleServer answers each path of the API with a text.
func exampleServer(answers map[string]string) *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, answers[r.Method+" "+r.URL.Path])
	}))
}

func ExampleClient_Erase() {
	server := exampleServer(map[string]string{
		"POST /v1/triggers/hold-8c4:erase": `{"trigger_id":"hold-8c4","state":"CANCELLED","revision":2}`,
	})
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	erased, err := c.Erase(context.Background(), "hold-8c4", waterclock.Note("asked by mail"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(erased.State)
	// Output: CANCELLED
}

// Dead letters are listed, and tried again once their cause is mended.
func ExampleClient_RedriveAll() {
	server := exampleServer(map[string]string{
		"GET /v1/dead-letters": `{"items":[{"trigger_id":"hold-8c4","code":"bad_number","attempts":6}]}`,
		"POST /v1/dead-letters:redrive": `{"matched":2,"redriven":1}` + "\n" +
			`{"status":422,"code":"too_large","detail":"it did not fit its topic","trigger_id":"big"}` + "\n" +
			`{"matched":2,"redriven":1,"refused":1,"done":true}` + "\n",
	})
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	since := time.Date(2060, 1, 5, 8, 0, 0, 0, time.UTC)
	for d, err := range c.AllDeadLetters(ctx, waterclock.DeadLetterFilter{Code: "bad_number", From: since}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(d.TriggerID, d.Code, d.Attempts)
	}
	for p, err := range c.RedriveAll(ctx, waterclock.Redrive{Code: "bad_number", From: since, Rate: 50}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(p.Redriven, "of", p.Matched)
		for _, refused := range p.Refusals {
			fmt.Println(refused.TriggerID, refused.Code)
		}
	}
	// Output:
	// hold-8c4 bad_number 6
	// 1 of 2
	// 1 of 2
	// big too_large
}

func ExampleClient_Redrive() {
	server := exampleServer(map[string]string{
		"POST /v1/dead-letters:redrive": `{"matched":1,"redriven":1,"done":true}` + "\n",
	})
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	p, err := c.Redrive(context.Background(), "hold-8c4", waterclock.Redrive{Note: "the number was mended"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(p.Redriven)
	// Output: 1
}

func ExampleClient_Endpoints() {
	server := exampleServer(map[string]string{
		"GET /v1/endpoints": `{"items":[{"origin":"https://example.com","state":"open","last_code":"timeout"}]}`,
	})
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	all, err := c.Endpoints(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, e := range all {
		fmt.Println(e.Origin, e.State, e.LastCode)
	}
	// Output: https://example.com open timeout
}

// An escalation goes on until somebody reacts. Raw has what this version does not know.
func ExampleRegister_escalation() {
	server := exampleServer(map[string]string{
		"PUT /v1/triggers/oncall": `{"trigger_id":"oncall","revision":1}`,
		"GET /v1/triggers/oncall": `{"trigger_id":"oncall","new":7,` +
			`"escalation":[{"channel":"push"},{"channel":"sms","after":"5m"}]}`,
	})
	defer server.Close()
	c, err := waterclock.New(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if _, err := c.Schedule(ctx, "oncall", waterclock.Register{
		When: waterclock.In(time.Second), UserID: "u_81",
		Escalation: []waterclock.Step{{Channel: "push"}, {Channel: "sms", After: "5m"}},
	}); err != nil {
		log.Fatal(err)
	}
	t, err := c.Get(ctx, "oncall")
	if err != nil {
		log.Fatal(err)
	}
	var more struct{ New int }
	if err := json.Unmarshal(t.Raw, &more); err != nil {
		log.Fatal(err)
	}
	fmt.Println(t.Escalation[1].Channel, t.Escalation[1].After, more.New)
	// Output: sms 5m 7
}
