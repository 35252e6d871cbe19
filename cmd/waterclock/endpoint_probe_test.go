package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// In dev, loopback is allowed but private addresses are not. Without --send the receiver gets no
// request.
func TestEndpointsTest(t *testing.T) {
	var got atomic.Value
	var requests atomic.Int32
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		got.Store(r.Method + " " + r.Header.Get("X-Trigger-Id") + " " + r.Header.Get("X-Trigger-Attempt"))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
		}
	}))
	defer receiver.Close()
	w := devInProcess(t, nil, "--data-dir", filepath.Join(t.TempDir(), "dev"))
	defer w.end()
	run := func(args ...string) result {
		t.Helper()
		return cli(t, nil, "", append(append([]string{"endpoints", "test"}, args...), "--url", w.http)...)
	}
	run(receiver.URL+"/in?token=x").want(t, exitOK, "127.0.0.1")
	if requests.Load() != 0 {
		t.Error("a request without --send")
	}
	r := run(receiver.URL+"/in", "--send", "-o", "json")
	if r.want(t, exitOK); !strings.Contains(r.out, `"status": 200`) &&
		!strings.Contains(r.out, `"status":200`) || got.Load() != "POST endpoint-test 1" {
		t.Errorf("%s; the receiver got %v", r.out, got.Load())
	}
	run(receiver.URL+"/moved", "--send").want(t, exitFailed, "status 302 is not an acknowledgement")
	if requests.Load() != 2 {
		t.Error("the redirect was followed")
	}
	run("http://10.0.0.1/").want(t, exitUsage, "forbidden_url: ")
	run("https://169.254.169.254/", "--send").want(t, exitUsage, "forbidden_url: ")
	run("http://127.0.0.1:1/").want(t, exitFailed, "refused")
	run().want(t, exitUsage)
	cli(t, nil, "", "endpoints", "test", "https://a.example", "--brokers", "127.0.0.1:1").want(t, exitUsage,
		"name it with --url")
}

// dev accepts a URL that its list allows in a register too. It refuses every other URL, over HTTP
// and over Kafka.
func TestForbiddenCallbacks(t *testing.T) {
	w := devInProcess(t, nil, "--data-dir", filepath.Join(t.TempDir(), "dev"))
	defer w.end()
	for i, c := range []struct {
		url  string
		exit int
	}{
		{"http://127.0.0.1:1/hook", exitOK},
		{"https://hooks.example.com/in", exitOK},
		{"http://10.0.0.1/hook", exitUsage},
		{"https://169.254.169.254/latest", exitUsage},
		{"https://hooks.example.com:22/", exitUsage},
		{"https://2130706433/", exitUsage},
	} {
		for door, flags := range map[string][]string{"http": {"--url", w.http}, "kafka": {"--brokers", w.kafka}} {
			key := door + string(rune('a'+i))
			args := append([]string{"schedule", key, "--in", "1h", "--callback-url", c.url}, flags...)
			r := cli(t, nil, "", args...)
			if r.want(t, c.exit); c.exit != exitOK && !strings.Contains(r.err, "forbidden_url") {
				t.Errorf("%s by %s: %s", c.url, door, r.err)
			}
		}
	}
}
