package loadtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/waterclock/waterclock/internal/config"
)

// records answers polls of a run of one life: with nothing until it has been asked for so long, then with its records.
func records(b *engineRun, slow time.Duration) func() kgo.Fetches {
	var all []*kgo.Record
	for _, topic := range append([]string{lifeTopics[1], lifeTopics[2]}, lifeTopics...) {
		all = append(all, &kgo.Record{Topic: b.cfg.Topic(topic), Partition: 63, Key: []byte(b.prefix() + "0")})
	}
	from := time.Now()
	return func() kgo.Fetches {
		time.Sleep(100 * time.Millisecond)
		if time.Since(from) < slow {
			return nil
		}
		return kgo.Fetches{{Topics: []kgo.FetchTopic{{Partitions: []kgo.FetchPartition{{Records: all}}}}}}
	}
}

func oneLife() *engineRun {
	b := &engineRun{cfg: &config.Config{}, o: EngineOptions{Triggers: 1}, run: "r"}
	b.cfg.Topics.Prefix = "x."
	return b
}

// A broker with many partitions takes seconds for the first fetch. Its records are read all the same.
func TestSampleOfASlowBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := oneLife()
		by, err := b.readLives(t.Context(), records(b, 50*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if len(by[63]) != 1 || len(by[63][0].rest) != recordsOfLife-1 {
			t.Errorf("read %v, want the %d records of one life", by, recordsOfLife)
		}
	})
}

// A broker that does not answer ends the reading, with an error that says what to do.
func TestSampleOfASilentBroker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := oneLife()
		_, err := b.readLives(t.Context(), records(b, 24*time.Hour))
		if err == nil || !strings.Contains(err.Error(), "within 1m0s") || !strings.Contains(err.Error(), tooSlow) {
			t.Errorf("error %v, want the time and %q", err, tooSlow)
		}
	})
}

// A record that is kept shares no memory with its batch.
func TestDetached(t *testing.T) {
	batch := []byte("keyvalueheader")
	kept := detached(&kgo.Record{
		Topic: "t", Partition: 3, Key: batch[:3], Value: batch[3:8],
		Headers: []kgo.RecordHeader{{Key: "h", Value: batch[8:]}},
	})
	clear(batch)
	if kept.Topic != "t" || kept.Partition != 3 || string(kept.Key) != "key" || string(kept.Value) != "value" ||
		kept.Headers[0].Key != "h" || string(kept.Headers[0].Value) != "header" {
		t.Errorf("kept %v", kept)
	}
}

// A stage that stands still ends the measurement, and the error names the stage.
func TestStall(t *testing.T) {
	until := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for _, row := range []struct {
		name string
		f    func(context.Context, *stall) error
		want string
	}{
		{"stands still", func(ctx context.Context, _ *stall) error {
			return until(ctx)
		}, "produce: no progress for 1m0s"},
		{"another stage stands still", func(ctx context.Context, s *stall) error {
			time.Sleep(50 * time.Second)
			s.begin("read", time.Hour)
			return until(ctx)
		}, "read: no progress for 1h0m0s"},
		{"moves", func(ctx context.Context, s *stall) error {
			for range 100 {
				sleepUntil(ctx, time.Now().Add(50*time.Second))
				s.move()
			}
			return ctx.Err()
		}, ""},
		{"rests", func(ctx context.Context, s *stall) error {
			s.rest()
			sleepUntil(ctx, time.Now().Add(24*time.Hour))
			return ctx.Err()
		}, ""},
		{"fails by itself", func(context.Context, *stall) error { return errors.New("refused") }, "refused"},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stall{}
				s.begin("produce", time.Minute)
				err := s.watch(t.Context(), func(ctx context.Context) error { return row.f(ctx, s) })
				if got := fmt.Sprint(err); row.want == "" && err != nil || !strings.Contains(got, row.want) {
					t.Errorf("error %v, want %q", err, row.want)
				}
			})
		})
	}
}

// An engine that decides nothing more ends the wait for it. One that is slow does not.
func TestAwaitCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		slow := func() int64 { return int64(time.Since(start) / (50 * time.Second)) }
		if err := awaitCount(t.Context(), "commands", 100, slow); err != nil {
			t.Error(err)
		}
		err := awaitCount(t.Context(), "commands", 100, func() int64 { return 99 })
		if err == nil || !strings.Contains(err.Error(), "commands: 99 of 100, and no more for 1m0s") {
			t.Errorf("error %v, want how many there are", err)
		}
	})
}
