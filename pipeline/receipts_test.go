package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/trigger"
)

// docs/formats/events.md: a dead-letter record is the due event plus wc-error-*. What had
// been applied when the event was decided is not remembered, so a dead letter
// does not say it.
func TestDeadLetterIsTheDueEvent(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	w.Start("a")
	due, dead := w.Tail(w.Names.Due("r-push")), w.Tail(w.Names.DeadLetter())
	w.Send("k",
		`{"op":"register","delay":"10ms","channel":"r-push","payload":{"a":1},"headers":{"x":"y"},"tags":{"type":"t"},"expires_after":"1h"}`)
	var first, last *kgo.Record
	for attempt := 1; attempt <= 3; attempt++ {
		if last = due.Next(); first == nil {
			first = last
		}
		w.Receipt("k", fmt.Sprintf(`{"due_id":%q,"channel":"r-push","outcome":"retry","attempt":%d,"code":"503"}`,
			pipelinetest.Header(last, "ce_id"), attempt))
	}
	letter := dead.Next()
	got, want := headersOf(letter, "wc-error-", "wcx-first-fired"), headersOf(last, "ce_wcbasis", "ce_wcreceiptby")
	if got != want || string(letter.Value) != string(last.Value) {
		t.Errorf("the dead letter is %s\n%s\nits due event\n%s", letter.Value, got, want)
	}
	if code := pipelinetest.Header(letter, "wc-error-code"); code != "503" {
		t.Errorf("wc-error-code %q", code)
	}
	if at := pipelinetest.Header(letter, "wcx-first-fired"); at != pipelinetest.Header(first, "ce_wcfired") {
		t.Errorf("wcx-first-fired %q, and it first went out at %q", at, pipelinetest.Header(first, "ce_wcfired"))
	}
}

// delivered counts what the engine tells of receipts.
type delivered struct {
	pipeline.NoListener
	mu  sync.Mutex
	all map[string]int

	dead []string
}

func (d *delivered) Delivered(channel string, o trigger.ReceiptOutcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[channel+" "+o.String()]++
}

func (d *delivered) DeadLettered(channel, code string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.dead = append(d.dead, channel+" "+code)
}

func (d *delivered) letters() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.dead)
}

func (d *delivered) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := 0
	for _, k := range d.all {
		n += k
	}
	return n
}

// Receipts of every outcome are told, each once; those that come too late, of
// an unknown trigger or garbled are not.
func TestDeliveriesAreReported(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	heard := &delivered{all: map[string]int{}}
	w.Start("a", func(o *pipeline.Options) { o.Listener = heard })
	due := w.Tail(w.Names.Due("r-push"))
	decisions := []string{"accepted", "delivered", "failed", "retry", "postponed", "suppressed"}
	for _, o := range decisions {
		w.Send(o, `{"op":"register","delay":"0","channel":"r-push"}`)
	}
	for _, r := range due.Take(len(decisions)) {
		said := fmt.Sprintf(`{"due_id":%q,"channel":"elsewhere","outcome":%q,"attempt":1,"retry_after":"1h"}`,
			pipelinetest.Header(r, "ce_id"), r.Key)
		w.Receipt(string(r.Key), said)
		w.Receipt(string(r.Key), strings.Replace(said, string(r.Key)+`","attempt"`, `failed","attempt"`, 1)) // too late
		w.Receipt("nobody", strings.ReplaceAll(said, string(r.Key)+"@", "nobody@"))
		w.Receipt(string(r.Key), `{`)
	}
	w.Eventually("all are told", func() bool { return heard.count() >= len(decisions) })
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	for _, o := range decisions {
		if heard.all["r-push "+o] != 1 {
			t.Errorf("told %v, want one of each outcome of r-push", heard.all)
			break
		}
	}
	if heard.count() != len(decisions) {
		t.Errorf("told %v, want %d in all", heard.all, len(decisions))
	}
}

// A dead letter is told once, with its channel and code.
func TestDeadLettersAreReported(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{})
	heard := &delivered{all: map[string]int{}}
	w.Start("a", func(o *pipeline.Options) { o.Listener = heard })
	due, letters := w.Tail(w.Names.Due("r-push")), w.Tail(w.Names.DeadLetter())
	w.Send("k", `{"op":"register","delay":"0","channel":"r-push"}`)
	said := fmt.Sprintf(`{"due_id":%q,"channel":"elsewhere","outcome":"failed","attempt":1,"code":"410"}`,
		pipelinetest.Header(due.Next(), "ce_id"))
	w.Receipt("k", said)
	w.Receipt("k", said) // which says nothing new
	letters.Next()
	w.Eventually("it is told", func() bool { return heard.letters() > 0 }) // after the commit that Next has seen
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"r-push 410"}; !slices.Equal(heard.dead, want) {
		t.Errorf("told %v, want %v", heard.dead, want)
	}
}

// headersOf are a record's, a line each, but for those that begin like without.
func headersOf(r *kgo.Record, without ...string) string {
	var b strings.Builder
	for _, h := range r.Headers {
		if !slices.ContainsFunc(without, func(w string) bool { return strings.HasPrefix(h.Key, w) }) {
			fmt.Fprintf(&b, "%s=%s\n", h.Key, h.Value)
		}
	}
	return b.String()
}

// A receipt counts for the trigger of its record's key alone: one that another tenant's key brings,
// or one with this key for another tenant's due event, changes nothing.
func TestReceiptsOfAnotherTenant(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1}) // so that receipts keep their order
	heard := &delivered{all: map[string]int{}}
	w.Start("a", func(o *pipeline.Options) { o.Listener = heard })
	due := w.Tail(w.Names.Due("r-push"))
	ids := map[string]string{}
	for _, key := range []string{"acme/k", "blue/k"} {
		w.Send(key, `{"op":"register","delay":"0","channel":"r-push"}`)
		ids[key] = pipelinetest.Header(due.Next(), "ce_id")
	}
	said := func(id, outcome string) string {
		return fmt.Sprintf(`{"due_id":%q,"outcome":%q,"attempt":1}`, id, outcome)
	}
	w.Receipt("blue/k", said(ids["acme/k"], "failed"))
	w.Receipt("acme/k", said(ids["blue/k"], "failed"))
	w.Receipt("k", said(ids["acme/k"], "failed"))
	w.Receipt("acme/k", said(ids["acme/k"], "delivered"))
	w.Receipt("blue/k", said(ids["blue/k"], "accepted"))
	w.Eventually("the genuine ones are reported", func() bool { return heard.count() >= 2 })
	if err := w.Stop("a"); err != nil {
		t.Fatal(err)
	}
	if heard.count() != 2 || heard.all["r-push delivered"] != 1 || heard.all["r-push accepted"] != 1 ||
		heard.letters() != 0 {
		t.Errorf("reported %v and %d dead letters", heard.all, heard.letters())
	}
}
