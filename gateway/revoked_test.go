package gateway

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/trigger"
)

// revocable are keys of which one can be revoked: keyO, of an operator. Whoever asks is asked about often.
func revocable(t *testing.T) (keys *keysOf, revoke func()) {
	every := admitEvery
	t.Cleanup(func() { admitEvery = every })
	admitEvery = 20 * time.Millisecond
	keys = &keysOf{}
	keys.set(t, "acme "+keyO+" operator\n")
	return keys, func() { keys.set(t, "acme "+keyA+"\n") }
}

// long begins a long request of an operator.
func (w *world) long(path string, body io.Reader) *bufio.Scanner {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.url+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+keyO)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		w.t.Fatal(resp.Status)
	}
	return bufio.NewScanner(resp.Body)
}

// last is the last line, which must say that the key is no longer valid.
func last(t *testing.T, lines *bufio.Scanner) (all []string) {
	t.Helper()
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	if len(all) == 0 || !strings.Contains(all[len(all)-1], errNoLongerAdmitted.Detail) {
		t.Errorf("it ends with %q, %v", all, lines.Err())
	}
	return all
}

// A redrive ends with the key that began it.
func TestRedriveEndsWithItsKey(t *testing.T) {
	for _, body := range []string{`{"all":true,"rate":20}`, `{"trigger_id":"k","rate":20}`} {
		t.Run(body, func(t *testing.T) {
			const n = 200
			keys, revoke := revocable(t)
			w := newLetterWorld(t, func(o *Options) { o.Auth = keys })
			w.deadOfOne(trigger.NewKey("acme", "k"), n)
			lines := w.long("/v1/dead-letters:redrive", strings.NewReader(body))
			lines.Scan() // it has begun
			revoke()
			begun := time.Now()
			last(t, lines)
			if took := time.Since(begun); took > 5*time.Second || w.redrives() >= n {
				t.Errorf("it ended after %v, %d of %d letters went out", took, w.redrives(), n)
			}
		})
	}
}

// A batch ends with the key that began it: the lines that come then are refused.
func TestBatchEndsWithItsKey(t *testing.T) {
	keys, revoke := revocable(t)
	w := newWorld(t, func(o *Options) { o.Auth = keys })
	body, send := io.Pipe()
	go func() {
		fmt.Fprintf(send, `{"id":"before",%s`+"\n", at("")[1:])
		eventually(t, "the first line", func() bool { return w.state(trigger.NewKey("acme", "before")) != nil })
		revoke()
		time.Sleep(10 * admitEvery)
		fmt.Fprintf(send, `{"id":"after",%s`+"\n"+`{"id":"last",%s`+"\n", at("")[1:], at("")[1:])
		send.Close()
	}()
	if all := last(t, w.long("/v1/triggers:batch", body)); len(all) != 2 {
		t.Errorf("the answer is %q", all)
	}
	if w.state(trigger.NewKey("acme", "after")) != nil {
		t.Error("a line was applied after the key was revoked")
	}
}

// A reconciliation ends with the key that began it.
func TestReconcileEndsWithItsKey(t *testing.T) {
	keys, revoke := revocable(t)
	w := newWorld(t, func(o *Options) { o.Auth = keys })
	asked := 0
	_, w.url = w.gateway(slowly{w.engine, func() { asked++; revoke() }}, func(o *Options) { o.Auth = keys })
	if all := last(t, w.long("/v1/reconcile", nil)); len(all) != 1 || asked != 1 {
		t.Errorf("%d partitions were asked: %q", asked, all)
	}
}

// slowly is an owner that needs longer than it takes to ask about a key.
type slowly struct {
	*engine
	begin func()
}

func (s slowly) Reconcile(ctx context.Context, _ int32, _ bool) (found peer.Reconciled, err error) {
	s.begin()
	select {
	case <-ctx.Done():
	case <-time.After(20 * admitEvery):
	}
	return found, ctx.Err()
}
