// Package channeltest tests what every provider of notifications must do, for any service.
package channeltest

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
)

// Mode is the behaviour of the service.
type Mode int

// The modes of a service. A provider leaves modes that its service does not have out of
// Harness.Modes.
const (
	Takes     Mode = iota // accepts messages
	Passing               // a temporary error: try later
	Permanent             // a permanent error: this message can never be sent
	Busy                  // it wants fewer messages, for any receiver
	Dead                  // the address will never work again
	Hangs                 // it accepts the request and never answers
	Away                  // it is not listening
	Refuses               // the credentials are wrong
)

// Seen is a message as the service received it.
type Seen struct {
	Key, To, Title, Body string // Key is the same for each copy of a message
}

// Harness is a provider with a service that the test controls.
type Harness struct {
	Provider notify.Provider
	Channel  string
	Address  func(i int) string // the i-th valid address
	Bad      []string           // invalid addresses; nothing is sent to them
	Modes    []Mode             // modes that Set supports, besides Takes
	Set      func(Mode)
	Seen     func() []Seen
	// Secrets are texts that no answer may contain.
	Secrets []string
	// Titles reports whether the service has a title besides the body.
	Titles bool
}

// within bounds how long a test waits. It is long, because the machine may be loaded.
const within = 60 * time.Second

// Run runs the suite. open makes a provider and its service, for one test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"a message arrives", testArrives},
		{"copies have one key", testCopies},
		{"texts arrive as they are, and inject nothing", testTexts},
		{"what is no address is failed", testBad},
		{"many at once", testMany},
		{"errors say what to do", testErrors},
		{"it goes on after an error", testGoesOn},
		{"a context ends a call", testContext},
		{"nothing is sent after the context has ended", testEnded},
		{"closing it twice", testClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := open(t)
			t.Cleanup(func() { _ = h.Provider.Close() })
			c.test(t, h)
		})
	}
}

// Message returns the i-th message of a test.
func (h Harness) Message(i int) *notify.Message {
	return &notify.Message{
		ID: fmt.Sprintf("acme/pills-%d@2026-11-20T14:00:00.000Z#0", i), Channel: h.Channel, Tenant: "acme",
		Trigger: fmt.Sprintf("pills-%d", i), User: "u_81", Address: h.Address(i), Title: fmt.Sprintf("Pills %d", i),
		Body: fmt.Sprintf("Take number %d.", i), Data: map[string]string{"notification_id": fmt.Sprint(i)},
	}
}

// send sends a message, and checks what must hold for every answer.
func (h Harness) send(t *testing.T, ctx context.Context, m *notify.Message) notify.Answer {
	t.Helper()
	before := *m
	before.Data = maps.Clone(m.Data)
	a := h.Provider.Send(ctx, m)
	if !reflect.DeepEqual(&before, m) {
		t.Errorf("the message was changed: %+v, was %+v", *m, before)
	}
	said := fmt.Sprintf("%+v", a)
	for _, secret := range append(h.Secrets, m.Address) {
		if strings.Contains(said, secret) {
			t.Errorf("the answer shows %q: %s", secret, said)
		}
	}
	r := a.Result
	switch r.Outcome {
	case worker.OutcomeAccepted, worker.OutcomeDelivered:
	case worker.OutcomeRetry, worker.OutcomeFailed, worker.OutcomePostponed, worker.OutcomeSuppressed:
		if r.Code == "" || r.Detail == "" && r.Code != worker.CodeTimeout && r.Code != worker.CodeExpired {
			t.Errorf("no code or no detail: %s", said)
		}
	default:
		t.Errorf("no outcome: %s", said)
	}
	if a.Throttled && (r.Outcome != worker.OutcomePostponed || r.RetryAfter <= 0) {
		t.Errorf("throttled is postponed for a time: %s", said)
	}
	if a.MayBeAddress && !a.Throttled {
		t.Errorf("the address may be throttled, and nothing is: %s", said)
	}
	if len(r.Code) > 64 || strings.ContainsAny(r.Code, " \r\n") || strings.ContainsAny(r.Detail, "\r\n\x00") {
		t.Errorf("code or detail is not as receipts have them: %q %q", r.Code, r.Detail)
	}
	return a
}

func (h Harness) sent(t *testing.T, m *notify.Message) notify.Answer {
	t.Helper()
	a := h.send(t, t.Context(), m)
	if o := a.Result.Outcome; o != worker.OutcomeAccepted && o != worker.OutcomeDelivered {
		t.Fatalf("not sent: %+v", a)
	}
	return a
}

// arrived waits until n messages have arrived.
func (h Harness) arrived(t *testing.T, n int) []Seen {
	t.Helper()
	for deadline := time.Now().Add(within); ; time.Sleep(5 * time.Millisecond) {
		seen := h.Seen()
		if len(seen) >= n {
			if len(seen) > n {
				t.Errorf("%d messages came, want %d", len(seen), n)
			}
			return seen
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d messages came, want %d", len(seen), n)
		}
	}
}

func testArrives(t *testing.T, h Harness) {
	m := h.Message(1)
	h.sent(t, m)
	got := h.arrived(t, 1)[0]
	if got.To != m.Address || !strings.Contains(got.Body, m.Body) || h.Titles && got.Title != m.Title || got.Key == "" {
		t.Errorf("came %+v of %+v", got, m)
	}
	if h.Provider.Name() == "" {
		t.Error("it has no name")
	}
}

func testCopies(t *testing.T, h Harness) {
	h.sent(t, h.Message(1))
	first := h.arrived(t, 1)[0].Key
	h.sent(t, h.Message(1))
	h.sent(t, h.Message(2))
	keys := map[string]bool{}
	for _, s := range h.Seen() {
		keys[s.Key] = true
	}
	if len(keys) != 2 || !keys[first] {
		t.Errorf("keys %v of a message, its copy and another", keys)
	}
}

