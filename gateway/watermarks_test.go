package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// marks writes to topic watermarks, as engines do.
type marks struct {
	*world
	kafka *kgo.Client
}

func newMarks(t *testing.T) *marks {
	w := newWorld(t, func(o *Options) {
		o.Auth, o.Channels = testKeys(t), map[string]string{"push": "mobile", "default": "waterclock.due.default"}
	})
	return w.marks()
}

func (w *world) marks() *marks {
	cl, err := kgo.NewClient(kgo.SeedBrokers(w.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(cl.Close)
	return &marks{w, cl}
}

func (m *marks) makeTopic() {
	m.t.Helper()
	adm := kadm.NewClient(m.kafka)
	if _, err := adm.CreateTopic(m.t.Context(), testPartitions, 1, nil, topics.Names{}.Watermarks()); err != nil {
		m.t.Fatal(err)
	}
}

func (m *marks) write(partition int32, value []byte) {
	m.t.Helper()
	m.writeTo(partition, partition, value)
}

// writeTo writes with the key of another partition.
func (m *marks) writeTo(to, partition int32, value []byte) {
	m.t.Helper()
	r := &kgo.Record{
		Topic: topics.Names{}.Watermarks(), Partition: to, Key: topics.WatermarkKey(partition), Value: value,
	}
	if err := m.kafka.ProduceSync(context.Background(), r).FirstErr(); err != nil {
		m.t.Fatal(err)
	}
}

func (m *marks) say(partition int32, through trigger.Instant, held ...string) {
	m.t.Helper()
	m.write(partition, mark(partition, through, held...))
}

func mark(partition int32, through trigger.Instant, held ...string) []byte {
	w := topics.Watermark{
		Partition: partition, Term: 3, At: through + 5, FiredThrough: through, CommandsOffset: 7, EventsOffset: 0,
		Due: map[string]map[int32]int64{
			"mobile": {partition: 9}, "mobile.high": {partition: 1}, "waterclock.due.default": {partition: 4},
		},
		Held: held,
	}
	return w.Value()
}

func (m *marks) get(key, query string) (all Watermarks) {
	m.t.Helper()
	a := m.must(http.StatusOK, "GET", "/v1/watermark"+query, "", "Authorization", "Bearer "+key)
	if err := json.Unmarshal([]byte(a.body), &all); err != nil {
		m.t.Fatal(err)
	}
	return all
}

// seesTheTopic waits until the gateway's client does: for some seconds it remembers that there was
// none.
func (m *marks) seesTheTopic() {
	m.t.Helper()
	eventually(m.t, "a watermark", func() bool {
		return m.call("GET", "/v1/watermark", "", "Authorization", "Bearer "+keyO).status == http.StatusOK
	})
}

// off checks that the answer names the setting.
func (m *marks) off(when string) {
	m.t.Helper()
	a := m.must(http.StatusNotFound, "GET", "/v1/watermark", "", "Authorization", "Bearer "+keyO)
	if !strings.Contains(a.body, "watermarks.interval") || a.get(m.t, "code") != "not_found" {
		m.t.Errorf("%s: %s", when, a.body)
	}
}

// The answer is the last watermark of each partition, at the moment of the request.
func TestWatermark(t *testing.T) {
	m := newMarks(t)
	m.off("without the topic")
	m.makeTopic()
	m.off("with an empty topic")
	const at trigger.Instant = 1_795_000_000_000
	m.say(2, at)
	m.seesTheTopic()
	if all := m.get(keyO, ""); all.FiredThrough != "" || len(all.Items) != 1 || asJSON(t, all.Missing) != "[0,1,3]" {
		t.Errorf("of one partition: %+v", all)
	}
	for p := range int32(testPartitions) {
		m.say(p, at+100*trigger.Instant(p+1))
	}
	m.say(1, at+10, topics.HeldLag, "mobile", "waterclock.due.default")
	for range 100 { // what is no watermark hides none
		m.write(3, []byte("{"))
	}
	all := m.get(keyO, "")
	if all.FiredThrough != (at+10).String() || len(all.Items) != testPartitions || all.Missing != nil {
		t.Errorf("of all: %+v", all)
	}
	const want = `{"partition":1,"term":3,"at":"2026-11-18T11:06:40.015Z","fired_through":"2026-11-18T11:06:40.010Z",` +
		`"commands_offset":7,"events_offset":0,"due":{"mobile":{"1":9},"mobile.high":{"1":1},` +
		`"waterclock.due.default":{"1":4}},"held":["lag","mobile","waterclock.due.default"]}`
	if got := asJSON(t, all.Items[1]); got != want {
		t.Errorf("an item is not the record:\ngot  %s\nwant %s", got, want)
	}
	for range 200 { // more than is read at once
		m.say(1, at+20)
	}
	if all := m.get(keyO, ""); all.FiredThrough != (at + 20).String() {
		t.Errorf("a later one: %+v", all)
	}
	m.write(1, nil)
	if all := m.get(keyO, ""); all.FiredThrough != "" || asJSON(t, all.Missing) != "[1]" {
		t.Errorf("after a partition withdrew it: %+v", all)
	}
	for p := range int32(testPartitions) {
		m.write(p, nil)
	}
	m.off("after all withdrew theirs")
}

// A tool that copies topics may put records onto other partitions: they say nothing of where they stand.
func TestWatermarkOfAnotherPartition(t *testing.T) {
	m := newMarks(t)
	m.makeTopic()
	const at trigger.Instant = 1_795_000_000_000
	for p := range int32(testPartitions) {
		m.say(p, at)
	}
	m.writeTo(0, 3, mark(3, at+5000))
	m.writeTo(1, 3, nil)
	m.seesTheTopic()
	if all := m.get(keyO, ""); all.FiredThrough != at.String() || all.Items[0].FiredThrough != at.String() {
		t.Errorf("got %+v", all)
	}
}

// A channel's answer names the topics of that channel alone. A channel that is not there is not
// complete.
func TestWatermarkOfChannel(t *testing.T) {
	m := newMarks(t)
	m.makeTopic()
	m.say(0, 1_795_000_000_000, topics.HeldBarrier, "mobile.high", "waterclock.due.default")
	one := m.get(keyO, "?channel=push").Items[0]
	if asJSON(t, one.Due) != `{"mobile":{"0":9},"mobile.high":{"0":1}}` ||
		asJSON(t, one.Held) != `["barrier","mobile.high"]` {
		t.Errorf("of push: %s", asJSON(t, one))
	}
	for _, query := range []string{"?channel=psuh", "?channel="} {
		if a := m.must(http.StatusNotFound, "GET", "/v1/watermark"+query, "", "Authorization", "Bearer "+keyO); a.get(
			t, "field") != "channel" {
			t.Errorf("%s: %s", query, a.body)
		}
	}
}

// Offsets count what all tenants do, so a tenant's key gets none.
func TestWatermarkOfTenant(t *testing.T) {
	m := newMarks(t)
	m.makeTopic()
	for p := range int32(testPartitions) {
		m.say(p, 1_795_000_000_000, "mobile")
	}
	for _, key := range []string{keyA, keyB, keyR} {
		all := m.get(key, "")
		if text := asJSON(t, all); strings.Contains(text, "offset") || strings.Contains(text, `"due"`) ||
			all.FiredThrough == "" || asJSON(t, all.Items[3].Held) != `["mobile"]` {
			t.Errorf("a tenant gets %s", text)
		}
	}
	m.must(http.StatusUnauthorized, "GET", "/v1/watermark", "")
}

// Where the end of one partition is not known, none is read: who reads on would write behind the lock.
func TestWatermarkReadsAllOrNone(t *testing.T) {
	m := newMarks(t)
	m.makeTopic()
	m.say(0, 1_795_000_000_000)
	m.seesTheTopic()
	log := m.server.watermarks.log
	log.mu.Lock()
	log.last = nil // so that each partition is asked where it begins, before it is read
	log.mu.Unlock()
	var begun atomic.Int64
	of := func(q kmsg.Request, timestamp int64) (n int64) {
		for _, of := range q.(*kmsg.ListOffsetsRequest).Topics {
			for _, p := range of.Partitions {
				if of.Topic == log.topic.topic && p.Timestamp == timestamp {
					n++
				}
			}
		}
		return n
	}
	m.cluster.ControlKey(int16(kmsg.ListOffsets), func(q kmsg.Request) (kmsg.Response, error, bool) {
		m.cluster.KeepControl()
		begun.Add(of(q, kafkapart.Earliest))
		return nil, nil, false
	})
	m.cluster.Fault(kfake.Fault{
		Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: log.topic.topic, Partitions: []int32{testPartitions - 1},
		Err:  kerr.TopicAuthorizationFailed,
		When: func(q kmsg.Request) bool { return of(q, kafkapart.Latest) > 0 },
	})
	if _, err := log.read(t.Context()); !errors.Is(err, kerr.TopicAuthorizationFailed) {
		t.Fatalf("the first: %v", err)
	}
	if all, err := log.read(t.Context()); err != nil || all[0] == nil {
		t.Fatalf("the second: %v", err)
	}
	if n := begun.Load(); n != testPartitions {
		t.Errorf("%d reads were begun, want those of the second alone: %d", n, testPartitions)
	}
}
