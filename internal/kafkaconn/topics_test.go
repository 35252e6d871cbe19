package kafkaconn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/waterclock/waterclock/internal/config"
	"github.com/waterclock/waterclock/topics"
)

func settings(t *testing.T, flags map[string]string) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Flags: flags})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func clientOf(t *testing.T, c *config.Config) *kgo.Client {
	t.Helper()
	opts, err := Options(c, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

func planOf(t *testing.T, cl *kgo.Client, want []topics.Topic) []topics.Change {
	t.Helper()
	found, err := existing(t.Context(), cl, want)
	if err != nil {
		t.Fatal(err)
	}
	return topics.Plan(want, found)
}

func TestApplyLeavesNothingToPlan(t *testing.T) {
	c := settings(t, map[string]string{
		"brokers": strings.Join(broker(t), ","), "topics.partitions": "3",
		"events.retention": "unlimited", "events.payload": "false", "channels.sms.retry": "1s",
		"channels.own.topic": "team.topic", "channels.own.partitioning": "by_key",
	})
	cl := clientOf(t, c)
	admin := kadm.NewClient(cl)
	want := Wanted(c, "orders")
	plan := planOf(t, cl, want)
	if len(plan) != len(want) || plan[0].Kind != topics.Create {
		t.Fatalf("plan of an empty cluster is %v", plan)
	}
	if err := Apply(t.Context(), cl, want, plan, nil); err != nil {
		t.Fatal(err)
	}
	if plan := planOf(t, cl, want); len(plan) != 0 {
		t.Errorf("after Apply there is still to do: %v", plan)
	}
	details, err := admin.ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"commands", "due.default", "due.orders", "due.sms", "due.sms.high"} {
		if n := len(details[c.Topic(name)].Partitions); n != 3 {
			t.Errorf("%s has %d partitions, want 3", name, n)
		}
	}
	if details.Has("team.topic") {
		t.Error("a topic of the team's own was created")
	}
	configs, err := admin.DescribeTopicConfigs(t.Context(), c.Topic("events"))
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range configs[0].Configs {
		if kv.Key == "retention.ms" && kv.MaybeValue() != "-1" {
			t.Errorf("unlimited events are kept for %s ms", kv.MaybeValue())
		}
	}
}

func TestApplyRefuses(t *testing.T) {
	c := settings(t, map[string]string{"brokers": strings.Join(broker(t), ",")})
	cl := clientOf(t, c)
	admin := kadm.NewClient(cl)
	if _, err := admin.CreateTopic(t.Context(), 5, -1, nil, c.Topic("commands")); err != nil {
		t.Fatal(err)
	}
	want := Wanted(c)
	err := Apply(t.Context(), cl, want, planOf(t, cl, want), nil)
	if err == nil || !strings.Contains(err.Error(), "topics.partitions") {
		t.Errorf("got %v, want a refusal that names topics.partitions", err)
	}
	details, err := admin.ListTopics(t.Context())
	if err != nil || len(details) != 1 {
		t.Errorf("%d topics (%v): a refused plan must change nothing", len(details), err)
	}
}

func TestApplyAlters(t *testing.T) {
	c := settings(t, map[string]string{"brokers": strings.Join(broker(t), ",")})
	cl := clientOf(t, c)
	admin := kadm.NewClient(cl)
	want := Wanted(c)
	made, steps := planOf(t, cl, want), 0
	progress := func(done int) {
		if done < steps {
			t.Errorf("progress went from %d back to %d", steps, done)
		}
		steps = done
	}
	if err := Apply(t.Context(), cl, want, made, progress); err != nil {
		t.Fatal(err)
	}
	if steps != Steps(made) || steps != 2*len(made) {
		t.Errorf("progress ended at %d of %d steps, for %d topics", steps, Steps(made), len(made))
	}
	short := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: kadm.StringPtr("1000")}}
	if _, err := admin.AlterTopicConfigs(t.Context(), short, c.Topic("receipts")); err != nil {
		t.Fatal(err)
	}
	plan := planOf(t, cl, want)
	if len(plan) != 1 || plan[0].Kind != topics.Alter || plan[0].Setting != "retention.ms" {
		t.Fatalf("plan is %v, want to alter retention.ms", plan)
	}
	if err := Apply(t.Context(), cl, want, plan, nil); err != nil {
		t.Fatal(err)
	}
	if plan := planOf(t, cl, want); len(plan) != 0 {
		t.Errorf("after Apply there is still to do: %v", plan)
	}
}

// Brokers that do not answer take no progress back.
func TestNoProgressWithoutAnAnswer(t *testing.T) {
	c := settings(t, map[string]string{"brokers": "127.0.0.1:1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := awaitTopics(ctx, clientOf(t, c), Wanted(c), func(shown int) { t.Errorf("%d topics are shown", shown) })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want that it was cancelled", err)
	}
}

// A topic that one broker shows may be unknown to the one that is asked for its
// settings: it was just made, or that broker just started.
func TestTopicThatABrokerHasYetToLearnOf(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	c := settings(t, map[string]string{"brokers": strings.Join(cluster.ListenAddrs(), ","), "topics.partitions": "1"})
	cl, want := clientOf(t, c), Wanted(c)
	if err := Apply(t.Context(), cl, want, planOf(t, cl, want), nil); err != nil {
		t.Fatal(err)
	}
	asked := 0
	cluster.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if asked++; asked > 3 {
			return nil, nil, false
		}
		cluster.KeepControl()
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, r := range req.(*kmsg.DescribeConfigsRequest).Resources {
			one := kmsg.NewDescribeConfigsResponseResource()
			one.ResourceType, one.ResourceName, one.ErrorCode = r.ResourceType, r.ResourceName,
				kerr.UnknownTopicOrPartition.Code
			resp.Resources = append(resp.Resources, one)
		}
		return resp, nil, true
	})
	found, err := existing(t.Context(), cl, want)
	if err != nil || len(found) != len(want) || asked < 4 {
		t.Errorf("%d of %d topics after asking %d times, %v", len(found), len(want), asked, err)
	}
}
