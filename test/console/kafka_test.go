package console_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/built"
	"github.com/waterclock/waterclock/test/services"
)

// serve is an instance on a real Kafka, with these roles.
func serve(t *testing.T, brokers, prefix, roles string, settings ...string) *server {
	t.Helper()
	listen, admin := built.FreeAddr(t), built.FreeAddr(t)
	s := &server{t: t, url: "http://" + listen, kafka: brokers, prefix: prefix, ready: "http://" + admin + "/readyz"}
	s.args = append([]string{
		"serve", "--roles", roles, "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", listen,
		"--admin-listen", admin,
	}, settings...)
	s.startNow()
	return s
}

// kafka makes the topics of a test on a real Kafka. It returns the brokers, the prefix, and the settings of instances.
func kafka(t *testing.T, more map[string]string) (brokers, prefix string, settings []string) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a browser and a JVM")
	}
	t.Parallel() // it waits, most of the time
	brokers, prefix = services.Kafka(t).Bootstrap, fmt.Sprintf("c%x.", rand.Uint32())
	settings = []string{"--brokers", brokers}
	all := map[string]string{
		"topics.prefix": prefix, "group": prefix + "engine", "topics.partitions": "2", "channels.auto_create": "true",
	}
	maps.Copy(all, more)
	for name, value := range all {
		settings = append(settings, "--set", name+"="+value)
	}
	file, err := built.Waterclock()
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.Command(file, append([]string{"topics", "apply"}, settings...)...)
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return brokers, prefix, settings
}

// Four stories by pointer, and by keyboard alone, among them each act of support. Then, with a history in Cassandra,
// each cause cites the event that decided. Of some causes the owner alone does not know it. From the sentence one comes
// to the row of that event.
func TestCausesOnKafka(t *testing.T) {
	brokers, prefix, settings := kafka(t, map[string]string{
		"channels.sends.receipts": "true", "cassandra.keyspace": fmt.Sprintf("console_%x", rand.Uint32()),
		"tenants.default.max_pending": fmt.Sprint(mostPending), "barrier.max_hold": "5m",
	})
	settings = append(settings, "--cassandra-hosts", strings.Join(services.Cassandra(t).Hosts, ","))
	engine := serve(t, brokers, prefix, "engine", settings...)
	s := serve(t, brokers, prefix, "api,history", settings...)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) { // its tables are made
		r, err := http.Get(s.url + "/v1/notifications/none@none")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusNotFound {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("the history does not answer: %v %v", r, err)
		}
	}
	began := time.Now()
	s.herdAndActs(t) // the first: the forecast is counted at the start, and then every 15 minutes
	s.repairs(t)
	s.commandsAppear(t)
	s.actsByHand(t)
	t.Logf("four stories by pointer and keyboard took %v", time.Since(began).Round(time.Second))
	var here []cause
	for _, c := range seeds {
		c.says = strings.ReplaceAll(c.says, "waterclock.", prefix)
		here = append(here, c)
	}
	b := s.causes(t, here)
	s.failuresByCause(t, prefix+"engine")
	restoring := cause{"restoring", "restoring", " is unknown at the moment", "trigger.registered", pending}
	restoring.seed(s, restoring.id())
	engine.end(os.Kill)
	s.explains(restoring.id(), restoring.code)
	b.allowed = append(b.allowed, "status of 503") // nobody answers for its partition
	b.visit("trigger?id=" + restoring.id())
	b.await("#sentence", restoring.says)
	b.cites(restoring.name, restoring.cites)
}

