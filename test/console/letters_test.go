package console_test

import "testing"

// The page of a trigger that could not be delivered says where to: the trigger itself has lost its callback by then.
func TestEndpointOfDeadLetter(t *testing.T) {
	s := dev(t)
	s.put("pills", `{"delay":"0s","channel":"webhook","callback":{"url":"http://127.0.0.1:1/hook","retry":["1s"]}}`)
	s.explains("pills", "failed")
	b := s.open(t, 1200, 900)
	b.visit("trigger?id=pills")
	b.await(`[aria-label="Dead letters, the newest first"] tbody tr td:nth-child(4)`, "http://127.0.0.1:1")
}
