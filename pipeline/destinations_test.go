package pipeline

import (
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/waterclock/waterclock/internal/kafkapart"
	"github.com/waterclock/waterclock/pipeline/dangling"
	"github.com/waterclock/waterclock/pipeline/output"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// TestDestinations: a due event goes to its channel's topic or high lane, and waits while that
// topic refuses records or is not resolved.
func TestDestinations(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	o := &Process{Options: Options{Names: topics.Names{Prefix: "w."}, Logger: quiet, Channels: lanes{}}}
	o.due = output.New(output.Config{Names: o.Names, Logger: quiet}, nil)
	kept := o.NewKept(3)
	d := destinations{channels: o.Channels, topics: o.due, partition: 3, kept: kept}
	normal := &trigger.Fire{Channel: "push", Key: "k", Spec: &trigger.Spec{Priority: trigger.Normal}}
	high := &trigger.Fire{Channel: "push", Key: "k", Spec: &trigger.Spec{Priority: trigger.High}}
	lane := topics.HighLane("w.due.push")
	for f, want := range map[*trigger.Fire]string{normal: "w.due.push", high: lane} {
		if topic, partition := d.of(f); topic != want || partition != 3 || !d.located(f) {
			t.Errorf("priority %v goes to %s/%d, want %s/3", f.Spec.Priority, topic, partition, want)
		}
	}
	kept.health.Refused(lane, kerr.TopicAuthorizationFailed)
	if u := d.unhealthy(t.Context(), high); u == nil || u.Silent {
		t.Errorf("a topic that refuses records is %+v", u)
	}
	kept.dangling.Unresolved = map[kafkapart.TopicPartition]dangling.Ending{{Topic: "w.due.push"}: ""}
	if u := d.unhealthy(t.Context(), normal); u == nil || !u.Silent {
		t.Errorf("a topic with a dangling transaction is %+v", u)
	}
}
