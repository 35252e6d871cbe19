package pipelinetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/calendar"
	"github.com/waterclock/waterclock/internal/broker"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// Minimal starts a broker in memory, with the topics of one partition and some channels.
// It returns the options of an engine on that broker. stop ends the broker and removes
// the directory of the stores.
func Minimal(ctx context.Context, channels ...string) (o pipeline.Options, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "waterclock-")
	if err != nil {
		return o, nil, err
	}
	kafka, err := broker.Start(ctx, broker.Options{Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return o, nil, errors.Join(err, os.RemoveAll(dir))
	}
	names := topics.Names{Prefix: "waterclock."}
	o = pipeline.Options{
		Kafka: []kgo.Opt{kgo.SeedBrokers(kafka.Addr())}, Names: names, Group: "waterclock", Partitions: 1, Dir: dir,
		Channels: Channels{Names: names},
	}
	o.Machine.Timetable = &trigger.Timetable{Zones: calendar.Embedded()}
	o.Machine.Channel = func(name string) trigger.Channel { return o.Channels.Settings(name).Channel }
	stop = func() error { return errors.Join(kafka.Close(), os.RemoveAll(dir)) }
	if err := create(ctx, o.Kafka, topics.Catalogue(names, o.Partitions, 1, channels)); err != nil {
		return o, nil, errors.Join(err, stop())
	}
	return o, stop, nil
}

func create(ctx context.Context, brokers []kgo.Opt, all []topics.Topic) error {
	cl, err := kgo.NewClient(brokers...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for i := range all {
		configs := map[string]*string{}
		for name, value := range all[i].Configs {
			configs[name] = &value
		}
		if _, err := kadm.NewClient(cl).CreateTopic(ctx, all[i].Partitions, 1, configs, all[i].Name); err != nil {
			return fmt.Errorf("create %s: %w", all[i].Name, err)
		}
	}
	return nil
}