// The stories on a real Kafka: one instance answers the browser, another one fires, and each role does what it may.
// Nothing has a history, so the owner alone explains. When it is gone, the page says that too.
func TestOnKafka(t *testing.T) {
	key := func(role string) string { return (role + strings.Repeat("0123456789", 5))[:40] }
	keys := filepath.Join(t.TempDir(), "keys")
	var lines strings.Builder
	for _, role := range []string{"viewer", "support", "reader", "writer", "operator"} {
		fmt.Fprintf(&lines, "acme %s %s %s\n", key(role), role, role)
	}
	if err := os.WriteFile(keys, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	brokers, prefix, settings := kafka(t, map[string]string{"auth.keys_file": keys})
	began := time.Now()
	engine := serve(t, brokers, prefix, "engine,api", settings...)
	s := serve(t, brokers, prefix, "api", settings...)
	b := s.open(t, 1200, 900)
	// Before log-in, without a history, and without an owner.
	b.allowed = []string{"status of 401", "status of 404", "status of 503"}
	in := func(role string) {
		b.visit("")
		b.await("main", "API key")
		b.fill("input[type=password]", key(role)+kb.Enter)
		b.await(".who", role)
	}
	find := func(id string) {
		b.fill("header input", id+kb.Enter)
		b.await("h1", "Found for "+id)
		b.click(id)
	}

	in("writer") // registers, and watches it fire
	b.click("New")
	b.fill("input[name=id]", "tea")
	b.fill("input[name=delay]", "3s")
	b.fill("input[name=channel]", "orders")
	b.fill("input[name=payload]", `{"say":"tea"}`)
	b.click("Register")
	b.await("h1", "tea")
	b.await("#sentence", "Sent ")
	b.await("main", "There is no history here")
	if got := s.due("orders"); got != "acme/tea" {
		t.Errorf("topic due.orders has %q", got)
	}
	as := []string{"Authorization", "Bearer " + key("writer")}
	s.call("PUT", "/v1/triggers/pills", daily, as...)
	b.logout()

	in("viewer") // finds it, and sees no payload and no act
	find("pills")
	b.await("#sentence", "Scheduled")
	b.await("main", "hidden: your roles may not read payloads")
	b.do(chromedp.WaitNotPresent(".acts button", chromedp.ByQuery))
	b.logout()

	in("reader") // sees the payload, and no act
	find("pills")
	b.click("Show the payload")
	b.await("main pre", "take pills")
	b.do(chromedp.WaitNotPresent(".acts button", chromedp.ByQuery))
	b.logout()

	in("support") // cancels it, with a note
	find("pills")
	b.click("Cancel")
	b.do(chromedp.SendKeys(`dialog input[name=note]`, "moved away", chromedp.ByQuery))
	b.do(chromedp.Click(`dialog button.act`, chromedp.ByQuery))
	b.await("#sentence", "Cancelled")
	if got := s.call("GET", "/v1/triggers/pills", "", as...)["state"]; got != "CANCELLED" {
		t.Errorf("it is %v", got)
	}
	b.logout()

	in("operator") // sees who owns what; then nobody does
	b.await("#health", "Healthy")
	acts := s.call("GET", "/v1/audit?trigger=pills", "", "Authorization", "Bearer "+key("operator"))
	if got := fmt.Sprint(acts["items"]); !strings.Contains(got, "moved away") {
		t.Errorf("the audit has %s", got)
	}
	b.click("System")
	b.await("main table", "fires")
	find("tea")
	b.await("#sentence", "Sent ")
	engine.end(os.Kill)
	b.await("#sentence", "is unknown at the moment")
	b.click("Now")
	b.await("#health", "not well")

	// Another engine takes the partitions. The open page says so, and what it says of a trigger goes on.
	second := serve(t, brokers, prefix, "engine", settings...)
	b.await("#health", "Healthy")
	find("tea")
	b.await("#sentence", "Sent ")
	// It does not answer: the partitions are named, and what cannot be read says so.
	if err := second.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = second.cmd.Process.Signal(syscall.SIGCONT) }()
	b.click("Now")
	b.await("main", "Partition 0 does not fire")
	b.await("main", "Partition 1 does not fire")
	b.await(".figures", "0 of 2")
	b.await(".figures", "not knownpending")
	b.await("main .fault", "Try again")
	t.Logf("it took %v", time.Since(began).Round(time.Second))
}

// due is the key of the first due event on a channel.
func (s *server) due(channel string) string {
	s.t.Helper()
	cl := s.client(kgo.ConsumeTopics(s.prefix+"due."+channel), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		for _, r := range cl.PollFetches(ctx).Records() {
			return string(r.Key)
		}
	}
	return ""
}
