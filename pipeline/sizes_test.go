package pipeline_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/rawbatch"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestPoisonRecords: records whose key, value or headers are of any size and
// kind, on commands and on receipts, on their partition and on the wrong one.
// Each is refused once and told once, its neighbours fire, and the next owner
// has nothing to do with it.
func TestPoisonRecords(t *testing.T) { onEach(t, 2, poisonRecords) }

// poison is a record no trigger can be made of.
type poison struct {
	name  string
	topic string
	rec   rawbatch.Record
	at    string // wc-source
}

func makePoison(w *pipelinetest.World) (all []*poison) {
	add := func(name, topic string, rec rawbatch.Record) {
		all = append(all, &poison{name: name, topic: topic, rec: rec})
	}
	for kind, unit := range map[string]string{
		"letters": "k", "control characters": "\x01", "not UTF-8": "\xff",
		"quotes": `"`,
	} {
		for _, n := range []int{256, 80_000, 300_000, 996_000, 1_100_000, 3_000_000} {
			key, value := []byte(strings.Repeat(unit, n)), []byte(`{"op":"register","delay":"1s"}`)
			add(fmt.Sprintf("key of %d %s", n, kind), w.Names.Commands(), rawbatch.Record{Key: key, Value: value})
			for topics.Partition(key, w.P) != 0 { // a receipt that is forwarded is told by where it came to
				key = append(key, 'x')
			}
			add(fmt.Sprintf("key of %d %s, a receipt", n, kind), w.Names.Receipts(),
				rawbatch.Record{Key: key, Value: value})
		}
	}
	for i := range 2 { // at home, and not
		big := bytes.Repeat([]byte{0xff, 1}, 2_500_000)
		add(fmt.Sprint("value ", i), w.Names.Commands(), rawbatch.Record{
			Key:   []byte(fmt.Sprint("poison-value-", i)),
			Value: big,
		})
		add(fmt.Sprint("header ", i), w.Names.Commands(), rawbatch.Record{
			Key:   []byte(fmt.Sprint("poison-header-", i)),
			Value: []byte("{}"), Headers: []kgo.RecordHeader{{Key: "wc-delay", Value: big}},
		})
		add(fmt.Sprint("header name ", i), w.Names.Commands(),
			rawbatch.Record{
				Key: []byte(fmt.Sprint("poison-name-", i)), Value: []byte("{}"),
				Headers: []kgo.RecordHeader{{Key: string(big)}},
			})
	}
	// no int holds the number
	for i, rule := range []string{"cron:0 0 9223372036854775808W * *", "cron:0 0 * * 18446744073709551615#1"} {
		value := fmt.Sprintf(`{"op":"register","recurrence":%q}`, rule)
		key := fmt.Sprint("poison-rule-", i)
		for n := 0; topics.Partition([]byte(key), w.P) != 0; n++ { // the rule is compiled at home
			key = fmt.Sprint("poison-rule-", i, "-", n)
		}
		add(rule, w.Names.Commands(), rawbatch.Record{Key: []byte(key), Value: []byte(value)})
	}
	return all
}

func poisonRecords(t *testing.T, w *pipelinetest.World) {
	w.Start("a")
	w.AwaitOwners()
	due := w.Tail(w.Names.Due("default"))
	all := makePoison(w)
	var want []string
	for i, p := range all {
		at := w.SendBatch(p.topic, 0, rawbatch.Spec{Codec: "gzip", Records: []rawbatch.Record{p.rec}}.Batch())
		p.at = topics.Source(p.topic, 0, at)
		want = append(want, goodKey(w, i))
		w.SendTo(0, want[i], `{"op":"register","delay":"50ms"}`)
	}
	takeDue(t, due, want)
	checkPoison(t, w, all)
	if err := w.Stop("a"); err != nil {
		t.Error(err)
	}
	w.Start("b")
	w.AwaitOwners()
	w.SendTo(0, goodKey(w, 1000), `{"op":"register","delay":"50ms"}`)
	takeDue(t, due, []string{goodKey(w, 1000)})
	checkPoison(t, w, all)
}

