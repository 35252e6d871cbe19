package examples

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/waterclock/waterclock/test/built"
)

// receivers are the programs of the guide, by language.
var receivers = []struct {
	language, file string
	command        []string // the file comes behind
	setup          string   // what has to be there
}{
	{"go", "main.go", []string{"go", "run"}, "go"},
	{"python", "receiver.py", []string{"python3"}, "python3"},
	{"java", "Receiver.java", []string{"java"}, "java"},
	{"javascript", "receiver.js", []string{"node"}, "node"},
}

const (
	oldWebhookKey = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newWebhookKey = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	wrongKey      = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// TestReceivers runs the programs of the webhooks guide. Each takes what is signed
// with one of its keys, and refuses what is changed, old, of the future, signed
// with another key, or not signed.
func TestReceivers(t *testing.T) {
	page := read(t, "../docs/api/webhooks.md")
	for _, r := range receivers {
		t.Run(r.language, func(t *testing.T) {
			if _, err := exec.LookPath(r.setup); err != nil {
				t.Skipf("%s is not installed", r.setup)
			}
			blocks := blocksOf(page, r.language)
			if len(blocks) != 1 {
				t.Fatalf("the guide has %d programs", len(blocks))
			}
			port := freePort(t)
			file := filepath.Join(t.TempDir(), r.file)
			program := strings.ReplaceAll(blocks[0], "9000", port)
			if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
				t.Fatal(err)
			}
			out := runReceiver(t, append(r.command, file), port)
			checkReceiver(t, "http://127.0.0.1:"+port+"/")
			await(t, "the program prints what it took", func() bool {
				return strings.Contains(out.String(), `msg_1 {"triggerId":"pills","payload":"ä"}`)
			})
			if n := strings.Count(out.String(), "msg_"); n != 3 {
				t.Errorf("it took %d calls, want 3:\n%s", n, out)
			}
		})
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	_, port, _ := net.SplitHostPort(built.FreeAddr(t))
	return port
}

// printed is what a program prints while it runs.
type printed struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// runReceiver runs a program until the test ends, with both keys.
func runReceiver(t *testing.T, command []string, port string) *printed {
	t.Helper()
	out := &printed{}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), "WEBHOOK_SECRET="+oldWebhookKey+","+newWebhookKey)
	cmd.Stdout, cmd.Stderr = out, out
	ownGroup(cmd) // go run has a child
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		killGroup(cmd)
		_ = cmd.Wait() // it was killed
	})
	await(t, "the program listens", func() bool {
		c, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return out
}

func checkReceiver(t *testing.T, url string) {
	t.Helper()
	const body = `{"triggerId":"pills","payload":"ä"}`
	now := time.Now()
	for i, row := range []struct {
		name   string
		keys   []string
		at     time.Time
		change func(h http.Header, body *string)
		want   int
	}{
		{"one key", []string{newWebhookKey}, now, nil, 204},
		{"the other key", []string{oldWebhookKey}, now, nil, 204},
		{"two signatures, the second is known", []string{wrongKey, oldWebhookKey}, now, nil, 204},
		{"another key", []string{wrongKey}, now, nil, 401},
		{"another body", []string{newWebhookKey}, now, func(_ http.Header, body *string) { *body += " " }, 401},
		{"another id", []string{newWebhookKey}, now, func(h http.Header, _ *string) {
			h.Set("webhook-id", "msg_x")
		}, 401},
		{"old", []string{newWebhookKey}, now.Add(-6 * time.Minute), nil, 401},
		{"of the future", []string{newWebhookKey}, now.Add(6 * time.Minute), nil, 401},
		{"another time", []string{newWebhookKey}, now, func(h http.Header, _ *string) {
			h.Set("webhook-timestamp", strconv.FormatInt(now.Unix()+1, 10))
		}, 401},
		{"no time", []string{newWebhookKey}, now, func(h http.Header, _ *string) {
			h.Set("webhook-timestamp", "soon")
		}, 401},
		{"no signature", nil, now, nil, 401},
		{"nothing", nil, now, func(h http.Header, _ *string) { clear(h) }, 401},
		{"an empty signature", nil, now, func(h http.Header, _ *string) { h.Set("webhook-signature", "v1,") }, 401},
	} {
		id, sent := fmt.Sprintf("msg_%d", i), body
		req, err := http.NewRequest(http.MethodPost, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		var signatures []string
		for _, key := range row.keys {
			wh, err := standardwebhooks.NewWebhook(key)
			if err != nil {
				t.Fatal(err)
			}
			s, err := wh.Sign(id, row.at, []byte(body))
			if err != nil {
				t.Fatal(err)
			}
			signatures = append(signatures, s)
		}
		req.Header.Set("webhook-id", id)
		req.Header.Set("webhook-timestamp", strconv.FormatInt(row.at.Unix(), 10))
		if len(signatures) > 0 {
			req.Header.Set("webhook-signature", strings.Join(signatures, " "))
		}
		if row.change != nil {
			row.change(req.Header, &sent)
		}
		post(t, row.name, req, sent, row.want)
	}
}

func post(t *testing.T, name string, req *http.Request, body string, want int) {
	t.Helper()
	second, err := http.NewRequest(req.Method, req.URL.String(), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	second.Header = req.Header
	resp, err := http.DefaultClient.Do(second)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	resp.Body.Close()
	if resp.StatusCode != want {
		t.Errorf("%s: %d, want %d", name, resp.StatusCode, want)
	}
}

// await waits until ok, for as long as it takes a program to compile.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 2 minutes: %s", what)
}

// TestReceiverOfTheReadme does what the README shows: a receiver that fails twice
// is called a third time. Each time the owner is asked first (callback.recheck).
func TestReceiverOfTheReadme(t *testing.T) {
	d := startDev(t)
	bin := filepath.Join(t.TempDir(), "receiver")
	build(t, bin, "./receiver")
	port := freePort(t)
	out := &printed{}
	receiver := exec.Command(bin, "-listen", "127.0.0.1:"+port, "-fail", "2")
	receiver.Stdout = out
	if err := receiver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = receiver.Process.Kill(); _ = receiver.Wait() })
	resp, err := http.Post(d.url+"/v1/triggers", "application/json", strings.NewReader(
		`{"id":"pills","delay":"0s","channel":"webhook","payload":{"say":"take pills"},`+
			`"callback":{"url":"http://127.0.0.1:`+port+`/","retry":["100ms","100ms"],"recheck":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	await(t, "the third attempt", func() bool {
		return strings.Contains(out.String(), `attempt 3 of pills: {"triggerId":"pills","payload":{"say":"take pills"}} → 204`)
	})
	if n := strings.Count(out.String(), "→ 500"); n != 2 {
		t.Errorf("%d failures, want 2:\n%s", n, out)
	}
}
