package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// kafkaCommander writes commands to their topic and reads the decision from
// the event log. Engine partition p writes partition p of `events` alone, so
// one partition, from where it ended before the command, holds the answer:
// the event whose source is the command's place.
type kafkaCommander struct {
	app      *app
	c        *config.Config
	wait     time.Duration
	writer   *kgo.Client
	admin    *kadm.Client
	reader   *kgo.Client    // of one partition of events; nil before the first wish
	buffered []topics.Event // read and not yet looked at
	parts    int32
}

func newKafkaCommander(ctx context.Context, a *app, c *config.Config, wait time.Duration) (*kafkaCommander, error) {
	writer, err := a.kafka(ctx, c, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
		kgo.RecordDeliveryTimeout(30*time.Second), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return nil, err
	}
	k := &kafkaCommander{app: a, c: c, wait: wait, writer: writer, admin: kadm.NewClient(writer)}
	if k.parts, err = partitions(ctx, k.admin, c.Topic("commands")); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// partitions is how many a topic has; the error says how to make a topic
// that is not there.
func partitions(ctx context.Context, admin *kadm.Client, topic string) (int32, error) {
	all, err := admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", topic, err)
	}
	d := all[topic]
	if d.Err != nil || len(d.Partitions) == 0 {
		return 0, &failure{Exit: exitFailed, Err: d.Err, Msg: fmt.Sprintf(
			"there is no topic %s: make the topics with `waterclock topics apply`, or say --set topics.prefix=… if yours is another", topic)}
	}
	return int32(len(d.Partitions)), nil
}

func (k *kafkaCommander) Close() {
	if k.reader != nil {
		k.reader.Close()
	}
	k.writer.Close()
}

func (k *kafkaCommander) Do(ctx context.Context, w wish) (decision, error) {
	d := decision{TriggerID: w.Key, Op: w.Op.String(), Result: "command.accepted"}
	p := topics.Partition([]byte(w.Key), k.parts)
	watching, err := k.watch(ctx, p)
	if err != nil {
		return d, err
	}
	if d.Source, err = k.write(ctx, w, p); err != nil {
		return d, err
	}
	if !watching {
		return d, nil
	}
	waitCtx, cancel := context.WithTimeout(ctx, k.wait)
	defer cancel()
	e, err := k.next(waitCtx, func(e *topics.Event) bool { return answers(e, w, d.Source) })
	if err != nil {
		return d, undecided(ctx, err)
	}
	return d, d.decide(e)
}

// answers says that an event tells what became of the command at source. A
// run_now may be told by its firing alone, whose occurrence has the place.
func answers(e *topics.Event, w wish, source string) bool {
	if e.Trigger != w.Key {
		return false
	}
	place := strings.Split(source, "/")
	return e.Source == source || w.Op == trigger.OpRunNow && e.Occurrence == "run-"+strings.Join(place[len(place)-2:], "-")
}

// undecided makes the end of the wait no error; the caller's own end is one.
func undecided(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil
	}
	return err
}

// watch stands at the end of partition p of events. It is false where nobody
// wants to wait or there is no event log to wait on.
func (k *kafkaCommander) watch(ctx context.Context, p int32) (bool, error) {
	if k.wait <= 0 {
		return false, nil
	}
	topic := k.c.Topic("events")
	ends, err := k.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return false, fmt.Errorf("find the end of %s: %w", topic, err)
	}
	end, ok := ends.Lookup(topic, p)
	if !ok || end.Err != nil {
		k.app.note("there is no partition %d of %s, so nobody can say what became of the command", p, topic)
		return false, nil
	}
	if k.reader != nil {
		k.reader.Close()
	}
	k.buffered = nil
	k.reader, err = k.app.kafka(ctx, k.c, kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.FetchMaxWait(time.Second),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(end.Offset)}}))
	return err == nil, err
}

// write appends the JSON spelling of a wish and says where it stands.
func (k *kafkaCommander) write(ctx context.Context, w wish, p int32) (source string, err error) {
	value, err := json.Marshal(w.body())
	if err != nil {
		return "", fmt.Errorf("spell the command: %w", err)
	}
	rec := &kgo.Record{Topic: k.c.Topic("commands"), Partition: p, Key: []byte(w.Key), Value: value}
	if err := k.writer.ProduceSync(ctx, rec).FirstErr(); err != nil {
		return "", fmt.Errorf("write to %s: %w", rec.Topic, err)
	}
	return fmt.Sprintf("%s/%d/%d", rec.Topic, rec.Partition, rec.Offset), nil
}

// body is the JSON spelling: the fields and op.
func (w wish) body() map[string]any {
	body := map[string]any{"op": w.Op.String()}
	for name, v := range w.Fields {
		body[name] = v
	}
	return body
}

func (k *kafkaCommander) AwaitFiring(ctx context.Context, d decision) (*topics.Event, error) {
	if k.reader == nil {
		return nil, failf("--wait needs the event log and a --decision-timeout over 0")
	}
	var ended error
	e, err := k.next(ctx, func(e *topics.Event) bool {
		if e.Trigger != d.TriggerID {
			return false
		}
		done, err := firing(e)
		ended = err
		return done
	})
	if err != nil {
		return nil, err
	}
	return e, ended
}

// next reads on until an event fits.
func (k *kafkaCommander) next(ctx context.Context, fits func(*topics.Event) bool) (*topics.Event, error) {
	for {
		for len(k.buffered) > 0 {
			e := k.buffered[0]
			k.buffered = k.buffered[1:]
			if fits(&e) {
				return &e, nil
			}
		}
		fetches := k.reader.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := fetches.Err(); err != nil {
			return nil, fmt.Errorf("read the event log: %w", err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var e topics.Event
			if json.Unmarshal(r.Value, &e) == nil { // what is no event answers nothing
				k.buffered = append(k.buffered, e)
			}
		})
	}
}
