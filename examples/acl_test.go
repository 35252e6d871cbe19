package examples

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/test/services"
)

// TestACLsOfTheGuide holds the guide's block to what the command above it
// prints.
func TestACLsOfTheGuide(t *testing.T) {
	guide := operations + "kafka.md"
	_, command, _ := strings.Cut(read(t, guide), "\nwaterclock topics plan --acls")
	args, _, found := strings.Cut(command, "\n")
	if !found {
		t.Fatal("the guide has no such command")
	}
	d := &dev{bin: waterclock(t)}
	executed(t, guide, "sh acl", func(t *testing.T, _ []string) []string {
		out, err := d.command(t, "sh", "-c", "waterclock topics plan --acls"+args).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	})
}

// TestACLGuide gives each role what `topics plan` says it needs, and nothing
// else. The engine makes its topics, fires, and doctor finds nothing denied;
// without the lines it must not start. The others do their work, and none
// does another's.
func TestACLGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a JVM")
	}
	k := services.Kafka(t, services.Secure())
	d := &dev{bin: waterclock(t)}
	called := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		called <- r.Header.Get("X-Trigger-Id")
	}))
	defer receiver.Close()
	as := func(user string) []string {
		return []string{
			"--brokers", k.SASLSSL, "--set", "topics.partitions=2", "--set", "channels.orders.receipts=true",
			"--set", "kafka.tls.enabled=true", "--set", "kafka.tls.ca=" + k.CA,
			"--set", "kafka.sasl.mechanism=SCRAM-SHA-512", "--set", "kafka.sasl.user=" + user, "--set",
			"kafka.sasl.password=" + user + "-secret", "--set", "internal.secret=shared by all instances",
			"--set", "webhook.allow=" + receiver.URL,
		}
	}
	principals := []string{}
	for _, role := range []string{"api", "history", "webhook", "push", "sms", "email"} {
		principals = append(principals, "--principal", role+"=User:"+role)
	}
	settings := as("engine")
	run := func(args ...string) (string, error) {
		out, err := d.command(t, d.bin, append(args, settings...)...).CombinedOutput()
		return string(out), err
	}
	if out, err := run("topics", "apply"); err == nil || !strings.Contains(out, "AUTHORIZATION") {
		t.Fatalf("without ACLs: %v\n%s", err, out)
	}
	out, err := run(append([]string{"topics", "plan", "--acls", "-o", "json"}, principals...)...)
	if err != nil {
		t.Fatalf("topics plan: %v\n%s", err, out)
	}
	allow(t, k.Bootstrap, out)
	if out, err := run("topics", "apply"); err != nil {
		t.Fatalf("topics apply: %v\n%s", err, out)
	}
	serve := func(user, listen string, more ...string) {
		p := exec.Command(d.bin, slices.Concat([]string{
			"serve", "--roles", user, "--listen", listen, "--data-dir", filepath.Join(t.TempDir(), "data"),
		}, as(user), more)...)
		p.Env, p.Stderr = clean(), os.Stderr
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Process.Signal(syscall.SIGTERM); _ = p.Wait() })
	}
	serve("engine", "127.0.0.1:0")
	if out, err := run("schedule", "a", "--in", "1s", "--channel", "kitchen", "--decision-timeout", "40s", "--wait",
		"-o", "ndjson"); err != nil || !strings.Contains(out, "occurrence.fired") {
		t.Fatalf("schedule: %v\n%s", err, out)
	}
	if out, _ := run("doctor"); strings.Contains(out, "AUTHORIZATION") || !strings.Contains(out, "retry pause") {
		t.Errorf("doctor says\n%s", out)
	}
	users(t, k.Bootstrap, "api", "operator", "history", "webhook", "push", "sms", "email")
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + front.Addr().String()
	front.Close()
	tables := []string{
		"--cassandra-hosts", strings.Join(services.Cassandra(t).Hosts, ","), "--cassandra-keyspace",
		fmt.Sprintf("acl_%08x", rand.Uint32()),
	}
	serve("history", "127.0.0.1:0", tables...)
	serve("api", front.Addr().String(), tables...)
	for _, c := range []struct{ path, body string }{
		{"/v1/calendars/office", `{"dates":["2060-12-25"]}`},
		{"/v1/triggers/b", `{"delay":"1h"}`},
	} {
		asks(t, http.MethodPut, url+c.path, c.body)
		asks(t, http.MethodGet, url+c.path, "")
	}
	asks(t, http.MethodDelete, url+"/v1/channels/kitchen", "")
	serve("webhook", "127.0.0.1:0", "--set", "webhook.secret=whsec_c2VjcmV0IG9mIHRoaXMgdGVzdCBhbG9uZQ==")
	asks(t, http.MethodPut, url+"/v1/triggers/asked",
		`{"delay":"1s","callback":{"url":"`+receiver.URL+`","recheck":true}}`)
	select {
	case id := <-called:
		if id != "asked" {
			t.Errorf("called for %q", id)
		}
	case <-time.After(time.Minute):
		t.Error("the callback that asks the owner first was not made within a minute")
	}
	for channel, address := range map[string]string{
		"push": "fcm:phone", "sms": "+4915112345678", "email": "ann@example.com",
	} {
		serve(channel, "127.0.0.1:0", "--set", "providers.outbox.dir="+t.TempDir())
		asks(t, http.MethodPut, url+"/v1/triggers/to-"+channel, `{"delay":"1s","channel":"`+channel+`","user_id":"ann",`+
			`"payload":{"title":"by `+channel+`","to":"`+address+`"}}`)
		asks(t, http.MethodGet, url+"/v1/users/ann/notifications?content=1", "", "by "+channel, `"`+channel+`":"SENT"`)
	}
	playRoles(t, k)
}

