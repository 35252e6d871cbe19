package pipeline_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// Steps go out on channels of their own, which come to be with the register; a new
// owner goes on with them, and delivered ends them.
func TestEscalation(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	push, sms, mail := w.Tail(w.Names.Due("r-push")), w.Tail(w.Names.Due("r-sms")), w.Tail(w.Names.Due("plain"))
	w.Send("k", `{"op":"register","delay":"0","payload":{"a":1},"escalation":[{"channel":"r-push"},`+
		`{"channel":"r-sms","after":"1s"},{"channel":"plain","after":"1s"}]}`)
	first := push.Next()
	w.Receipt("k", fmt.Sprintf(`{"due_id":%q,"outcome":"accepted","attempt":1}`, pipelinetest.Header(first, "ce_id")))
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	w.Start("b")
	second, third := sms.Next(), mail.Next() // nothing was said of SMS
	base := pipelinetest.Header(first, "ce_id")
	base = base[:len(base)-1]
	for i, r := range []string{
		pipelinetest.Header(first, "ce_id"), pipelinetest.Header(second, "ce_id"), pipelinetest.Header(third, "ce_id"),
	} {
		if want := base + fmt.Sprint(i); r != want {
			t.Errorf("step %d went out as %s, want %s", i, r, want)
		}
	}
	for i, r := range []string{
		pipelinetest.Header(first, "wcx-steps"), pipelinetest.Header(second, "wcx-steps"),
		pipelinetest.Header(third, "wcx-steps"),
	} {
		if r != "3" {
			t.Errorf("step %d says that there are %q steps", i, r)
		}
	}
	if step := pipelinetest.Header(second, "ce_wcstep"); step != "1" || string(second.Value) != `{"a":1}` {
		t.Errorf("the second step is ce_wcstep %s of %s", step, second.Value)
	}
	var facts []string
	w.Eventually("the trigger has fired", func() bool {
		facts = nil
		for _, r := range w.Dump(w.Names.Events()) {
			var e struct{ Type, State, Channel string }
			if err := json.Unmarshal(r.Value, &e); err != nil {
				t.Fatal(err)
			}
			facts = append(facts, e.Type+" "+e.Channel+" "+e.State)
		}
		return facts[len(facts)-1] == "occurrence.fired plain FIRED"
	})
	want := []string{
		"trigger.registered r-push PENDING", "occurrence.fired r-push IN_FLIGHT", "delivery.accepted r-push IN_FLIGHT",
		"escalation.advanced r-sms IN_FLIGHT", "occurrence.fired r-sms IN_FLIGHT",
		"escalation.advanced plain IN_FLIGHT", "occurrence.fired plain FIRED",
	}
	if fmt.Sprint(facts) != fmt.Sprint(want) {
		t.Errorf("facts %q\nwant %q", facts, want)
	}
}
