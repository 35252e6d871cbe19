package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/logtest"
)

// served is a `waterclock serve` in this process.
type served struct {
	log  *logtest.Buffer
	url  string
	stop func() int
}

func serveInProcess(t *testing.T, brokers string, args ...string) *served {
	t.Helper()
	s := &served{log: &logtest.Buffer{}, url: "http://" + nobody(t)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	all := append([]string{
		"serve", "--brokers", brokers, "--roles", "engine,api", "--data-dir", filepath.Join(t.TempDir(), "data"),
		"--listen", strings.TrimPrefix(s.url, "http://"),
	}, args...)
	go func() { done <- run(ctx, all, stdio{in: strings.NewReader(""), out: s.log, err: s.log}) }()
	s.stop = sync.OnceValue(func() int { cancel(); return <-done })
	t.Cleanup(func() { s.stop() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(s.url + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s
			}
		}
		if time.Now().After(end) {
			t.Fatalf("serve is not ready:\n%s", s.log.String())
		}
	}
}

// A node without reachable brokers logs that, but does not fill its disk with log lines.
func TestLogWithoutBrokers(t *testing.T) {
	cluster, brokers := kafka(t)
	s := serveInProcess(t, brokers)
	before := len(s.log.String())
	cluster.Close()
	time.Sleep(15 * time.Second)
	said := s.log.String()[before:]
	if n := strings.Count(said, "\n"); n > 20 || n == 0 {
		t.Errorf("%d lines in 15 s without a broker:\n%s", n, said)
	}
	if !strings.Contains(said, "the group client failed") || strings.Contains(said, "group manage loop errored") {
		t.Errorf("want our line that the group does not work, and not the client's beside it:\n%s", said)
	}
}

// Each important step in the life of a node is one log line: the start, partitions that come and
// go, and the stop with its steps.
func TestLogOfALife(t *testing.T) {
	_, brokers := kafka(t)
	s := serveInProcess(t, brokers)
	_, metrics := get(t, s.url+"/metrics")
	if want := `waterclock_build_info{commit="`; !strings.Contains(metrics, want) {
		t.Errorf("/metrics has no %s", want)
	}
	s.stop()
	said := s.log.String()
	rest := said
	for _, want := range []string{
		`level=INFO msg=starting version=`, "settings=",
		`level=INFO msg="topics created" topics="waterclock.commands (16), `, "waterclock.control (1)", `msg="partitions gained" partitions="[0 1 2 3`,
		`reason="the group gave them`, "msg=stopping reason=", `msg="partitions given up"`,
		`reason="this process stops"`, "msg=stopped reason=", "steps=\"http ", "engine ",
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %s, or out of order, in:\n%s", want, said)
		}
		rest = after
	}
	if n := strings.Count(said, "\n"); n > 8 {
		t.Errorf("%d lines for a start and a stop without a fault:\n%s", n, said)
	}
}

// The first line of dev names the roles that it runs because of --outbox.
func TestLogOfOutboxRoles(t *testing.T) {
	log := &logtest.Buffer{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{
			"dev", "--listen", "127.0.0.1:0", "--kafka-listen", "127.0.0.1:0",
			"--data-dir", filepath.Join(t.TempDir(), "data"), "--outbox", filepath.Join(t.TempDir(), "outbox"),
		}, stdio{in: strings.NewReader(""), out: io.Discard, err: log})
	}()
	defer func() { cancel(); <-done }()
	for end := time.Now().Add(time.Minute); !strings.Contains(log.String(), "msg=starting"); {
		if time.Now().After(end) {
			t.Fatalf("it does not start:\n%s", log.String())
		}
		time.Sleep(20 * time.Millisecond)
	}
	if said := log.String(); !strings.Contains(said, "push,sms,email") && !strings.Contains(said, "push sms email") {
		t.Errorf("it runs push, sms and email, and says\n%s", said)
	}
}

func get(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// On brokers with auto.create.topics.enable, none of our processes creates a topic by asking for
// it: neither the node, nor a verb with a typo.
func TestBrokersThatCreateTopics(t *testing.T) {
	_, brokers := kafka(t, kfake.AllowAutoTopicCreation(), kfake.DefaultNumPartitions(7))
	s := serveInProcess(t, brokers, "--topics-partitions", "3")
	body := strings.NewReader(`{"delay":"1ms","channel":"orders"}`)
	resp, err := http.Post(s.url+"/v1/triggers", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, line := range []string{
		"doctor", "topics plan", "due tail typo --no-follow", "events tail --no-follow",
		"events tail --trigger k --no-follow", "schedule k --in 1h",
	} {
		for _, prefix := range []string{"waterclock.", "typo."} {
			args := append(strings.Fields(line), "--brokers", brokers, "--set", "topics.prefix="+prefix)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			run(ctx, args, stdio{in: strings.NewReader(""), out: io.Discard, err: io.Discard})
			cancel()
		}
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	all, err := kadm.NewClient(cl).ListTopics(t.Context())
	if err != nil || !all.Has("waterclock.due.orders") {
		t.Fatalf("%v, %v: this judged nothing", all.Names(), err)
	}
	for _, topic := range all {
		one := map[string]bool{
			"waterclock.control": true, "waterclock.audit": true, "waterclock.endpoints": true,
		}[topic.Topic]
		if n := len(topic.Partitions); !strings.HasPrefix(topic.Topic, "waterclock.") || n != 3 && !(one && n == 1) {
			t.Errorf("topic %s has %d partitions: a broker made it", topic.Topic, n)
		}
	}
}