// Users' texts may contain anything, and must stay text.
func testTexts(t *testing.T, h Harness) {
	for i, text := range []string{
		"Grüße, \"q\" <b>x</b> & 日本語 🎉", "a\r\nBcc: evil@example.com\r\n\r\nx", "\r\n.\r\nQUIT\r\n", "{{ .X }} %s ${y}",
		strings.Repeat("long ", 500),
	} {
		m := h.Message(i)
		m.Title, m.Body = text, text
		before := len(h.Seen())
		a := h.send(t, t.Context(), m)
		if a.Result.Outcome == worker.OutcomeFailed {
			continue // refused, so nothing was injected
		}
		seen := h.arrived(t, before+1)
		got := seen[len(seen)-1]
		for _, s := range seen {
			if s.To != h.Address(0) && !known(h, s.To) {
				t.Errorf("%q went to %q", text, s.To)
			}
		}
		if strings.ContainsAny(got.Title, "\r\n") {
			t.Errorf("the title has a line end: %q", got.Title)
		}
	}
}

func known(h Harness, to string) bool {
	for i := range 10 {
		if h.Address(i) == to {
			return true
		}
	}
	return false
}

func testBad(t *testing.T, h Harness) {
	for _, bad := range h.Bad {
		m := h.Message(1)
		m.Address = bad
		a := h.Provider.Send(t.Context(), m)
		if a.Result.Outcome != worker.OutcomeFailed || a.Result.Code == "" {
			t.Errorf("%q: %+v", bad, a)
		}
	}
	if seen := h.Seen(); len(seen) > 0 {
		t.Errorf("sent %+v", seen)
	}
}

func testMany(t *testing.T, h Harness) {
	const n = 100
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			if a := h.send(t, t.Context(), h.Message(i)); a.Result.Outcome != worker.OutcomeAccepted &&
				a.Result.Outcome != worker.OutcomeDelivered {
				t.Errorf("%d: %+v", i, a)
			}
		})
	}
	all.Wait()
	to := map[string]string{}
	for _, s := range h.arrived(t, n) {
		to[s.To] = s.Body
	}
	for i := range n {
		if m := h.Message(i); !strings.Contains(to[m.Address], m.Body) {
			t.Errorf("to %s came %q, want %q", m.Address, to[m.Address], m.Body)
		}
	}
}

// wants checks the answer in each mode.
var wants = map[Mode]func(notify.Answer) bool{
	Passing:   func(a notify.Answer) bool { return a.Result.Outcome == worker.OutcomeRetry && !a.DeadAddress },
	Permanent: func(a notify.Answer) bool { return a.Result.Outcome == worker.OutcomeFailed && !a.Throttled },
	Busy:      func(a notify.Answer) bool { return a.Throttled && !a.DeadAddress },
	Dead:      func(a notify.Answer) bool { return a.DeadAddress && a.Result.Outcome == worker.OutcomeFailed },
	Away: func(a notify.Answer) bool {
		return (a.Result.Outcome == worker.OutcomeRetry || a.Result.Outcome == worker.OutcomePostponed) &&
			!a.DeadAddress
	},
	// The operator must fix wrong credentials, so they use up no attempt.
	Refuses: func(a notify.Answer) bool { return a.Result.Outcome == worker.OutcomePostponed && !a.DeadAddress },
}

func testErrors(t *testing.T, h Harness) {
	for _, mode := range h.Modes {
		want := wants[mode]
		if want == nil {
			continue
		}
		h.Set(mode)
		for i := range 3 {
			if a := h.send(t, t.Context(), h.Message(i)); !want(a) {
				t.Errorf("mode %d: %+v", mode, a)
			}
		}
	}
}

func testGoesOn(t *testing.T, h Harness) {
	n := 0
	for _, mode := range h.Modes {
		if wants[mode] == nil {
			continue
		}
		h.Set(mode)
		h.send(t, t.Context(), h.Message(0))
		h.Set(Takes)
		n++
		h.sent(t, h.Message(n))
	}
	if n > 0 && len(h.Seen()) < n {
		t.Errorf("%d came, want %d", len(h.Seen()), n)
	}
}

func testContext(t *testing.T, h Harness) {
	if !has(h.Modes, Hangs) {
		return // for example a folder
	}
	h.sent(t, h.Message(0)) // also with an open connection
	h.Set(Hangs)
	for i := range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		done := make(chan notify.Answer, 1)
		go func() { done <- h.send(t, ctx, h.Message(i)) }()
		select {
		case a := <-done:
			if o := a.Result.Outcome; o != worker.OutcomeRetry && o != worker.OutcomePostponed {
				t.Errorf("%+v", a)
			}
		case <-time.After(within):
			t.Fatal("it hangs with the service")
		}
		cancel()
	}
	h.Set(Takes)
	h.sent(t, h.Message(1))
}

func testEnded(t *testing.T, h Harness) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := h.send(t, ctx, h.Message(1))
	if o := a.Result.Outcome; o != worker.OutcomeRetry && o != worker.OutcomePostponed {
		t.Errorf("%+v", a)
	}
	if seen := h.Seen(); len(seen) > 0 {
		t.Errorf("sent %+v", seen)
	}
}

func testClose(t *testing.T, h Harness) {
	h.sent(t, h.Message(1))
	for range 2 {
		if err := h.Provider.Close(); err != nil {
			t.Error(err)
		}
	}
}

func has(modes []Mode, one Mode) bool {
	for _, m := range modes {
		if m == one {
			return true
		}
	}
	return false
}
