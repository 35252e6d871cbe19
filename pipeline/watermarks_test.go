package pipeline_test

import (
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/internal/sim"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

func publishing(o *pipeline.Options) {
	o.WatermarkInterval, o.WatermarkIdle = time.Second, 5*time.Second
}

// firstEmission is an occurrence.fired that watermarks speak of.
type firstEmission struct {
	record    *kgo.Record
	event     topics.Event
	time      trigger.Instant // effective_at, else due
	effective bool
}

// firstEmissions reads topic events.
func firstEmissions(t *testing.T, w *sim.World) (all []firstEmission) {
	t.Helper()
	for _, r := range w.Dump(w.Names.Events()) {
		e, err := topics.DecodeEvent(r.Value)
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != string(trigger.OccurrenceFired) || *e.Step != 0 || e.Attempt != 1 {
			continue
		}
		text, late := e.OccurredAt, *e.LatenessMS
		if e.EffectiveAt != "" {
			text, late = e.EffectiveAt, 0
		}
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, firstEmission{r, e, trigger.At(at) - trigger.Instant(late), e.EffectiveAt != ""})
	}
	return all
}

// judgeWatermarks holds every emission against every watermark, and returns the watermarks of
// partition 0. earlier are records that a reader has read before they were lost.
func judgeWatermarks(t *testing.T, w *sim.World, earlier ...*kgo.Record) (of0 []*topics.Watermark) {
	t.Helper()
	emissions := firstEmissions(t, w)
	due := map[string]*kgo.Record{} // the first by ce_id
	for _, topic := range w.Topics() {
		if w.Names.Channel(topic) == "" {
			continue
		}
		for _, r := range w.Dump(topic) {
			if id := pipelinetest.Header(r, "ce_id"); due[id] == nil {
				due[id] = r
			}
		}
	}
	last := map[int32]trigger.Instant{}
	for _, r := range append(earlier, w.Dump(w.Names.Watermarks())...) {
		m, err := topics.DecodeWatermark(r.Key, r.Value)
		if string(r.Key) == strange {
			continue
		}
		if err != nil || m == nil || m.Partition != r.Partition {
			t.Fatalf("%s on partition %d: %+v, %v", r.Value, r.Partition, m, err)
		}
		if m.FiredThrough < last[r.Partition] {
			t.Errorf("partition %d goes back from %s to %s", r.Partition, last[r.Partition], m.FiredThrough)
		}
		last[r.Partition] = m.FiredThrough
		for _, e := range emissions {
			if e.record.Partition != r.Partition || e.time > m.FiredThrough {
				continue
			}
			if e.record.Offset >= m.EventsOffset {
				t.Errorf("%s stands at %d of events; %s", e.record.Value, e.record.Offset, r.Value)
			}
			id := trigger.DueID(trigger.Key(e.event.Trigger), e.event.Occurrence, 0)
			if d := due[id]; d == nil || d.Offset >= m.Due[d.Topic][d.Partition] {
				t.Errorf("the due event %s stands at %+v; %s", id, d, r.Value)
			}
		}
		if r.Partition == 0 {
			of0 = append(of0, m)
		}
	}
	return of0
}

// strange is the key of records that are no watermarks.
const strange = "strange"

// A partition says within seconds that everything due is out, while something happens and while
// nothing does. What is due before that and comes later has an effective_at behind it.
func TestWatermarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 4, Partitions: 1})
		w.Start("a", publishing)
		w.AwaitOwners()
		time.Sleep(21 * time.Second)
		idle := judgeWatermarks(t, w)
		if n := len(idle); n < 4 || n > 7 {
			t.Fatalf("%d watermarks in 21 s without anything to do", n)
		}
		for i, m := range idle[1:] {
			if behind := m.At - m.FiredThrough; behind > 100 || len(m.Held) > 0 {
				t.Errorf("idle, %d: %+v is %d ms behind", i, m, behind)
			}
		}
		for i := range 40 {
			w.Send("soon-"+strconv.Itoa(i), `{"op":"register","delay":"1s","channel":"orders"}`)
			time.Sleep(250 * time.Millisecond)
		}
		past := time.Now().Add(-20 * time.Second).UTC().Format(time.RFC3339)
		w.Send("past", `{"op":"register","fire_at":"`+past+`","channel":"orders"}`)
		time.Sleep(2 * time.Second)
		all := judgeWatermarks(t, w)
		if n := len(all) - len(idle); n < 9 || n > 14 {
			t.Errorf("%d watermarks in 12 s with something to do", n)
		}
		if last := all[len(all)-1]; time.Since(last.FiredThrough.Time()) > 1500*time.Millisecond {
			t.Errorf("the last is %v behind", time.Since(last.FiredThrough.Time()))
		}
		effective := 0
		for _, e := range firstEmissions(t, w) {
			if e.effective {
				effective++
			}
			if e.effective != (e.event.Trigger == "past") {
				t.Errorf("%s", e.record.Value)
			}
		}
		if effective != 1 {
			t.Errorf("%d have an effective_at", effective)
		}
	})
}

