package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/gateway/explain"
	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// explainKafka explains a trigger from topics state and events, for a user who named only
// brokers. It reads the trigger's partition: all of state, and the events appended since the
// given time.
func (a *app) explainKafka(
	ctx context.Context, c *config.Config, key, occurrence string, since time.Duration, n int,
) error {
	if _, err := trigger.ParseKey([]byte(key)); err != nil {
		return worded(err)
	}
	in := &explain.Input{ID: key, Occurrence: occurrence, Zones: calendar.Embedded()}
	err := a.readTrigger(ctx, c, key, since, in)
	if err != nil {
		return err
	}
	in.Now = trigger.At(time.Now())
	in.History = len(in.Events) > 0 // otherwise nothing is known about the past
	answer := explain.Explain(in)
	x := explanation{apiSentence: sentenceOf(in, &answer)}
	if answer.Code == explain.Unknown {
		return &failure{Exit: exitNotFound, Msg: key + ": not_found: " + clean(answer.Sentence)}
	}
	if s := in.State; s != nil && s.Spec.When.Calendars == nil { // the days of calendars are on topic control
		zones := &trigger.Timetable{Zones: in.Zones}
		for _, p := range zones.Upcoming(s, n, 0) {
			x.Occurrences = append(x.Occurrences, upcoming{
				At: p.Nominal.String(), LocalTime: p.Local, Occurrence: p.Occurrence, Note: p.Note,
			})
		}
	}
	return a.explainSentence(x)
}

func sentenceOf(in *explain.Input, answer *explain.Answer) apiSentence {
	x := apiSentence{Code: string(answer.Code), Sentence: answer.Sentence, History: &in.History}
	for _, e := range answer.Evidence {
		x.Evidence = append(x.Evidence, evidence(e))
	}
	if answer.Next != 0 {
		x.Next = answer.Next.String()
	}
	return x
}

// readTrigger reads the state of a key and its newest events.
func (a *app) readTrigger(ctx context.Context, c *config.Config, key string, since time.Duration,
	in *explain.Input,
) error {
	cl, err := a.kafkaReader(ctx, c)
	if err != nil {
		return err
	}
	defer cl.Close()
	admin := kadm.NewClient(cl)
	parts, err := partitions(ctx, admin, c.Topic("commands"))
	if err != nil {
		return err
	}
	p := topics.Partition([]byte(key), parts)
	err = a.readKey(ctx, cl, c.Topic("events"), p, key, since, func(r *kgo.Record) {
		if e, err := topics.DecodeEvent(r.Value); err == nil {
			in.Events = append(in.Events, e)
			in.Events = in.Events[max(0, len(in.Events)-eventsRead):]
		}
	})
	if err != nil {
		return err
	}
	var value []byte // read after the events, so that the state includes everything the events say
	state := func(r *kgo.Record) { value = r.Value }
	if err := a.readKey(ctx, cl, c.Topic("state"), p, key, 0, state); err != nil || value == nil {
		return err
	}
	in.State, err = topics.DecodeState(trigger.Key(key), value)
	if n := len(in.Events); err == nil && n > 0 {
		in.Missing = max(0, in.State.Seq-in.Events[n-1].Seq)
	}
	return err
}

// eventsRead bounds how many events of one trigger are kept.
const eventsRead = 64

// readKey passes the committed records of a key in one partition to visit, up to the current end.
// It starts at the beginning, or with since at that time ago.
func (a *app) readKey(ctx context.Context, cl *kgo.Client, topic string, p int32, key string, since time.Duration,
	visit func(*kgo.Record),
) error {
	admin := kadm.NewClient(cl)
	f := &tailFlags{fromBeginning: true, partition: p}
	s, err := f.span(ctx, admin, []string{topic})
	if err != nil {
		return err
	}
	if since > 0 {
		at, err := admin.ListOffsetsAfterMilli(ctx, time.Now().Add(-since).UnixMilli(), topic)
		if err != nil {
			return fmt.Errorf("find what was appended to %s since %s: %w", topic, since, err)
		}
		if o, ok := at.Lookup(topic, p); ok && o.Err == nil {
			s.start[topic][p], s.next[topic][p] = kgo.NewOffset().At(o.Offset), o.Offset
		}
	}
	bar := a.progress("reading "+topic, s.length())
	defer bar.end()
	err = s.read(ctx, cl, func() { bar.set(s.length()) }, func(r *kgo.Record) {
		if string(r.Key) == key {
			visit(r)
		}
	})
	cl.RemoveConsumePartitions(map[string][]int32{topic: {p}})
	return err
}
