package cassandra

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gocql/gocql"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/sinks/sinktest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// If a statement worked before and the server now calls it invalid, the cause is the schema.
// Nothing is skipped, and all rows are there once the schema is repaired.
func TestSchemaBroken(t *testing.T) {
	for _, c := range []struct {
		name, breaks, mends string // mends "": run the migrations' statements
	}{
		{"state dropped", `DROP TABLE trigger_state`, ""},
		{"events dropped", `DROP TABLE events_by_trigger`, ""},
		{"minutes dropped", `DROP TABLE triggers_by_minute`, ""},
		{
			"column dropped", `ALTER TABLE events_by_trigger DROP previous_tzdata`,
			`ALTER TABLE events_by_trigger ADD previous_tzdata text`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newKeyspace(t)
			l, s := sinktest.NewLog(t), openTest(t, o)
			l.Write(kgo.TryCommit, l.Lives("before", 50)...)
			stage, proven, broken := 0, int64(0), time.Time{}
			reports := newReports()
			sinktest.Project(t, s, sinks.Options{Kafka: l.Kafka(), Hooks: sinks.Hooks{Stopped: reports.stopped}},
				func() bool {
					at, end := l.Committed("waterclock-history")
					switch {
					case stage == 0 && at == end:
						change(t, o, c.breaks)
						l.Write(kgo.TryCommit, l.Lives("during", 50)...)
						stage, proven, broken = 1, at, time.Now()
					case stage == 1 && time.Since(broken) > 3*time.Second:
						if at != proven {
							t.Errorf("offsets went on from %d to %d while rows were refused", proven, at)
						}
						if n := reports.now(); n != sinktest.LogPartitions {
							t.Errorf("%d partitions are told to stand still, want %d", n, sinktest.LogPartitions)
						}
						mend(t, o, c.mends)
						stage = 2
					}
					return stage == 2 && at == end
				})
			requireLives(t, s, "during", 50)
			if n := reports.now(); n != 0 {
				t.Errorf("%d partitions are told to stand still when all is mended", n)
			}
		})
	}
}

// An erase that failed half way is repeated. It must then still find the notifications that it did
// not reach.
func TestEraseRefused(t *testing.T) {
	o := newKeyspace(t)
	s := openTest(t, o)
	us := time.Now().Add(-time.Hour).UnixMicro()
	event := func(key string, kind trigger.FactType) sinks.EventRecord {
		us++
		r := sinks.EventRecord{Offset: us, Event: topics.Event{
			Type: string(kind), Version: 1, Trigger: key, Tenant: "default", Seq: us, State: "IN_FLIGHT", EventUS: us,
		}}
		if kind == trigger.OccurrenceFired {
			r.UserID, r.Occurrence, r.Channel, r.FirstFired = "ann", "o", "push", trigger.Instant(us/1000).String()
		}
		return r
	}
	content := func(key string) sinks.ContentRecord {
		return sinks.ContentRecord{
			TopicPartition: sinks.TopicPartition{Topic: "due.push"}, Has: true,
			Tenant: "default", Trigger: key, ID: key + "@o",
			ContentRow: sinks.ContentRow{US: us, Content: topics.NotificationContent{Title: "canary"}},
		}
	}
	for _, key := range []string{"first", "k"} {
		if err := s.Apply(t.Context(), []sinks.EventRecord{event(key, trigger.OccurrenceFired)}); err != nil {
			t.Fatal(err)
		}
	}
	// The statements are known to the node, so that they run at once.
	if err := s.Apply(t.Context(), []sinks.EventRecord{event("first", trigger.ErasedFact)}); err != nil {
		t.Fatal(err)
	}
	contents := content("k")
	erased := event("k", trigger.ErasedFact)
	change(t, o, `DROP TABLE notification_content`)
	if err := s.Apply(t.Context(), []sinks.EventRecord{erased}); err == nil {
		t.Fatal("it erased in a table that is not there")
	}
	mend(t, o, "")
	putContent(t, s, contents)
	if err := s.Apply(t.Context(), []sinks.EventRecord{erased}); err != nil {
		t.Fatal(err)
	}
	n, ok, err := s.Notification(t.Context(), "default", "k@o")
	if err != nil || !ok || n.User != "" || n.Content != nil {
		t.Errorf("after the erase: %v %+v %+v %v", ok, n, n.Content, err)
	}
}

// putContent writes a content as if it had been there before an erase.
func putContent(t *testing.T, s *Store, r sinks.ContentRecord) {
	t.Helper()
	err := s.do(t.Context(), "put content", func(session *gocql.Session) error {
		now, err := clock(t.Context(), session)
		if err != nil {
			return err
		}
		w := &writes{s: s, now: now}
		w.putContents([]sinks.ContentRecord{r})
		return s.runAll(t.Context(), session, w.statements)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reports holds the partitions that are reported as stopped.
type reports struct {
	mu  sync.Mutex
	why map[int32]error
}

func newReports() *reports { return &reports{why: map[int32]error{}} }

func (s *reports) stopped(partition int32, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why[partition] = err; err == nil {
		delete(s.why, partition)
	}
}

func (s *reports) now() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.why)
}

// The largest event that DecodeEvent accepts is not too large for Cassandra.
func TestLargestEvent(t *testing.T) {
	s := openTest(t, newKeyspace(t))
	e := topics.Event{
		Type: "trigger.registered", Version: 1, Trigger: "k", Tenant: "default", Seq: 1, State: "PENDING",
		EventUS:       time.Now().UnixMicro(),
		PayloadBase64: strings.Repeat("x", 4<<20),
	}
	if err := s.Apply(context.Background(), []sinks.EventRecord{{Event: e}}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Events(context.Background(), sinks.EventQuery{Tenant: "default", Trigger: "k"})
	if err != nil || len(page.Events) != 1 || len(page.Events[0].PayloadBase64) != 4<<20 {
		t.Errorf("%d events, %v", len(page.Events), err)
	}
}

func mend(t *testing.T, o Options, cql string) {
	t.Helper()
	if cql != "" {
		change(t, o, cql)
		return
	}
	for _, m := range known(t) { // a later migration may have added a column
		change(t, o, m.statements...)
	}
}

func change(t *testing.T, o Options, cql ...string) {
	t.Helper()
	session, err := oneNode(o.withDefaults(), o.Keyspace)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for _, one := range cql {
		if err := ddl(context.Background(), session, one); err != nil {
			t.Fatal(one, err)
		}
	}
}

// requireLives checks that n triggers of a Log have all their rows.
func requireLives(t *testing.T, s *Store, prefix string, n int) {
	t.Helper()
	missing := map[string]int{}
	for i := range n {
		key := fmt.Sprintf("%s-%d", prefix, i)
		page, err := s.Events(context.Background(), sinks.EventQuery{Tenant: "default", Trigger: key})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Events) != 3 {
			missing["events"]++
		}
		if state, ok, err := s.Trigger(context.Background(), "default", key); err != nil || !ok ||
			state.State != "FIRED" {
			missing["states"]++
		}
	}
	entries := 0
	err := s.Scan(context.Background(), sinks.TableMinute, func(r sinks.Row) error {
		if len(r.Trigger) > len(prefix) && r.Trigger[:len(prefix)] == prefix {
			entries++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if missing["entries"] = n - entries; missing["events"] != 0 || missing["states"] != 0 || entries != n {
		t.Errorf("rows of %d triggers are missing: %v", n, missing)
	}
}
