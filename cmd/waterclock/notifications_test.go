package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/gateway"
)

// notified waits until a user's only notification satisfies the condition, because the history
// lags behind the engine.
func notified(t *testing.T, url, user, what string, is func(n *gateway.Notification) bool) (n gateway.Notification) {
	t.Helper()
	var last string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		r := cli(t, nil, "", "notifications", "list", "--user", user, "--content", "--url", url, "-o", "ndjson")
		last = r.out + r.err
		if n = (gateway.Notification{}); r.code == exitOK && json.Unmarshal([]byte(r.out), &n) == nil && is(&n) {
			return n
		}
	}
	t.Fatalf("%s: not within a minute; the last answer was %s", what, last)
	return n
}

// An escalation on dev: each channel has its status, the acknowledgment has its time, and the
// content is stored until the trigger is erased.
func TestNotificationsOfEscalation(t *testing.T) {
	kafka, url := startDev(t, "--set", "channels.pager.receipts=true", "--set", "events.payload=false")
	command := `{"op":"register","delay":"0s","channel":"pager","user_id":"u 81","tags":{"type":"reminder"},` +
		`"payload":{"title":"Take pills","body":"Now","deep_link":"app://pills","template_data":{"n":2}},` +
		`"escalation":[{"channel":"pager"},{"after":"1s","channel":"pager-two"},{"after":"3d","channel":"email"}]}`
	cl, err := kgo.NewClient(kgo.SeedBrokers(kafka), kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	produce := func(topic, value string) {
		t.Helper()
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Key: []byte("pills"), Value: []byte(value)}).
			FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("waterclock.commands", command)
	n := notified(t, url, "u 81", "pending", func(n *gateway.Notification) bool {
		return n.ChannelStatus["pager"] != ""
	})
	due := func(step string) string { return n.NotificationID + "#" + step }
	produce("waterclock.receipts", `{"due_id":"`+due("0")+`","outcome":"accepted","attempt":1}`)
	n = notified(t, url, "u 81", "sent, and the next step", func(n *gateway.Notification) bool {
		return n.ChannelStatus["pager"] == "SENT" && n.ChannelStatus["pager-two"] == "PENDING" && n.Content != nil
	})
	if n.TriggerID != "pills" || n.UserID != "u 81" || n.Type != "reminder" || n.AckedAt != "" ||
		n.Content.Title != "Take pills" || n.Content.DeepLink != "app://pills" ||
		string(n.Content.TemplateData) != `{"n":2}` || !strings.HasPrefix(n.NotificationID, "pills@") {
		t.Errorf("%+v %+v", n, n.Content)
	}
	cli(t, nil, "", "ack", "pills", "--brokers", kafka).want(t, exitOK)
	n = notified(t, url, "u 81", "acknowledged", func(n *gateway.Notification) bool { return n.AckedAt != "" })
	get := cli(t, nil, "", "notifications", "get", n.NotificationID, "--url", url, "-o", "json")
	get.want(t, exitOK)
	var one gateway.Notification
	if err := json.Unmarshal([]byte(get.out), &one); err != nil || one.AckedAt != n.AckedAt || one.Content == nil ||
		one.ChannelStatus["pager-two"] != "PENDING" {
		t.Errorf("%s %v", get.out, err)
	}
	if r := cli(t, nil, "", "notifications", "get", n.NotificationID, "--url", url); !strings.Contains(r.out,
		"pager:SENT pager-two:PENDING") || !strings.Contains(r.out, "Take pills") {
		t.Error(r.out)
	}
	cli(t, nil, "", "notifications", "get", "pills@2020-01-01T00:00:00", "--url", url).want(t, exitNotFound)
	cli(t, nil, "", "notifications", "list", "--url", url).want(t, exitUsage)

	cli(t, nil, "", "erase", "pills", "--brokers", kafka).want(t, exitOK)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		r := cli(t, nil, "", "notifications", "list", "--user", "u 81", "--url", url, "-o", "ndjson")
		if r.code == exitOK && r.out == "" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the erase: %s", r.out)
		}
	}
	get = cli(t, nil, "", "notifications", "get", n.NotificationID, "--url", url, "-o", "json")
	one = gateway.Notification{}
	if err := json.Unmarshal([]byte(get.out), &one); err != nil || one.UserID != "" || one.Content != nil ||
		one.ChannelStatus["pager"] != "SENT" {
		t.Errorf("after the erase: %s %v", get.out, err)
	}
}
