package attack

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Requests that no client would send, on connections of their own, to a dev with auth. What
// is said to them gives nothing away, changes nothing, and harms nobody behind them.

// rawAnswer is the head of an answer.
type rawAnswer struct {
	StatusCode int
	Header     http.Header
}

// raw sends bytes and returns the answers until the server closes, or says nothing for a
// minute.
func raw(t *testing.T, address, text string) (answers []rawAnswer, bodies []string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("the listener is gone: %v", err)
		return nil, nil
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(conn, text) }() // a server that has enough may not read on
	r := bufio.NewReader(conn)
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return answers, bodies
		}
		b, err := io.ReadAll(resp.Body)
		answers, bodies = append(answers, rawAnswer{resp.StatusCode, resp.Header}), append(bodies, string(b))
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return answers, bodies
		}
	}
}

// request is one in HTTP/1.1 that closes its connection; head are further lines.
func request(line, host string, head ...string) string {
	return line + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n" +
		strings.Join(append(head, ""), "\r\n") + "\r\n"
}

func TestRawRequests(t *testing.T) {
	n := newDev(t)
	api, admin := n.processes[0].http, n.processes[0].admin
	a := n.as("attacker", attackerKey)
	a.must(t, http.StatusCreated, "PUT", "/v1/triggers/kept", `{"delay":"1d","payload":"secret"}`)
	key := "Authorization: Bearer " + attackerKey
	t.Run("unauthenticated reach", func(t *testing.T) {
		for _, path := range []string{
			"/metrics", "/readyz", "/healthz", "/debug/pprof/", "/debug/vars", "/debug/pprof/heap",
			"//metrics", "/./metrics",
			"/v1/../metrics", "/v1/%2e%2e/metrics", "/%2fmetrics", "/metrics/", "/metrics%00", "/v1/..%2fmetrics",
			"/internal/v1/partitions", "/v1/triggers", "//v1/triggers", "/v1//triggers", "/v1/./triggers",
			"/V1/triggers",
			"/v1/triggers/kept", "/v1/triggers/%6bept", "/v1/triggers/x/../kept", "/v1/triggers/x%2f..%2fkept",
			"/v1/triggers/kept;x=1", "/v1/triggers/kept/", "/v1/audit", "/v1/partitions", "/v1/whoami", "*",
		} {
			answers, bodies := raw(t, api, request("GET "+path, "localhost"))
			if len(answers) != 1 {
				t.Errorf("%s: %d answers", path, len(answers))
				continue
			}
			if s := answers[0].StatusCode; s < 300 || s >= 500 || strings.Contains(bodies[0], "secret") {
				t.Errorf("%s: %d %s", path, s, bodies[0])
			}
		}
	})
	t.Run("paths of nobody on admin.listen", func(t *testing.T) {
		for _, path := range []string{
			"/debug/pprof/", "/debug/vars", "/v1/triggers", "/internal/v1/partitions", "/v1/../v1/triggers",
		} {
			answers, bodies := raw(t, admin, request("GET "+path, "localhost", key))
			if len(answers) != 1 || answers[0].StatusCode < 300 || strings.Contains(bodies[0], "secret") {
				t.Errorf("%s: %v %v", path, answers, bodies)
			}
		}
	})
	t.Run("hosts", func(t *testing.T) {
		for _, at := range []struct{ address, path string }{{api, "/v1/triggers"}, {admin, "/readyz"}} {
			for _, c := range []struct {
				name, text string
				want       int
			}{
				{"foreign", request("GET "+at.path, "evil.example", key), http.StatusForbidden},
				{"foreign with a port", request("GET "+at.path, "evil.example:80", key), http.StatusForbidden},
				{"looks like ours", request("GET "+at.path, "localhost.evil.example", key), http.StatusForbidden},
				{"absolute form", request("GET http://evil.example"+at.path, "localhost", key), http.StatusForbidden},
				{"two", request("GET "+at.path, "localhost", "Host: evil.example", key), http.StatusBadRequest},
				{
					"none", "GET " + at.path + " HTTP/1.1\r\n" + key + "\r\nConnection: close\r\n\r\n",
					http.StatusBadRequest,
				},
				{"none, in HTTP/1.0", "GET " + at.path + " HTTP/1.0\r\n" + key + "\r\n\r\n", http.StatusForbidden},
				{
					"forwarded", request("GET "+at.path, "localhost", "X-Forwarded-Host: evil.example", key),
					http.StatusOK,
				},
			} {
				answers, bodies := raw(t, at.address, c.text)
				if len(answers) != 1 || answers[0].StatusCode != c.want {
					t.Errorf("%s: host %s: want %d, got %d answers, %v", at.path, c.name, c.want, len(answers), bodies)
				}
			}
		}
	})
	t.Run("methods", func(t *testing.T) {
		for _, head := range []string{
			"X-HTTP-Method-Override: DELETE", "X-HTTP-Method: DELETE", "X-Method-Override: DELETE",
		} {
			raw(t, api, request("GET /v1/triggers/kept?_method=DELETE", "localhost", head, key))
			raw(t, api, request("POST /v1/triggers/kept", "localhost", head, key, "Content-Length: 0"))
		}
		for _, method := range []string{"TRACE", "CONNECT", "TRACK", "PROPFIND", "get", "DELETE\t"} {
			answers, bodies := raw(t, api, request(method+" /v1/triggers/kept", "localhost", key, "X-Mirror: mirrored"))
			for i, resp := range answers {
				if resp.StatusCode < 400 || strings.Contains(bodies[i], "mirrored") {
					t.Errorf("%s: %d %s", method, resp.StatusCode, bodies[i])
				}
			}
		}
		a.must(t, http.StatusOK, "GET", "/v1/triggers/kept", "")
	})
	t.Run("preflights", func(t *testing.T) {
		for _, head := range [][]string{{key}, nil} {
			answers, _ := raw(t, api, request("OPTIONS /v1/triggers/kept", "localhost", append(head,
				"Origin: https://evil.example", "Access-Control-Request-Method: DELETE",
				"Access-Control-Request-Headers: authorization")...))
			for _, resp := range answers {
				for name := range resp.Header {
					if strings.HasPrefix(name, "Access-Control-Allow-") {
						t.Errorf("another origin is allowed: %s: %s", name, resp.Header.Get(name))
					}
				}
			}
		}
		answers, bodies := raw(t, api, request("DELETE /v1/triggers/kept", "localhost", key,
			"Origin: https://evil.example"))
		if len(answers) != 1 || answers[0].StatusCode != http.StatusForbidden {
			t.Errorf("a write of another origin: %v", bodies)
		}
	})
	t.Run("bodies", func(t *testing.T) {
		const del = "DELETE /v1/triggers/kept HTTP/1.1\r\nHost: localhost\r\n\r\n" // without a key
		for _, c := range []struct{ name, text string }{
			{"garbage behind a request", request("GET /v1/triggers", "localhost", key) + "\x00\xff garbage"},
			{"two lengths", request("POST /v1/triggers:batch", "localhost", key, "Content-Length: 0", fmt.Sprintf(
				"Content-Length: %d", len(del))) + del},
			{"a length and chunks", request("POST /v1/triggers:batch", "localhost", key,
				fmt.Sprintf("Content-Length: %d", 5+len(del)), "Transfer-Encoding: chunked") + "0\r\n\r\n" + del},
			{"chunks spelt otherwise", request("POST /v1/triggers:batch", "localhost", key, "Content-Length: 5",
				"Transfer-Encoding: xchunked") + "0\r\n\r\n" + del},
			{"a negative length", request("POST /v1/triggers:batch", "localhost", key, "Content-Length: -1") + del},
			{"a chunk without end", request("POST /v1/triggers:batch", "localhost", key, "Transfer-Encoding: chunked") +
				"fffffffffffffffff\r\n" + del},
			{"a space before the colon", request("GET /v1/triggers", "localhost", key, "Content-Length : 3") + "abc"},
			{"a folded header", request("GET /v1/triggers", "localhost", key, "X-A: b\r\n c: d")},
		} {
			answers, bodies := raw(t, api, c.text)
			for i, resp := range answers[min(1, len(answers)):] { // whatever is taken for a second request has no key
				if resp.StatusCode < 400 {
					t.Errorf("%s: answer %d is %d %s", c.name, i+2, resp.StatusCode, bodies[i+1])
				}
			}
		}
		a.must(t, http.StatusOK, "GET", "/v1/triggers/kept", "")
	})
	t.Run("headers", func(t *testing.T) {
		large := strings.Repeat("x", 4<<20)
		var many []string
		for i := range 20_000 {
			many = append(many, fmt.Sprintf("X-%d: %d", i, i))
		}
		for _, at := range []string{api, admin} {
			for name, text := range map[string]string{
				"one large": request("GET /v1/triggers", "localhost", "X-Large: "+large),
				"many":      request("GET /v1/triggers", "localhost", append(many, "X-Large: "+large)...),
				"path":      request("GET /v1/triggers/"+large, "localhost"),
			} {
				answers, bodies := raw(t, at, text)
				if len(answers) > 1 || len(answers) == 1 && answers[0].StatusCode < 400 {
					t.Errorf("%s: %v", name, bodies)
				}
			}
		}
	})
	t.Run("pipelining", func(t *testing.T) {
		const n = 100
		one := "GET /v1/triggers/kept HTTP/1.1\r\nHost: localhost\r\n" + key + "\r\n\r\n"
		answers, _ := raw(t, api, strings.Repeat(one, n)+request("GET /v1/triggers/kept", "localhost", key))
		if len(answers) != n+1 {
			t.Errorf("%d answers to %d requests", len(answers), n+1)
		}
		for _, resp := range answers {
			if resp.StatusCode != http.StatusOK {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
	})
	t.Run("other protocols", func(t *testing.T) {
		hello := append([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3}, bytes.Repeat([]byte{7}, 507)...)
		h2 := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
		var all sync.WaitGroup
		for _, at := range []string{api, admin, n.kafka} {
			for name, text := range map[string]string{
				"TLS": string(hello), "HTTP/2": h2, "Kafka": "\x00\x00\x00\x08\x00\x12\x00\x00\x00\x00\x00\x01",
				"zeros": string(make([]byte, 64<<10)), "SSH": "SSH-2.0-OpenSSH_9.6\r\n",
				"HTTP": request("GET /", "localhost"),
			} {
				all.Go(func() {
					answers, bodies := raw(t, at, text)
					for i, resp := range answers {
						if resp.StatusCode < 300 || strings.Contains(bodies[i], "goroutine ") {
							t.Errorf("%s to %s: %d %s", name, at, resp.StatusCode, bodies[i])
						}
					}
				})
			}
		}
		all.Wait()
	})
	a.must(t, http.StatusOK, "GET", "/v1/triggers/kept", "")
	n.processes[0].ready(t)
	if log := n.processes[0].said(t); strings.Contains(log, "panic") {
		t.Error("the log has a panic")
	}
}