// Owners whose clocks differ, and who are killed, go on where the last one was.
func TestWatermarksOverOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 5, Partitions: 2})
		skewed := func(by time.Duration) func(*pipeline.Options) {
			return func(o *pipeline.Options) {
				publishing(o)
				o.Now = func() time.Time { return time.Now().Add(by) }
			}
		}
		w.Start("a", skewed(900*time.Millisecond))
		w.AwaitOwners()
		for i := range 60 {
			w.Send("k-"+strconv.Itoa(i), `{"op":"register","delay":"`+strconv.Itoa(i%4*300)+`ms","channel":"orders"}`)
			switch time.Sleep(200 * time.Millisecond); i {
			case 15, 45:
				w.Kill("a")
				w.Start("b", skewed(-900*time.Millisecond))
				w.AwaitOwners()
			case 30:
				w.Kill("b")
				w.Start("a", skewed(900*time.Millisecond))
				w.AwaitOwners()
			}
		}
		time.Sleep(10 * time.Second)
		if all := judgeWatermarks(t, w); len(all) < 10 || all[len(all)-1].Term < 4 {
			t.Errorf("%d watermarks, the last %+v", len(all), all[len(all)-1])
		}
		if n := len(firstEmissions(t, w)); n != 60 {
			t.Errorf("%d fired", n)
		}
	})
}

// The end of a due topic that was just created is not known yet. It is asked for again, also by a
// partition that never writes there.
func TestWatermarkEndNotKnownYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 6, Partitions: 2})
		w.Start("a", publishing)
		w.AwaitOwners()
		w.Send("k", `{"op":"register","delay":"1s","channel":"orders"}`)
		time.Sleep(3 * time.Second)
		topic := w.Names.Due("orders")
		w.Kill("a")
		refused := 0
		w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
			for _, rt := range req.(*kmsg.ListOffsetsRequest).Topics {
				if rt.Topic != topic || rt.Partitions[0].Partition == 0 || refused == 2 {
					return nil, nil, false
				}
				refused++
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.ErrorCode = rt.Partitions[0].Partition, kerr.UnknownTopicOrPartition.Code
				resp.Topics = append(resp.Topics, kmsg.ListOffsetsResponseTopic{
					Topic: topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{p},
				})
			}
			return resp, nil, true
		})
		w.Start("b", publishing)
		w.AwaitOwners()
		last := func() (m *topics.Watermark) {
			for _, r := range w.Dump(w.Names.Watermarks()) {
				if r.Partition == 1 {
					m, _ = topics.DecodeWatermark(r.Key, r.Value)
				}
			}
			return m
		}
		time.Sleep(1500 * time.Millisecond)
		if m := last(); !slices.Equal(m.Held, []string{topic}) || m.Due[topic] != nil || refused == 0 {
			t.Errorf("%d questions refused, and it says %+v", refused, m)
		}
		time.Sleep(10 * time.Second)
		if m := last(); len(m.Held) > 0 || m.Due[topic] == nil || refused != 2 {
			t.Errorf("after %d refused questions it says %+v", refused, m)
		}
	})
}