func checkPoison(t *testing.T, w *pipelinetest.World, all []*poison) {
	t.Helper()
	rejected := w.Tail(w.Names.Rejected())
	records := map[string]*kgo.Record{}
	for _, r := range rejected.Take(len(all)) {
		records[pipelinetest.Header(r, "wc-source")] = r
	}
	rejected.Quiet(200 * time.Millisecond)
	reported := map[string]topics.Event{}
	for events := w.Tail(w.Names.Events()); len(reported) < len(all); {
		e, err := topics.DecodeEvent(events.Next().Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, twice := reported[e.Source]; twice && e.Type == string(trigger.Rejected) {
			t.Errorf("%s is told twice", e.Source)
		}
		if e.Type == string(trigger.Rejected) {
			reported[e.Source] = e
		}
	}
	for _, p := range all {
		r, e := records[p.at], reported[p.at]
		if r == nil || e.Source == "" {
			t.Errorf("%s: no record or no event", p.name)
			continue
		}
		if !bytes.HasPrefix(p.rec.Key, r.Key) || !bytes.HasPrefix(p.rec.Value, r.Value) ||
			e.Reason != pipelinetest.Header(r, "wc-error-code") {
			t.Errorf("%s: refused as %s, told as %s", p.name, pipelinetest.Header(r, "wc-error-code"), e.Reason)
		}
		if sum := sha256.Sum256(p.rec.Key); len(p.rec.Key) > 255 {
			hash := hex.EncodeToString(sum[:])
			if pipelinetest.Header(r, "wc-error-key-hash") != "sha256:"+hash || !strings.Contains(e.Detail, hash) ||
				len(e.Trigger) > 1024 {
				t.Errorf("%s: hash %s, detail %s, a name of %d bytes", p.name,
					pipelinetest.Header(r, "wc-error-key-hash"), e.Detail, len(e.Trigger))
			}
		}
	}
}

// TestSmallTopics: topics that take less than we would write get what fits.
func TestSmallTopics(t *testing.T) { onEach(t, 1, smallTopics) }

func smallTopics(t *testing.T, w *pipelinetest.World) {
	for topic, bytes := range map[string]string{
		w.Names.Events(): "20000", w.Names.Rejected(): "20000",
		w.Names.State(): "150000",
	} {
		w.Configure(topic, "max.message.bytes", bytes)
	}
	w.Start("a", func(o *pipeline.Options) { o.Limits.Payload, o.EventsPayload = topics.MaxPayload, true })
	due, events, rejected := w.Tail(w.Names.Due("default")), w.Tail(w.Names.Events()), w.Tail(w.Names.Rejected())
	payload := `"` + strings.Repeat("p", 60_000) + `"`
	w.SendTo(0, "fits", `{"op":"register","delay":"50ms","payload":`+payload+`}`)
	if r := due.Next(); string(r.Key) != "fits" || string(r.Value) != payload {
		t.Errorf("%q fired, %d bytes", r.Key, len(r.Value))
	}
	if e := events.Event("fits", trigger.Registered); len(e.Payload) > 0 || fmt.Sprint(e.Truncated) != "[payload]" {
		t.Errorf("registered: a payload of %d bytes, truncated %v", len(e.Payload), e.Truncated)
	}
	w.SendTo(0, "large", `{"op":"register","delay":"50ms","payload":"`+strings.Repeat("p", 140_000)+`"}`)
	if r := rejected.Next(); string(r.Key) != "large" || pipelinetest.Header(r, "wc-error-code") != "too_large" ||
		pipelinetest.Header(r, "wc-error-truncated") == "" {
		t.Errorf("%q is refused as %s, cut %s", r.Key, pipelinetest.Header(r, "wc-error-code"),
			pipelinetest.Header(r, "wc-error-truncated"))
	}
	for i := range 200 { // a turn of more than any of these topics takes at once
		w.SendTo(0, fmt.Sprint("many-", i), `{"op":"register","delay":"1s","payload":"`+strings.Repeat("p", 3000)+`"}`)
	}
	if n := len(due.Take(200)); n != 200 {
		t.Errorf("%d fired", n)
	}
}

// TestStateLimitLowered: topic state takes less than a trigger that stands there. Its partition is refused, by name and
// with what to do, and goes on once the limit is raised. The others go on meanwhile.
func TestStateLimitLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Partitions: 2, Change: func(_ string, o *pipeline.Options) {
			o.Limits.Payload = topics.MaxPayload
		}})
		n := w.Start("a")
		w.AwaitOwners()
		large, small := keysOn(0, "large", 1)[0], keysOn(1, "small", 1)[0]
		noise := make([]byte, 300_000) // which compression does not make much smaller
		for i, rng := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
			noise[i] = byte('0' + rng.IntN(64))
		}
		w.Send(large, fmt.Sprintf(`{"op":"register","recurrence":"every:1m","payload":%q}`, noise))
		time.Sleep(5 * time.Second)
		w.Configure(w.Names.State(), "max.message.bytes", "200000")
		time.Sleep(2 * time.Minute)
		w.RequireDelivered(large, 0)
		why := fmt.Sprint(n.Engine.Unready())
		for _, want := range []string{w.Names.State(), large, "max.message.bytes", "200000"} {
			if !strings.Contains(why, want) {
				t.Errorf("no %q in why it is not ready: %s", want, why)
			}
		}
		for _, s := range n.Engine.Partitions() {
			if want := map[int32]string{0: "topic_limit"}[s.Partition]; s.Refused != want {
				t.Errorf("partition %d: refused %q", s.Partition, s.Refused)
			}
		}
		w.Register(small, time.Now().Add(time.Second))
		time.Sleep(10 * time.Second)
		w.RequireDelivered(small, 1)
		w.Configure(w.Names.State(), "max.message.bytes", "1000000")
		time.Sleep(2 * time.Minute)
		if n := len(w.Dump(w.Names.Due("default"))); n < 3 { // small once, and large each minute
			t.Errorf("%d due events", n)
		}
	})
}

