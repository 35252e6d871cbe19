package pipeline_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// What waits to be sent again is counted by channel, as decisions go and by the next
// owner, who finds it in its store.
func TestRetriesAreCounted(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	due, other := w.Tail(w.Names.Due("r-push")), w.Tail(w.Names.Due("r-sms"))
	const n = 30
	for i := range n {
		w.Send(fmt.Sprintf("push-%d", i), `{"op":"register","delay":"0","channel":"r-push"}`)
		w.Send(fmt.Sprintf("sms-%d", i), `{"op":"register","recurrence":"every:1h","start":"2020-01-01T00:00:00Z",`+
			`"channel":"r-sms","timezone":"UTC"}`)
		w.Send(fmt.Sprintf("wait-%d", i), `{"op":"register","delay":"1h","channel":"r-push"}`)
		w.Send(fmt.Sprintf("sms-%d", i), `{"op":"run_now"}`)
	}
	said := map[string]string{}
	for i, r := range due.Take(n) {
		outcome := []string{"retry", "postponed", "delivered"}[i%3]
		said[string(r.Key)] = fmt.Sprintf(`{"due_id":%q,"channel":"r-push","outcome":%q,"attempt":1,"retry_after":"1h"}`,
			pipelinetest.Header(r, "ce_id"), outcome)
	}
	for _, r := range other.Take(n) {
		said[string(r.Key)] = fmt.Sprintf(`{"due_id":%q,"channel":"r-sms","outcome":"retry","retry_after":"1h"}`,
			pipelinetest.Header(r, "ce_id"))
	}
	for key, receipt := range said {
		w.Receipt(key, receipt)
	}
	sum := func(node string) map[string]int64 {
		all := map[string]int64{}
		for _, s := range w.Node(node).Partitions() {
			if !s.Ready || s.Retries == nil {
				return nil
			}
			for channel, n := range s.Retries {
				all[channel] += n
			}
		}
		return all
	}
	want := map[string]int64{"r-push": 2 * n / 3, "r-sms": n}
	w.Eventually("all wait", func() bool { return maps.Equal(sum("a"), want) })
	for key, receipt := range said {
		if strings.HasSuffix(key, "1") { // delivered after all, or too late
			w.Receipt(key, strings.NewReplacer(`"retry"`, `"delivered"`, `"postponed"`, `"delivered"`).Replace(receipt))
		}
		if strings.HasSuffix(key, "2") {
			w.Send(key, `{"op":"cancel"}`)
		}
	}
	for key, receipt := range said {
		channel, _, _ := strings.Cut(key, "-")
		if strings.HasSuffix(key, "1") || strings.HasSuffix(key, "2") {
			if !strings.Contains(receipt, `"delivered"`) {
				want["r-"+channel]--
			}
		}
	}
	w.Eventually("fewer wait", func() bool { return maps.Equal(sum("a"), want) })
	left := sum("a")
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	w.Start("a")
	w.Eventually("the next owner counts the same", func() bool {
		got := sum("a")
		return got != nil && got["r-push"] == left["r-push"] && got["r-sms"] == left["r-sms"]
	})
}