// The last owner may make a due topic just before it stops. Its successor knows that topic, also if it
// has opened another partition a moment before: it asks where the topic ends, and whether a transaction
// is open there.
func TestTopicMadeBeforeTakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 6, Partitions: 2})
		w.Start("a", publishing)
		w.AwaitOwners()
		w.Start("b", publishing)
		w.Eventually("each owns one", func() bool {
			return w.Owner(0) != nil && w.Owner(1) != nil && w.Owner(0) != w.Owner(1)
		})
		at, topic := int32(0), w.Names.Due("orders")
		w.SendTo(at, keyOn(at), `{"op":"register","delay":"500ms","channel":"orders"}`)
		time.Sleep(2 * time.Second)
		var inspected atomic.Bool
		w.Cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
			w.Cluster.KeepControl()
			asks := req.(*kmsg.ListOffsetsRequest)
			for _, rt := range asks.Topics {
				if rt.Topic == topic && kafkapart.Isolation(asks.IsolationLevel) == kafkapart.ReadCommitted {
					inspected.Store(true)
				}
			}
			return nil, nil, false
		})
		if err := w.Stop(w.Owner(at).Name); err != nil {
			t.Fatal(err)
		}
		w.AwaitOwners()
		time.Sleep(3 * time.Second)
		all := judgeWatermarks(t, w)
		if last := all[len(all)-1]; last.Due[topic][at] == 0 || last.Term < 2 || len(last.Held) > 0 {
			t.Errorf("the successor says %+v", last)
		}
		if !inspected.Load() {
			t.Error("nobody asked whether a transaction is open in the new topic")
		}
	})
}

// A due topic that refuses records is named until everything that it put off is out, also by a
// successor.
func TestWatermarkNamesWhatIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 6, Partitions: 1})
		closed := func(o *pipeline.Options) {
			publishing(o)
			o.ManageTopics = false
		}
		w.Start("a", closed)
		w.AwaitOwners()
		w.Send("k", `{"op":"register","delay":"2s","channel":"missing"}`)
		w.Send("other", `{"op":"register","delay":"2s"}`)
		time.Sleep(8 * time.Second)
		topic := w.Names.Due("missing")
		held := func() []string {
			all := judgeWatermarks(t, w)
			return all[len(all)-1].Held
		}
		if got := held(); len(got) != 1 || got[0] != topic {
			t.Errorf("held: %q", got)
		}
		w.Kill("a")
		w.Start("b", closed)
		w.AwaitOwners()
		time.Sleep(7 * time.Second)
		if got := held(); len(got) != 1 || got[0] != topic {
			t.Errorf("held, says the next owner: %q", got)
		}
		if err := w.Stop("b"); err != nil {
			t.Fatal(err)
		}
		w.Start("b", publishing)
		w.AwaitOwners()
		time.Sleep(6 * time.Minute)
		if got := held(); len(got) != 0 {
			t.Errorf("the topic is there now, and held are %q", got)
		}
		for _, e := range firstEmissions(t, w) {
			if e.effective != (e.event.Trigger == "k") {
				t.Errorf("%s", e.record.Value)
			}
		}
	})
}

// lastProgress is the last progress record of partition 0, and the format that it is written in.
func lastProgress(t *testing.T, w *sim.World) (r *kgo.Record, p *topics.Progress, format topics.Format) {
	t.Helper()
	for _, r = range w.Dump(w.Names.State()) {
		if string(r.Key) == string(topics.KeyProgress) {
			var err error
			if p, err = topics.DecodeProgress(r.Value); err != nil {
				t.Fatal(err)
			}
			format = topics.Format(r.Value[1]) // field 1 comes first
		}
	}
	return r, p, format
}

// Progress has nothing of watermarks, so that an older version reads it. Turned off, the partition
// withdraws its watermark, once.
func TestWatermarksTurnedOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 7, Partitions: 1})
		w.Start("a", publishing)
		w.AwaitOwners()
		w.Send("k", `{"op":"register","delay":"1s","channel":"orders"}`)
		time.Sleep(7 * time.Second)
		if _, p, format := lastProgress(t, w); p.FiredThrough != 0 || format >= topics.Watermarks {
			t.Errorf("format %d, %+v", format, p)
		}
		before := len(w.Dump(w.Names.Watermarks()))
		for range 2 {
			if err := w.Stop("a"); err != nil {
				t.Fatal(err)
			}
			w.Start("a")
			w.AwaitOwners()
			time.Sleep(time.Second)
		}
		all := w.Dump(w.Names.Watermarks())
		if n := len(all); n != before+1 || all[n-1].Value != nil || string(all[n-1].Key) != "0" {
			t.Errorf("%d records, before %d, the last %q", n, before, all[n-1].Value)
		}
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		w.Start("a", publishing)
		w.AwaitOwners()
		time.Sleep(2 * time.Second)
		if r := w.Dump(w.Names.Watermarks()); len(r) == len(all) || r[len(r)-1].Value == nil {
			t.Errorf("it is on, and the last of %d records is null", len(r))
		}
	})
}

