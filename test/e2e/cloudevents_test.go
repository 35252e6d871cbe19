package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/test/foreign"
)

// TestCloudEvents: the CloudEvents project's own readers understand every due
// event, and every dead letter, as the event it is: all attributes, and the
// payload byte for byte.
func TestCloudEvents(t *testing.T) {
	t.Parallel()
	sdks := foreign.SDKs(t)
	both(t, func(t *testing.T, w *world) {
		soon := time.Now().Add(2 * time.Second).Truncate(time.Second)
		cl := w.producer(t)
		for _, r := range []*kgo.Record{
			w.command("json",
				`{"op":"register","delay":0,"channel":"cloudy","payload":{"holdId":"h_8c4","n":[1,2.5,null]}}`),
			w.command("local/ключ",
				fmt.Sprintf(`{"op":"register","fire_at":"%s","timezone":"Europe/Berlin","channel":"cloudy","user_id":"u_81","expires_after":"1h","payload":"ü"}`, inBerlin(t, soon))),
			w.command("text", "Größe", "wc-delay", "0", "wc-channel", "cloudy", "content-type",
				"text/plain; charset=utf-8"),
			w.command("bytes", string(everyByte), "wc-delay", "0", "wc-channel", "cloudy"),
			w.command("traced", "", "wc-delay", "0", "wc-channel", "cloudy", "traceparent",
				"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "note", "the user's own"),
		} {
			if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		due := w.follow(t, "due.cloudy").until(time.Minute, "five due events",
			func(recs []*kgo.Record) bool { return len(recs) >= 5 })
		refuse(t, w, cl, due)
		dead := w.follow(t, "dead-letter").until(time.Minute, "five dead letters",
			func(recs []*kgo.Record) bool { return len(recs) >= 5 })
		for _, sdk := range sdks {
			t.Run(sdk.Name(), func(t *testing.T) {
				understands(t, w, sdk, "due.cloudy", due)
				understands(t, w, sdk, "dead-letter", dead)
			})
		}
	}, "--set", "channels.cloudy.receipts=true")
}

func inBerlin(t *testing.T, at time.Time) string {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	return at.In(zone).Format("2006-01-02T15:04:05")
}

// refuse says of each due event that nobody can deliver it.
func refuse(t *testing.T, w *world, cl *kgo.Client, due []*kgo.Record) {
	t.Helper()
	for _, r := range due {
		value, err := json.Marshal(map[string]any{"due_id": header(r, "ce_id"), "outcome": "failed", "code": "gone"})
		if err != nil {
			t.Fatal(err)
		}
		receipt := w.command(header(r, "ce_subject"), string(value))
		receipt.Topic = w.topic("receipts")
		if err := cl.ProduceSync(t.Context(), receipt).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// understands compares what an SDK makes of a topic with its records.
func understands(t *testing.T, w *world, sdk foreign.SDK, topic string, recs []*kgo.Record) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	events, err := sdk.Events(ctx, w.bootstrap(), w.topic(topic), len(recs))
	if err != nil {
		t.Fatalf("%s: %v", topic, err)
	}
	byID := map[any]map[string]any{}
	for _, e := range events {
		byID[e["id"]] = e
	}
	for _, r := range recs {
		e := byID[header(r, "ce_id")]
		if e == nil {
			t.Errorf("%s: no event %s", topic, header(r, "ce_id"))
			continue
		}
		for _, h := range r.Headers {
			name, isAttribute := strings.CutPrefix(h.Key, "ce_")
			if h.Key == "content-type" {
				name, isAttribute = "datacontenttype", true
			}
			if isAttribute && !sameAttribute(name, e[name], string(h.Value)) {
				t.Errorf("%s: %s: %s is %v, the header is %s", topic, r.Key, name, e[name], h.Value)
			}
		}
		if !sameData(e, r.Value, header(r, "content-type")) {
			t.Errorf("%s: %s: data %v (base64 %v), the record has %q", topic, r.Key, e["data"], e["data_base64"],
				r.Value)
		}
	}
}

// sameAttribute: attributes are texts, but the time is an instant, which SDKs
// may spell in their own way.
func sameAttribute(name string, got any, want string) bool {
	if name != "time" {
		return got == want
	}
	text, _ := got.(string)
	a, errA := time.Parse(time.RFC3339Nano, text)
	b, errB := time.Parse(time.RFC3339Nano, want)
	return errA == nil && errB == nil && a.Equal(b)
}

// sameData: JSON is JSON, other bytes are themselves, however the SDK's JSON
// format shows them.
func sameData(e map[string]any, value []byte, contentType string) bool {
	var want any
	if contentType == "application/json" && json.Unmarshal(value, &want) == nil {
		return reflect.DeepEqual(e["data"], want)
	}
	if text, ok := e["data_base64"].(string); ok {
		b, err := base64.StdEncoding.DecodeString(text)
		return err == nil && string(b) == string(value)
	}
	text, _ := e["data"].(string)
	return text == string(value)
}
