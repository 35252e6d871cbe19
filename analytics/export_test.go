package analytics

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/test/services"
)

// Each committed record is in the files once, and no aborted one. An export in many steps
// has the same sealed files and the same tail as one of the whole log, byte for byte.
func TestExport(t *testing.T) {
	w := newWorld(t, 3)
	steps, whole := t.TempDir(), t.TempDir()
	for range 4 {
		w.fill(6)
		w.export(steps)
		w.check(steps)
	}
	r := w.export(whole)
	w.check(whole)
	if r.Files < 6 || r.Events == 0 || r.NotEvents == 0 || r.TailRows == 0 {
		t.Errorf("the export says %+v", r)
	}
	a, b := files(t, steps), files(t, whole)
	for _, dir := range []string{eventsDir, tailDir, snapshotDir} {
		sameFiles(t, only(a, dir), only(b, dir))
	}
	if left := only(a, tmpDir); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	before := files(t, whole)
	if r := w.export(whole); r.Files != 0 {
		t.Errorf("nothing was new, and the export says %+v", r)
	}
	sameFiles(t, before, files(t, whole))
}

// The same with a real broker: its markers, its aborted transactions, its last stable offset,
// and records of a transaction that is still open.
func TestExportFromKafka(t *testing.T) {
	brokers := strings.Split(services.Kafka(t).Bootstrap, ",")
	name := fmt.Sprintf("export-test-%08x.events", rand.Uint32())
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	if _, err := kadm.NewClient(cl).CreateTopic(t.Context(), 2, 1, nil, name); err != nil {
		t.Fatal(err)
	}
	w := worldOn(t, brokers, name, 2)
	steps, whole := t.TempDir(), t.TempDir()
	for range 2 {
		w.fill(8)
		w.export(steps)
		w.check(steps)
	}
	if err := w.producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	open := &kgo.Record{Topic: name, Value: w.event(0, time.Second, "")}
	if err := w.producer.ProduceSync(t.Context(), open).FirstErr(); err != nil {
		t.Fatal(err)
	}
	w.export(whole)
	w.check(whole)
	sameFiles(t, only(files(t, steps), eventsDir), only(files(t, whole), eventsDir))
	if err := w.producer.EndTransaction(t.Context(), kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
	w.write(0, true, w.event(0, time.Second, ""))
	w.export(whole)
	w.check(whole)
}

// A broker that goes away while it is read, or that gives nothing but errors that may pass, ends the export with an
// error: the client alone would wait for ever.
func TestBrokerGoesAway(t *testing.T) {
	for name, fail := range map[string]func(*kfake.Cluster){
		"away": (*kfake.Cluster).Close,
		"no leader": func(c *kfake.Cluster) {
			c.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				c.KeepControl()
				answer := req.ResponseKind().(*kmsg.FetchResponse)
				for _, asked := range req.(*kmsg.FetchRequest).Topics {
					of := kmsg.FetchResponseTopic{Topic: asked.Topic, TopicID: asked.TopicID}
					for _, p := range asked.Partitions {
						one := kmsg.NewFetchResponseTopicPartition()
						one.Partition, one.ErrorCode = p.Partition, kerr.LeaderNotAvailable.Code
						of.Partitions = append(of.Partitions, one)
					}
					answer.Topics = append(answer.Topics, of)
				}
				return answer, nil, true
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, topic))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			w := worldOn(t, c.ListenAddrs(), topic, 1)
			w.write(0, true, w.event(0, time.Second, ""))
			e := w.exporter(t.TempDir())
			describe := e.source
			e.silence = 2 * time.Second
			e.source = func(ctx context.Context) (*source, error) {
				s, err := describe(ctx)
				fail(c)
				return s, err
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := e.Export(ctx); err == nil || !strings.Contains(err.Error(), "no record within 2s") {
				t.Errorf("the export ended with %v", err)
			}
		})
	}
}

// The check finds aborted records: an exporter that reads uncommitted ones fails it.
func TestAbortedRecordsAreAbsent(t *testing.T) {
	w := newWorld(t, 1)
	w.write(0, true, w.event(0, time.Second, ""))
	w.write(0, false, w.event(0, time.Second, ""))
	w.write(0, true, w.event(0, time.Second, ""))
	for uncommitted, want := range map[bool]int{false: 2, true: 3} {
		dir := t.TempDir()
		w.export(dir, func(o *Options) {
			if uncommitted {
				o.Client = w.client(append(ClientOptions(), kgo.FetchIsolationLevel(kgo.ReadUncommitted()))...)
			}
		})
		if _, all, _ := read(t, dir); len(all[0]) != want {
			t.Errorf("reading uncommitted %v: %d rows, want %d", uncommitted, len(all[0]), want)
		}
	}
}

// No file has events of two days, or offsets of two spans.
func TestBounds(t *testing.T) {
	w := newWorld(t, 2)
	w.fill(20)
	dir := t.TempDir()
	w.export(dir)
	_, _, manifests := read(t, dir)
	dates := map[string]bool{}
	for _, m := range manifests {
		for _, f := range m.Files {
			dates[f.Date] = true
			if f.First/32 != f.Last/32 || day(f.MinUS) != day(f.MaxUS) ||
				f.MinUS != 0 && dayName(day(f.MinUS)) != f.Date {
				t.Errorf("%+v", f)
			}
		}
	}
	if len(dates) != 2 {
		t.Errorf("days %v, want two", dates)
	}
}

// frozenRows is the digest of the bounds and rows that version 1 has for the log below.
const frozenRows = "f25326b2cc168ff975cbd888024efc39ef14fa86629030900789ed4c83e2f736"

// Another build may compress otherwise. But it ends files at the same offsets, and they have the same rows.
func TestRowsAreFrozen(t *testing.T) {
	l, dir := newLedger(300), t.TempDir()
	e := l.exporter(dir, nil)
	e.decode.hide = newHider(Users{Key: []byte("0123456789abcdef")})
	if _, err := e.Export(t.Context()); err != nil {
		t.Fatal(err)
	}
	sealed, _, manifests := read(t, dir)
	var text strings.Builder
	files := 0
	for _, m := range manifests {
		for _, f := range m.Files {
			files++
			fmt.Fprintln(&text, f.Path, f.Rows, f.MinUS, f.MaxUS, f.NotEvents)
		}
	}
	for p := range int32(2) {
		for i := range sealed[p] {
			row, err := json.Marshal(&sealed[p][i])
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(row, '\n'))
		}
	}
	if got := digestOf([]byte(text.String())); got != frozenRows || files < 15 {
		t.Errorf("%d files have the digest %s, want %s", files, got, frozenRows)
	}
}