// A successor whose clock is behind emits nothing behind what readers have read, whatever has
// become of the last record.
func TestLastWatermark(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(w *sim.World) (done func())
		lost bool // a reader of the records before them is in good faith
	}{
		{name: "is the last record"},
		{name: "is behind strange records", do: func(w *sim.World) func() {
			const old = "2020-01-01T00:00:00Z"
			for _, r := range []kgo.Record{
				{Key: []byte(strange), Value: []byte("not JSON")},
				{Key: []byte(strange)},
				{Key: []byte(strange), Value: []byte(`{"partition":0,"at":"` + old + `","fired_through":"` + old + `"}`)},
			} {
				r.Topic = w.Names.Watermarks()
				w.Produce(&r)
			}
			return nil
		}},
		{name: "is far behind strange records", do: func(w *sim.World) func() {
			for range 300 {
				w.Produce(&kgo.Record{Topic: w.Names.Watermarks(), Key: []byte(strange), Value: []byte("not JSON")})
			}
			return nil
		}},
		{name: "is compacted", do: func(w *sim.World) func() {
			w.CompactState()
			return nil
		}},
		{name: "is deleted with all before it", lost: true, do: func(w *sim.World) func() {
			if err := w.Cluster.DeleteRecords(w.Names.Watermarks(), 0, -1); err != nil {
				w.T.Fatal(err)
			}
			return nil
		}},
		{name: "is hidden by an open transaction", do: func(w *sim.World) func() {
			cl, err := w.Producer(w.Context(), kgo.TransactionalID("other"), kgo.TransactionTimeout(time.Minute))
			if err != nil {
				w.T.Fatal(err)
			}
			if err := cl.BeginTransaction(); err != nil {
				w.T.Fatal(err)
			}
			r := &kgo.Record{Topic: w.Names.Watermarks(), Key: []byte(strange), Value: []byte("x")}
			if err := cl.ProduceSync(w.Context(), r).FirstErr(); err != nil {
				w.T.Fatal(err)
			}
			return func() {
				if err := cl.EndTransaction(w.Context(), kgo.TryAbort); err != nil {
					w.T.Error(err)
				}
				cl.Close()
			}
		}},
		{name: "nobody can read", do: func(w *sim.World) func() {
			w.Cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				w.Cluster.KeepControl()
				r := req.(*kmsg.FetchRequest)
				if len(r.Topics) != 1 || r.Topics[0].TopicID != w.Cluster.TopicInfo(w.Names.Watermarks()).TopicID ||
					r.SessionEpoch != -1 {
					return nil, nil, false
				}
				resp := req.ResponseKind().(*kmsg.FetchResponse)
				resp.ErrorCode = kerr.UnknownServerError.Code
				return resp, nil, true
			})
			return nil
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := sim.New(t, sim.Options{Seed: 8, Partitions: 1})
				skewed := func(by time.Duration) func(*pipeline.Options) {
					return func(o *pipeline.Options) {
						publishing(o)
						o.Now = func() time.Time { return time.Now().Add(by) }
					}
				}
				w.Start("a", skewed(900*time.Millisecond))
				w.AwaitOwners()
				w.Send("k", `{"op":"register","delay":"1s","channel":"orders"}`)
				time.Sleep(4500 * time.Millisecond)
				w.Kill("a")
				var earlier []*kgo.Record
				if c.lost {
					earlier = w.Dump(w.Names.Watermarks())
				}
				var done func()
				if c.do != nil {
					done = c.do(w)
				}
				past := time.Now().Add(-20 * time.Second).UTC().Format(time.RFC3339)
				w.Send("past", `{"op":"register","fire_at":"`+past+`","channel":"orders"}`)
				w.Start("b", skewed(-900*time.Millisecond))
				w.AwaitOwners()
				w.Eventually("what was due in the past fires", func() bool { return len(firstEmissions(t, w)) == 2 })
				time.Sleep(5 * time.Second)
				if done != nil {
					done()
				}
				time.Sleep(2 * time.Second)
				all := judgeWatermarks(t, w, earlier...)
				if n := len(all); n == 0 || all[n-1].Term < 2 ||
					time.Since(all[n-1].FiredThrough.Time()) > 8*time.Second {
					t.Errorf("%d watermarks, the last %+v", n, all[n-1])
				}
				if e := firstEmissions(t, w)[1]; !e.effective || e.time > trigger.At(time.Now()) {
					t.Errorf("%s", e.record.Value)
				}
			})
		})
	}
}

