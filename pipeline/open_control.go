package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/waterclock/waterclock/internal/kafkapart"
)

// openControl reads the settings that are in force, and notes whether progress has seen them.
func (o *opening) openControl(ctx context.Context) error {
	topic := o.opts.Names.Control()
	known := o.opts.settings.Load() // before the question: nobody has read beyond the answer
	end, err := kafkapart.ListOffset(ctx, o.kafka.cl, topic, 0, kafkapart.ReadCommitted, kafkapart.Latest)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	start, err := kafkapart.ListOffset(ctx, o.kafka.cl, topic, 0, kafkapart.ReadCommitted, kafkapart.Earliest)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	if known != nil && known.topic == o.ids.Control && known.next > end || o.progress.NextControl > end {
		o.log.Warn("topic control lost its end: calendars and tz database are those that it still has. "+
			"Write what it lacks once more", "topic", topic, "end", end)
		o.opts.settings.CompareAndSwap(known, nil)
		o.progress.NextControl = 0
	}
	last, err := o.control.open(ctx, o.ids.Control, start, end, o.readRange)
	if err != nil {
		return fmt.Errorf("read %s: %w", topic, err)
	}
	o.machine.Timetable = o.control.timetable
	if last >= o.progress.NextControl && o.progress.Seq > 0 {
		o.replan = &replan{next: end, reason: "settings", start: time.Now()}
	} else {
		o.progress.NextControl = max(o.progress.NextControl, end)
	}
	o.kafka.plan(topic, 0, end)
	o.consumer.control = end
	return nil
}
