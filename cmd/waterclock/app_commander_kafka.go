package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// kafkaCommander writes commands to topic commands. It reads the decision from the topics that
// the engine writes (watcher).
type kafkaCommander struct {
	app    *app
	c      *config.Config
	wait   time.Duration
	writer *kgo.Client
	admin  *kadm.Client
	watch  *watcher // watches the partition of the last command; nil before the first, and if nobody waits
	parts  int32

	readers readers
}

func newKafkaCommander(ctx context.Context, a *app, c *config.Config, wait time.Duration) (*kafkaCommander, error) {
	writer, err := a.kafka(ctx, c, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(30*time.Second), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	k := &kafkaCommander{app: a, c: c, wait: wait, writer: writer, admin: kadm.NewClient(writer)}
	k.readers = readers{c: c, cl: writer, admin: k.admin}
	if k.parts, err = partitions(ctx, k.admin, c.Topic("commands")); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// partitions returns the number of partitions of a topic. If the topic does not exist, the error
// says how to create it.
func partitions(ctx context.Context, admin *kadm.Client, topic string) (int32, error) {
	all, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("describe topic %s: %w", topic, err)
	}
	d := all[topic]
	if d.Err != nil || len(d.Partitions) == 0 {
		return 0, &failure{Exit: exitFailed, Err: d.Err, Msg: fmt.Sprintf(
			"there is no topic %s: create the topics with `waterclock topics apply`, or set another prefix with "+
				"--set topics.prefix=…", topic)}
	}
	return int32(len(d.Partitions)), nil
}

func (k *kafkaCommander) Close() {
	k.watch.close()
	k.writer.Close()
}

func (k *kafkaCommander) Do(ctx context.Context, w wish) (decision, error) {
	d := decision{TriggerID: w.Key, Op: w.Op.String(), Result: resultAccepted}
	p := topics.Partition([]byte(w.Key), k.parts)
	if err := k.stand(ctx, p); err != nil {
		return d, err
	}
	opens := k.opens(ctx, w)
	rec, err := k.write(ctx, w, p)
	if err != nil {
		return d, err
	}
	if d.Source = topics.Source(rec.Topic, p, rec.Offset); k.watch == nil {
		return d, nil
	}
	waitCtx, cancel := context.WithTimeout(ctx, k.wait)
	defer cancel()
	became, err := k.watch.await(waitCtx, w, d.Source, rec.Offset)
	if err != nil {
		return d, undecided(ctx, err)
	}
	if err := d.decide(w.Op, became); err != nil {
		return d, err
	}
	k.addNotes(ctx, &d, rec, opens)
	return d, nil
}

// opens reports whether a register creates its channel. A channel is new if it has no due topic
// yet, because nothing has fired on it.
func (k *kafkaCommander) opens(ctx context.Context, w wish) bool {
	channel, _ := w.Fields["channel"].(string)
	if _, known := k.c.Channels[channel]; known || channel == "" || config.BuiltIn(channel) ||
		w.Op != trigger.OpRegister {
		return false
	}
	due := k.c.Channel(channel).Topic
	all, err := k.admin.ListTopics(ctx, due)
	return err == nil && errors.Is(all[due].Err, kerr.UnknownTopicOrPartition)
}

// addNotes adds the notes that the API would add to the same decision.
func (k *kafkaCommander) addNotes(ctx context.Context, d *decision, rec *kgo.Record, opens bool) {
	repeat := d.Result == string(trigger.Duplicate)
	c, err := topics.DecodeCommand(&topics.Record{Key: rec.Key, Value: rec.Value, Timestamp: trigger.At(rec.Timestamp)},
		topics.Limits{}, nil)
	if err != nil || c.Spec == nil {
		return
	}
	if opens && !repeat {
		d.Notes = append(d.Notes, topics.NoteNewChannel(c.Spec.Channel))
	}
	if !repeat && c.Op == trigger.OpRegister {
		for _, name := range k.readers.unserved(ctx, c.Spec.Channels()) {
			d.Notes = append(d.Notes, topics.NoteNobody(name))
		}
		if note := topics.NoteContent(c.Spec); note != "" {
			d.Notes = append(d.Notes, note)
		}
	}
	if next, err := time.Parse(time.RFC3339, d.FireAt); err == nil {
		d.Notes = append(d.Notes, topics.Notes(&c.Spec.When, trigger.At(rec.Timestamp), trigger.At(next), repeat)...)
	}
}

// answers reports whether an event is the answer to the command at source. A run_now may have no
// event but its firing. Then the occurrence id holds the location of the command.
func answers(e *topics.Event, w wish, source string) bool {
	if e.Trigger != w.Key {
		return false
	}
	location := strings.Split(source, "/")
	return e.Source == source || w.Op == trigger.OpRunNow &&
		e.Occurrence == "run-"+strings.Join(location[len(location)-2:], "-")
}

// undecided returns nil if the wait timed out. If the caller's own context has ended, it returns
// the error.
func undecided(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// stand begins to watch partition p. It does nothing if nobody waits or if there is no event log.
func (k *kafkaCommander) stand(ctx context.Context, p int32) (err error) {
	k.watch.close()
	if k.watch = nil; k.wait > 0 {
		k.watch, err = newWatcher(ctx, k.app, k.c, k.admin, p)
	}
	return err
}

// write appends a command, encoded as JSON.
func (k *kafkaCommander) write(ctx context.Context, w wish, p int32) (*kgo.Record, error) {
	value, err := json.Marshal(w.body())
	if err != nil {
		return nil, fmt.Errorf("encode the command: %w", err)
	}
	rec := &kgo.Record{Topic: k.c.Topic("commands"), Partition: p, Key: []byte(w.Key), Value: value}
	if err := k.writer.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return nil, fmt.Errorf("write to %s: %w", rec.Topic, err)
	}
	return rec, nil
}

// body returns the JSON object of the command: its fields and op.
func (w wish) body() map[string]any {
	body := map[string]any{"op": w.Op.String()}
	for name, v := range w.Fields {
		body[name] = v
	}
	return body
}

func (k *kafkaCommander) AwaitFiring(ctx context.Context, d decision) (*topics.Event, error) {
	if k.watch == nil {
		return nil, failf("--wait needs a partition of topic %s that is missing: see waterclock topics plan",
			k.c.Topic("events"))
	}
	if !d.Decided {
		e, err := k.watch.next(ctx, func(e *topics.Event) bool {
			return answers(e, wish{Key: d.TriggerID, Op: trigger.OpRegister}, d.Source)
		})
		if err == nil {
			err = d.decide(trigger.OpRegister, answer{event: e})
		}
		if err != nil {
			return nil, err
		}
	}
	var ended error
	fits := func(e *topics.Event) bool {
		if e.Trigger != d.TriggerID || d.earlier(e) {
			return false
		}
		done, err := firing(e)
		ended = err
		return done
	}
	if d.Result == string(trigger.Duplicate) && d.over() {
		e, err := k.loggedEvent(ctx, d, fits)
		if err == nil && e == nil {
			err = d.noMore()
		}
		return e, errors.Join(err, ended)
	}
	e, err := k.watch.next(ctx, fits)
	if err != nil {
		return nil, err
	}
	return e, ended
}

// loggedEvent searches topic events from the due time of the trigger to the current end. It
// returns the first event that fits, or nil if the log has none or has deleted it.
func (k *kafkaCommander) loggedEvent(ctx context.Context, d decision, fits func(*topics.Event) bool) (*topics.Event,
	error,
) {
	at, err := time.Parse(time.RFC3339, d.FireAt)
	if err != nil {
		return nil, nil // the due time is not known
	}
	events, p := k.c.Topic("events"), topics.Partition([]byte(d.TriggerID), k.parts)
	starts, err1 := k.admin.ListOffsetsAfterMilli(ctx, at.Add(-clocksDiffer).UnixMilli(), events)
	ends, err2 := k.admin.ListCommittedOffsets(ctx, events)
	start, _ := starts.Lookup(events, p)
	end, _ := ends.Lookup(events, p)
	if err := errors.Join(err1, err2, start.Err, end.Err); err != nil {
		return nil, fmt.Errorf("find the offset in %s: %w", events, err)
	}
	reader, err := k.app.kafkaReader(ctx, k.c,
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{events: {p: kgo.NewOffset().At(start.Offset)}}))
	if err != nil {
		return nil, err
	}
	w := &watcher{reader: reader, events: events, partition: p, passed: start.Offset}
	defer w.close()
	for {
		if e := w.take(fits); e != nil || w.passed >= end.Offset {
			return e, nil
		}
		if err := w.poll(ctx); err != nil {
			return nil, err
		}
	}
}
