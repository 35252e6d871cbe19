package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
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
