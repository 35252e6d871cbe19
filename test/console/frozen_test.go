package console_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/services"
)

// One of two engines on a real Kafka freezes: the page that is open names its partition, and says of its figures that
// they are at least so much. Then the other engine takes the partition, and the page says so. The frozen one wakes up,
// and nothing fires twice.
func TestFrozenOwner(t *testing.T) {
	brokers, prefix, settings := kafka(t, nil)
	s := serve(t, brokers, prefix, "engine,api", settings...)
	first := s.owners(1)[0]
	second := serve(t, brokers, prefix, "engine", settings...)
	frozen := slices.IndexFunc(s.owners(2), func(owner string) bool { return owner != first })
	for i := range 8 { // some on each partition
		pending(s, fmt.Sprint("pending-", i))
	}
	b := s.open(t, 1200, 900)
	b.allowed = []string{"status of 503"} // there is no history
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(keepMoments).Do(ctx)
		return err
	}))
	b.visit("")
	b.await("#health", "Healthy")
	b.await(".figures", "8pending")
	b.do(chromedp.Evaluate(`window.moments.clear()`, nil))
	if err := second.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	awake := func() { _ = second.cmd.Process.Signal(syscall.SIGCONT) }
	t.Cleanup(awake)
	said := func(text string) {
		t.Helper()
		var is bool
		b.do(chromedp.Poll(fmt.Sprintf(`[...window.moments].some((m) => m.includes(%q))`, text), &is,
			chromedp.WithPollingTimeout(time.Minute)))
	}
	said(fmt.Sprintf("Partition %d does not fire", frozen))
	said("1 of 2partitions fire")
	said("at least ")
	s.owners(1)
	b.await("#health", "Healthy")
	b.await(".figures", "8pending")
	b.await(".figures", "2 of 2")
	awake()
	const fires = 16
	for i := range fires {
		s.put(fmt.Sprint("fires-", i), `{"delay":"0s","channel":"orders"}`)
	}
	for i := range fires {
		s.explains(fmt.Sprint("fires-", i), "fired")
	}
	b.await("#health", "Healthy")
	keys := s.dueKeys("orders")
	if len(keys) != fires || len(slices.Compact(slices.Sorted(slices.Values(keys)))) != fires {
		t.Errorf("%d triggers have due events %v", fires, keys)
	}
}

// dueKeys are the keys of all due events on a channel.
func (s *server) dueKeys(channel string) (keys []string) {
	s.t.Helper()
	topic := s.prefix + "due." + channel
	for _, r := range services.ReadTopic(s.t, strings.Split(s.kafka, ","), topic, kgo.ReadCommitted()) {
		if !r.Attrs.IsControl() {
			keys = append(keys, string(r.Key))
		}
	}
	return keys
}

// owners waits until all partitions fire, and have so many owners. It returns them by partition.
func (s *server) owners(n int) (all []string) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		items, _ := s.call("GET", "/v1/partitions", "")["items"].([]any)
		ready := true
		all = nil
		for _, item := range items {
			p := item.(map[string]any)
			all = append(all, fmt.Sprint(p["owner"]))
			ready = ready && p["ready"] == true
		}
		if ready && len(slices.Compact(slices.Sorted(slices.Values(all)))) == n {
			return all
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the partitions are %v, want %d owners", items, n)
		}
	}
}
