package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/waterclock/waterclock/internal/forecast"
	"github.com/waterclock/waterclock/pipeline/pipelinetest"
)

// The pictures of running owners have what is registered, without what was cancelled, paused or
// has ended; and a partition that this process does not own has none.
func TestOwnersKeepForecasts(t *testing.T) {
	w := pipelinetest.New(t, pipelinetest.Options{Partitions: 2})
	w.Start("a")
	w.AwaitOwners()
	ctx, cancel := context.WithCancel(w.Context())
	kept := make(chan error, 1)
	node := w.Node("a")
	go func() { kept <- node.KeepForecasts(ctx) }()
	defer func() { cancel(); <-kept }()
	for i := range 20 {
		w.Send(fmt.Sprintf("acme/once%d", i), `{"op":"register","delay":"100m","channel":"push","priority":"high"}`)
		w.Send(fmt.Sprintf("blue/daily%d", i), `{"op":"register","recurrence":"every:1d","channel":"sms","jitter":"2h"}`)
		w.Send(fmt.Sprintf("acme/gone%d", i), `{"op":"register","delay":"1h","channel":"push"}`)
		w.Send(fmt.Sprintf("acme/gone%d", i), `{"op":"cancel"}`)
		w.Send(fmt.Sprintf("acme/paused%d", i), `{"op":"register","recurrence":"every:1h","channel":"push"}`)
		w.Send(fmt.Sprintf("acme/paused%d", i), `{"op":"pause"}`)
	}
	sum := func(name, tenant string) (c forecast.Count, by map[string]int64) {
		at, _ := forecast.FrameOf(name)
		f := forecast.Frames[at]
		var all []forecast.Answer
		q := forecast.Query{
			Frame: at, FirstMS: f.First(time.Now().UnixMilli()), N: f.Buckets, Tenant: tenant, By: "channel",
		}
		for p := range int32(2) {
			a, err := node.Forecast(p, q)
			if err != nil {
				return forecast.Count{}, nil
			}
			all = append(all, a)
		}
		joined := forecast.Join(q.N, all)
		for _, b := range joined.Counts {
			c.Nominal, c.Due = c.Nominal+b.Nominal, c.Due+b.Due
		}
		by = map[string]int64{}
		for channel, due := range joined.By {
			for _, n := range due {
				by[channel] += n
			}
		}
		return c, by
	}
	w.Eventually("the minutes have what falls due in two hours", func() bool {
		c, by := sum("1m", "")
		return c == forecast.Count{Nominal: 20, Due: 20} && by["push"] == 20
	})
	w.Eventually("the hours have every day of ninety", func() bool {
		c, by := sum("1h", "blue")
		// the last day may lie in the next bucket, or wait there for its jitter
		return c.Nominal >= 20*89 && c.Nominal <= 20*90 && c.Due >= 20*88 && c.Due <= c.Nominal && by["sms"] == c.Due
	})
	if c, by := sum("1h", "acme"); c != (forecast.Count{Nominal: 20, Due: 20}) || len(by) != 1 {
		t.Errorf("acme expects %+v, %v", c, by)
	}
	if _, err := node.Forecast(7, forecast.Query{N: 1}); err == nil {
		t.Error("it answers for a partition that it does not own")
	}
}