// TestSmallDueTopic: one due event that its topic does not take waits and fails
// at last, and its neighbours on the same topic are on time.
func TestSmallDueTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 4, Change: func(_ string, o *pipeline.Options) {
			o.ManageTopics, o.FetchMaxWait, o.Limits.Payload = false, time.Second, topics.MaxPayload
		}})
		if err := w.Cluster.CreateTopic(w.Names.Due("bad"), w.P,
			map[string]string{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "10000"}); err != nil {
			t.Fatal(err)
		}
		w.Start("a")
		w.AwaitOwners()
		begin := time.Now()
		at := func(d time.Duration) string { return begin.Add(d).UTC().Format(time.RFC3339Nano) }
		w.Send("poison", fmt.Sprintf(`{"op":"register","channel":"bad","fire_at":%q,"payload":"%s"}`, at(5*time.Second),
			strings.Repeat("p", 11_000)))
		const n = 600
		for i := range n { // all of a second in one turn: more than the topic takes at once
			w.Send(fmt.Sprint("good-", i), fmt.Sprintf(`{"op":"register","channel":"bad","fire_at":%q,"payload":"%s"}`,
				at(time.Duration(5+i/100)*time.Second), strings.Repeat("p", 2000)))
		}
		time.Sleep(time.Hour)
		seen := map[string]int{}
		for _, r := range w.Dump(w.Names.Due("bad")) {
			var i int
			fmt.Sscanf(string(r.Key), "good-%d", &i)
			seen[string(r.Key)]++
			if late := r.Timestamp.Sub(begin.Add(time.Duration(5+i/100) * time.Second)); late > time.Second {
				t.Errorf("%s is %v late", r.Key, late)
			}
		}
		if len(seen) != n || seen["poison"] > 0 {
			t.Errorf("%d of %d fired", len(seen), n)
		}
		dead := w.Dump(w.Names.DeadLetter())
		if len(dead) != 1 || string(dead[0].Key) != "poison" ||
			!strings.Contains(pipelinetest.Header(dead[0], "wc-error-detail"), "max.message.bytes") {
			t.Fatalf("dead letters: %v", dead)
		}
		if s, err := w.Owner(topics.Partition([]byte("poison"), w.P)).Engine.Get(t.Context(), "poison"); err != nil ||
			s == nil || s.Status != trigger.Failed {
			t.Errorf("the trigger is %+v, %v", s, err)
		}
	})
}

// TestUnknownSizes: where the brokers do not say what a topic takes, a refusal
// does, and the topic is well for all that is smaller.
func TestUnknownSizes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 4, Change: func(_ string, o *pipeline.Options) {
			o.ManageTopics, o.FetchMaxWait, o.Limits.Payload = false, time.Second, topics.MaxPayload
		}})
		w.Cluster.Fault(kfake.Fault{
			Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed,
			Count: -1,
		})
		if err := w.Cluster.CreateTopic(w.Names.Due("bad"), w.P,
			map[string]string{"message.timestamp.type": "LogAppendTime", "max.message.bytes": "100000"}); err != nil {
			t.Fatal(err)
		}
		w.Start("a")
		w.AwaitOwners()
		at := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339Nano)
		w.Send("poison", fmt.Sprintf(`{"op":"register","channel":"bad","fire_at":%q,"payload":"%s"}`, at,
			strings.Repeat("p", 300_000)))
		for i := range 100 {
			w.Send(fmt.Sprint("good-", i), fmt.Sprintf(`{"op":"register","channel":"bad","fire_at":%q,"payload":"%s"}`,
				at, strings.Repeat("p", 3000)))
		}
		time.Sleep(time.Hour)
		if fired := w.Dump(w.Names.Due("bad")); len(fired) != 100 {
			t.Errorf("%d fired", len(fired))
		}
		if dead := w.Dump(w.Names.DeadLetter()); len(dead) != 1 || string(dead[0].Key) != "poison" {
			t.Errorf("%d dead letters", len(dead))
		}
	})
}

// TestDueTopicGrows: what waited for its topic to take larger records goes out
// when it does, once.
func TestDueTopicGrows(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 1})
	topic := w.Names.Due("default")
	w.Configure(topic, "max.message.bytes", "10000")
	w.Start("a", func(o *pipeline.Options) { o.Limits.Payload, o.EventsPayload = topics.MaxPayload, true })
	w.AwaitOwners()
	due := w.Tail(topic)
	w.SendTo(0, "waits", `{"op":"register","delay":"10ms","payload":"`+strings.Repeat("p", 20_000)+`"}`)
	w.SendTo(0, "goes", `{"op":"register","delay":"50ms"}`)
	if r := due.Next(); string(r.Key) != "goes" {
		t.Errorf("%s fired", r.Key)
	}
	w.Configure(topic, "max.message.bytes", "100000")
	if r := due.Next(); string(r.Key) != "waits" || len(r.Value) < 20_000 {
		t.Errorf("%s fired, %d bytes", r.Key, len(r.Value))
	}
	due.Quiet(time.Second)
}