// A topic that does not exist keeps nothing from firing, and watermarks begin when it is made.
func TestNoWatermarksTopic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 9, Partitions: 1})
		if err := w.Cluster.DeleteTopic(w.Names.Watermarks()); err != nil {
			t.Fatal(err)
		}
		w.Start("a", publishing)
		w.AwaitOwners()
		aborted := w.Heard("aborted")
		w.Send("k", `{"op":"register","delay":"1s","channel":"orders"}`)
		past := time.Now().Add(-20 * time.Second).UTC().Format(time.RFC3339)
		w.Send("past", `{"op":"register","fire_at":"`+past+`","channel":"orders"}`)
		time.Sleep(20 * time.Minute)
		if n := w.Heard("aborted") - aborted; n != 0 {
			t.Errorf("%d turns were lost to a topic that is missing", n)
		}
		for _, e := range firstEmissions(t, w) {
			if e.effective {
				t.Errorf("nothing was published: %s", e.record.Value)
			}
		}
		if err := w.Cluster.CreateTopic(w.Names.Watermarks(), 1, nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		w.Send("late", `{"op":"register","fire_at":"`+past+`","channel":"orders"}`)
		time.Sleep(2 * time.Second)
		if all := judgeWatermarks(t, w); len(all) == 0 || len(firstEmissions(t, w)) != 3 {
			t.Errorf("%d watermarks, %d fired", len(all), len(firstEmissions(t, w)))
		}
	})
}

// Earlier builds kept the watermark in progress, in a format of its own. It is read, and written
// no more.
func TestWatermarkInProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 10, Partitions: 1})
		w.Start("a")
		w.AwaitOwners()
		time.Sleep(2 * time.Second)
		if err := w.Stop("a"); err != nil {
			t.Fatal(err)
		}
		r, p, _ := lastProgress(t, w)
		p.FiredThrough, p.PutOff, p.Seq, p.Manifest = p.At-500, map[string]int64{"gone": 3}, p.Seq+1, nil
		value, err := topics.AppendProgress(nil, p)
		if err != nil {
			t.Fatal(err)
		}
		w.Produce(&kgo.Record{Topic: r.Topic, Key: topics.KeyProgress, Value: value})
		past := time.Now().Add(-20 * time.Second).UTC().Format(time.RFC3339)
		w.Send("past", `{"op":"register","fire_at":"`+past+`","channel":"orders"}`)
		w.Start("a", publishing)
		w.AwaitOwners()
		time.Sleep(5 * time.Second)
		_, is, format := lastProgress(t, w)
		if is.FiredThrough != 0 || is.PutOff != nil || format >= topics.Watermarks {
			t.Errorf("format %d, %+v", format, is)
		}
		if e := firstEmissions(t, w); len(e) != 1 || e[0].time != p.FiredThrough+1 {
			t.Errorf("%+v, want one at %s", e, p.FiredThrough+1)
		}
		if all := judgeWatermarks(t, w); len(all) == 0 || len(all[0].Held) > 0 {
			t.Errorf("%d watermarks", len(all))
		}
	})
}

// Snoozes and runs that come behind a watermark say so, as planned occurrences do.
func TestEffectiveOffThePlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := sim.New(t, sim.Options{Seed: 11, Partitions: 1})
		w.Start("a", func(o *pipeline.Options) {
			publishing(o)
			// Ahead of the broker: a run is due when the broker has it.
			o.Now = func() time.Time { return time.Now().Add(900 * time.Millisecond) }
		})
		w.AwaitOwners()
		w.Send("snoozed", `{"op":"register","delay":"1h","channel":"orders"}`)
		w.Send("snoozed", `{"op":"snooze","for":"2s"}`)
		w.Send("snoozed", `{"op":"pause"}`)
		time.Sleep(20 * time.Second)
		w.Send("snoozed", `{"op":"resume"}`)
		w.Send("run", `{"op":"register","delay":"1h","channel":"orders"}`)
		for range 12 {
			w.Send("run", `{"op":"run_now"}`)
			time.Sleep(333 * time.Millisecond)
		}
		time.Sleep(7 * time.Second)
		judgeWatermarks(t, w)
		effective := map[string]int{}
		for _, e := range firstEmissions(t, w) {
			if e.effective {
				effective[e.event.Trigger]++
			}
		}
		if effective["snoozed"] != 1 || effective["run"] == 0 {
			t.Errorf("with effective_at: %v", effective)
		}
	})
}
