package console_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The page of a trigger that could not be delivered says where to: the trigger itself has lost its callback by then.
func TestEndpointOfDeadLetter(t *testing.T) {
	s := dev(t)
	s.put("pills", `{"delay":"0s","channel":"webhook","callback":{"url":"http://127.0.0.1:1/hook","retry":["1s"]}}`)
	s.explains("pills", "failed")
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.await(`[aria-label="Dead letters, the newest first"] tbody tr td:nth-child(4)`, "http://127.0.0.1:1")
}

// Once a dead letter is redriven, the page of its trigger says so, and no more that there is none.
func TestRedrivenLetter(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	answered("failed", "no_address")(s, "pills")
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	const status = `[aria-label="Dead letters, the newest first"] tbody tr td:last-child`
	b.await(status, "open")
	b.click("Redrive")
	b.press("dialog button.act")
	b.await("#sentence", "attempt 2")
	b.do(chromedp.MouseEvent(input.MouseMoved, 5, 5)) // rows stay while the pointer is on them
	b.await(status, "redriven")
}

// openLetters makes dead letters of a series, each of an occurrence of its own, and returns their ce_ids.
func (s *server) openLetters(id string, n int) (all []string) {
	s.t.Helper()
	s.put(id, strings.Replace(daily, `"orders"`, `"sends"`, 1))
	cl := s.client()
	defer cl.Close()
	for len(all) < n {
		time.Sleep(time.Second) // buttons name occurrences to the second
		s.call("POST", "/v1/triggers/"+id+":run", "")
		due := ""
		for deadline := time.Now().Add(30 * time.Second); due == ""; time.Sleep(50 * time.Millisecond) {
			live, _ := s.call("GET", "/v1/triggers/"+id, "")["live"].([]any)
			if len(live) > 0 {
				if of, _ := live[0].(map[string]any); of["kind"] == "in_flight" {
					due = fmt.Sprintf("%s@%s#0", id, of["occurrence"])
				}
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("%s does not fire", id)
			}
		}
		value, _ := json.Marshal(map[string]string{
			"due_id": due, "channel": "sends", "outcome": "failed", "code": "no_address",
		})
		if err := cl.ProduceSync(s.t.Context(), &kgo.Record{
			Topic: s.prefix + "receipts", Key: []byte(id), Value: value,
		}).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, due)
		s.letters(id, "open", len(all))
	}
	return all
}

// letters waits until a trigger has so many dead letters of a status, and returns their ce_ids.
func (s *server) letters(id, status string, n int) (all []string) {
	s.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		all = nil
		items, _ := s.call("GET", "/v1/dead-letters?trigger_id="+id+"&status="+status, "")["items"].([]any)
		for _, item := range items {
			of, _ := item.(map[string]any)
			all = append(all, fmt.Sprint(of["ce_id"]))
		}
		if len(all) == n {
			return all
		}
	}
	s.t.Fatalf("%s has the letters %q with status %s, want %d", id, all, status, n)
	return nil
}

// Redrive beside a dead letter sends that one: the trigger's other letters stay open. So it is on Deliveries, and on
// the page of the trigger.
func TestRedriveOfOneLetter(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	all := s.openLetters("rent", 3) // the newest is first
	b := s.open(t, 1200, 900)
	b.visit("deliveries")
	redrive := func(row, of string, names int) {
		t.Helper()
		b.await(`[aria-label^="Redrive rent"]`, "Redrive")
		var labels []string
		b.do(chromedp.Evaluate(`[...document.querySelectorAll('td button')].map((b) => b.ariaLabel)`, &labels))
		if different := map[string]bool{}; len(labels) != names {
			t.Errorf("there are the buttons %q, want %d", labels, names)
		} else {
			for _, l := range labels {
				different[l] = true
			}
			if len(different) != names {
				t.Errorf("buttons have the same name: %q", labels)
			}
		}
		b.press(row + " button")
		b.await("dialog p", "The dead letter of occurrence ")
		b.await("dialog p", ", attempt 1, is sent again")
		b.await("dialog .twins", "waterclock redrive rent --ce-id '"+of+"'")
		b.press("dialog button.act")
		b.await(".said", "Redrive: done, rent")
		b.do(chromedp.MouseEvent(input.MouseMoved, 5, 5))
	}
	redrive(`[aria-label="The newest first"] tbody tr:nth-child(2)`, all[1], 3)
	if got := s.letters("rent", "redriven", 1); got[0] != all[1] {
		t.Errorf("%q was redriven, want %s of %q", got, all[1], all)
	}
	s.letters("rent", "open", 2)
	b.visit("trigger?id=rent")
	redrive(`[aria-label="Dead letters, the newest first"] tbody tr:nth-child(1)`, all[2], 2)
	s.letters("rent", "open", 1)
}

// The dialog of a redrive stays, with the letter as it was, when the page reads below it that this letter is not open
// any more.
func TestDialogOfALetterStays(t *testing.T) {
	s := dev(t, "channels.sends.receipts=true")
	s.openLetters("rent", 1)
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=rent")
	const row = `[aria-label="Dead letters, the newest first"] tbody tr`
	b.await(row, "open")
	b.press(row + " button")
	b.await("dialog h2", "Redrive: rent")
	s.call("POST", "/v1/dead-letters:redrive", `{"trigger_id":"rent"}`)
	b.await(row, "redriven")
	b.await("dialog h2", "Redrive: rent")
	b.press("dialog button.act")
	b.await("dialog .fault", "Nothing was sent again")
	b.dismiss()
	b.do(chromedp.WaitNotPresent(row+" button", chromedp.ByQuery))
}
