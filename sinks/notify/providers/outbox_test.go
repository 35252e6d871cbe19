package providers

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/channeltest"
)

func newOutbox(t testing.TB, o OutboxOptions) *Outbox {
	t.Helper()
	b, err := NewOutbox(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestOutboxSuite(t *testing.T) {
	channeltest.Run(t, func(t *testing.T) channeltest.Harness {
		dir := t.TempDir()
		return channeltest.Harness{
			Provider: newOutbox(t, OutboxOptions{Dir: dir}), Channel: "sms",
			Address: func(i int) string { return fmt.Sprintf("+491511234%04d", i) },
			Set:     func(channeltest.Mode) {},
			Seen: func() (seen []channeltest.Seen) {
				for _, m := range outboxFiles(t, dir) {
					seen = append(seen, channeltest.Seen{
						Key: m.ID, To: m.To, Title: templatesOneLine(m.Title),
						Body: m.Body,
					})
				}
				return seen
			},
		}
	})
}

// templatesOneLine returns a title as the page shows it: on one line.
func templatesOneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

func outboxFiles(t testing.TB, dir string) (all []OutboxMessage) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue // deleted meanwhile
		}
		var m OutboxMessage
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		if err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		all = append(all, m)
	}
	return all
}

// The number of messages is bounded. The oldest are deleted, whichever process wrote them. Other
// files stay.
func TestOutboxBounded(t *testing.T) {
	dir := t.TempDir()
	foreign := filepath.Join(dir, "sms-mine.json")
	if err := os.WriteFile(foreign, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	o := OutboxOptions{Dir: dir, Most: 5, Now: func() time.Time { at = at.Add(time.Second); return at }}
	for range 2 {
		b := newOutbox(t, o)
		for i := range 20 {
			b.Send(t.Context(), &notify.Message{
				ID: fmt.Sprint(i), Channel: "push", Address: "token",
				Body: fmt.Sprint("body", i),
			})
		}
		got := ""
		for _, m := range b.Messages() {
			got += m.ID + " "
		}
		if got != "19 18 17 16 15 " {
			t.Errorf("kept %s", got)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(dir, outboxPage))
		if err != nil || !strings.Contains(string(page), "body19") || strings.Contains(string(page), "body14") {
			t.Errorf("%v: %s", err, page)
		}
	}
	if _, err := os.Stat(foreign); err != nil {
		t.Error(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 5+1+1 {
		t.Errorf("%v", entries)
	}
	b := newOutbox(t, o)
	b.Send(t.Context(), &notify.Message{ID: "19", Channel: "push", Address: "token"})
	if m := b.Messages(); m[0].Times != 2 {
		t.Errorf("a copy is not counted: %+v", m[0])
	}
}

// The size in bytes is bounded too. Large messages leave fewer of them: in memory, in the folder
// and on the page, also after a restart.
func TestOutboxBoundedInBytes(t *testing.T) {
	const bound, large = 4 << 20, 1 << 20
	dir := t.TempDir()
	at := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	o := OutboxOptions{Dir: dir, Bytes: bound, Now: func() time.Time { at = at.Add(time.Second); return at }}
	check := func(b *Outbox, want int) {
		t.Helper()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != want || len(b.Messages()) != want || b.Messages()[0].ID != "5" {
			t.Errorf("%d files, %d messages, want %d", len(files), len(b.Messages()), want)
		}
		sum := int64(0)
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			sum += info.Size()
		}
		if sum > bound && want > 1 || int64(b.bytes) != sum {
			t.Errorf("%d bytes in files, %d counted, may be %d", sum, b.bytes, bound)
		}
		page, err := os.ReadFile(filepath.Join(dir, outboxPage))
		if err != nil || len(page) > 2*pageBytes {
			t.Errorf("%v: the page has %d bytes", err, len(page))
		}
		if older := strings.Contains(string(page), "not on this page: "); older != (want > 2) {
			t.Errorf("the page says that there are older messages: %v", older)
		}
	}
	b := newOutbox(t, o)
	for i := range 6 {
		for range 1 + i/5 { // a copy replaces the first one
			b.Send(t.Context(), &notify.Message{
				ID: fmt.Sprint(i), Channel: "email", Address: "a@b.example", Body: strings.Repeat("x", large),
			})
		}
	}
	check(b, 3)
	check(newOutbox(t, o), 3)
	o.Bytes = large / 2 // the newest stays
	check(newOutbox(t, o), 1)
}

// No part of a message runs as a script in the page.
func TestOutboxPageEscapes(t *testing.T) {
	b := newOutbox(t, OutboxOptions{Dir: filepath.Join(t.TempDir(), "new", "folder")})
	const evil = `"><script>alert(1)</script>`
	b.Send(t.Context(), &notify.Message{
		ID: "1", Channel: "email", Address: evil, Title: evil, Body: evil, HTML: evil, DeepLink: "javascript:alert(1)",
		AckURL: "javascript:alert(2)", UnsubscribeURL: "https://wc.example.com/u?" + evil, User: evil, Trigger: evil,
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(b.opts.Dir, outboxPage))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	if strings.Contains(page, "<script") || strings.Contains(page, `href="javascript`) ||
		!strings.Contains(page, "&lt;script&gt;") || !strings.Contains(page, "sandbox") ||
		!strings.Contains(page, "<title>Outbox: 1 message</title>") {
		t.Error(page)
	}
}

// If the folder is gone, messages are not lost.
func TestOutboxUnwritable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	b := newOutbox(t, OutboxOptions{Dir: dir})
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	a := b.Send(t.Context(), &notify.Message{ID: "1", Channel: "sms", Address: "+491"})
	if a.Result.Outcome != worker.OutcomePostponed || !a.Throttled {
		t.Errorf("%+v", a)
	}
}