// asks repeats a request until the API has come up and answers it well, with all of want.
func asks(t *testing.T, method, url, body string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		text := []byte{}
		if err == nil {
			text, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
			lacks := func(part string) bool { return !strings.Contains(string(text), part) }
			if resp.StatusCode < http.StatusMultipleChoices && !slices.ContainsFunc(want, lacks) {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s %s: %v %s", method, url, err, text)
		}
	}
}

// playRoles lets a producer wish, a team deliver, and an analyst look on.
func playRoles(t *testing.T, k *services.KafkaCluster) {
	users(t, k.Bootstrap, "producer", "orders", "analyst")
	producer, orders, analyst := login(t, k, "producer"), login(t, k, "orders"), login(t, k, "analyst")
	operator, api := login(t, k, "operator"), login(t, k, "api")

	producer.write("waterclock.commands", "hold", `{"op":"register","delay":"100ms","channel":"orders"}`)
	producer.write("waterclock.commands", "typo", `{"op":"register","dealy":"7m"}`)
	if r := operator.first("waterclock.rejected"); string(r.Key) != "typo" {
		t.Errorf("the operator reads of %s", r.Key)
	}
	due := orders.first("waterclock.due.orders")
	orders.write("waterclock.receipts", "hold", `{"due_id":"`+header(due, "ce_id")+`","outcome":"delivered"}`)
	if r := analyst.first("waterclock.events"); len(r.Value) == 0 {
		t.Error("the analyst reads nothing")
	}
	for _, c := range []struct {
		who   *member
		topic string
	}{
		{producer, "waterclock.state"},
		{producer, "waterclock.due.orders"},
		{producer, "waterclock.receipts"},
		{producer, "waterclock.events"},
		{orders, "waterclock.commands"},
		{orders, "waterclock.due.orders"},
		{analyst, "waterclock.events"},
		{analyst, "waterclock.commands"},
		{api, "waterclock.state"},
		{api, "waterclock.events"},
		{api, "waterclock.due.orders"},
		{operator, "waterclock.commands"},
	} {
		// Who may write nothing at all is refused before a topic is looked at.
		if err := c.who.try(c.topic, "k", "v"); !errors.Is(err, kerr.TopicAuthorizationFailed) &&
			!errors.Is(err, kerr.ClusterAuthorizationFailed) {
			t.Errorf("%s writes %s: %v", c.who.name, c.topic, err)
		}
	}
	stolen := kmsg.NewPtrInitProducerIDRequest()
	stolen.TransactionalID, stolen.TransactionTimeoutMillis = kmsg.StringPtr("waterclock-0"), 10_000
	answer, err := stolen.RequestWith(t.Context(), producer.cl)
	if err == nil {
		err = kerr.ErrorForCode(answer.ErrorCode)
	}
	if !errors.Is(err, kerr.TransactionalIDAuthorizationFailed) {
		t.Errorf("the producer may fence the owner: %v", err)
	}
}

// allow grants what `topics plan -o json` lists, as the broker's super user.
func allow(t *testing.T, bootstrap, plan string) {
	var grants []struct {
		Principal, Resource, Name, Pattern string
		Operations                         []string
	}
	if err := json.Unmarshal([]byte(plan), &grants); err != nil || len(grants) < 10 {
		t.Fatalf("%v: %s", err, plan)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, g := range grants {
		var ops []kadm.ACLOperation
		for _, name := range g.Operations {
			op, err := kmsg.ParseACLOperation(name)
			if err != nil {
				t.Fatalf("%+v: %v", g, err)
			}
			ops = append(ops, op)
		}
		b := kadm.NewACLs().Allow(g.Principal).AllowHosts("*").Operations(ops...)
		if g.Pattern == "prefixed" {
			b = b.ResourcePatternType(kadm.ACLPatternPrefixed)
		}
		switch g.Resource {
		case "topic":
			b = b.Topics(g.Name)
		case "group":
			b = b.Groups(g.Name)
		case "transactional-id":
			b = b.TransactionalIDs(g.Name)
		case "cluster":
			b = b.Clusters()
		}
		if err := b.ValidateCreate(); err != nil {
			t.Fatalf("%+v: %v", g, err)
		}
		results, err := kadm.NewClient(cl).CreateACLs(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatalf("%+v: %v", g, r.Err)
			}
		}
	}
}
