package loadtest

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// CampaignOptions set the size of a campaign, and how many one-time passwords are due at the same
// time.
type CampaignOptions struct {
	Low     int           // triggers of priority low, due at one instant
	Rate    int           // triggers of priority high per second
	For     time.Duration // how long these are due, alone and during the campaign
	Payload int           // bytes of text per trigger
}

// CampaignResult is the output of bench campaign. Lateness counts from the due time until the
// provider's server has the push.
type CampaignResult struct {
	Machine
	Broker     string   `json:"broker"`
	Low        int      `json:"low"`
	Rate       int      `json:"rate"`
	ForS       float64  `json:"for_s"`
	Payload    int      `json:"payload"`
	Alone      Lateness `json:"high_alone_ms"`
	Beside     Lateness `json:"high_beside_ms"` // due in the same seconds as the campaign
	AddedP99   float64  `json:"added_p99_ms"`
	LowOutS    float64  `json:"low_out_s"` // until the last push of the campaign
	Left       int      `json:"low_left"`  // of the campaign, when the last trigger of priority high was due
	Lost       int      `json:"lost"`
	Doubled    int      `json:"doubled"`
	CPUSeconds float64  `json:"cpu_seconds"`
	RSSBytes   int64    `json:"rss_bytes"`
}

// MeasureCampaign measures how much later messages of priority high are during a campaign of
// priority low on the same channel. The engine, the worker and the provider's server share this
// process.
func MeasureCampaign(ctx context.Context, s Setup, o CampaignOptions) (r *CampaignResult, err error) {
	b := &pushRun{Setup: s}
	err = b.besidePush(ctx, o.Payload, func(ctx context.Context, kind string) error {
		r = &CampaignResult{
			Machine: s.machine(), Broker: kind, Low: o.Low, Rate: o.Rate, ForS: o.For.Seconds(), Payload: o.Payload,
		}
		return b.campaign(ctx, o, r)
	})
	return r, err
}

func (b *pushRun) campaign(ctx context.Context, o CampaignOptions, r *CampaignResult) error {
	n := int(o.For.Seconds() * float64(o.Rate))
	every := time.Second / time.Duration(o.Rate)
	b.begin("alone", n, 0, time.Now().Add(2*time.Second), every)
	if err := b.register(ctx, "alone", "high", n); err != nil {
		return err
	}
	if err := b.await(ctx); err != nil {
		return err
	}
	alone, _, lost, doubled := b.judged()

	due := time.Now().Add(5*time.Second + time.Duration(o.Low)*time.Second/10_000).Truncate(time.Second)
	b.begin("campaign", n, o.Low, due, every)
	b.sent += int64(o.Low)
	if err := produceAll(ctx, b.produce, o.Low, func(i int) *kgo.Record {
		return b.command("campaign", "low", i, due, "low")
	}); err != nil {
		return err
	}
	if err := awaitDecided(ctx, b.engine, b.sent); err != nil {
		return err
	}
	if time.Until(due) < time.Second {
		return fmt.Errorf("registering took too long for this machine; try a smaller --low than %d", o.Low)
	}
	cpu := CPUTime()
	if err := b.register(ctx, "campaign", "high", n); err != nil {
		return err
	}
	sleepUntil(ctx, b.due(n-1))
	herd, _ := b.progress()
	r.Left = o.Low - herd
	if err := b.await(ctx); err != nil {
		return err
	}
	var lostToo, doubledToo int
	r.Alone = alone
	r.Beside, _, lostToo, doubledToo = b.judged()
	r.AddedP99 = r.Beside.P99 - r.Alone.P99
	r.Lost, r.Doubled = lost+lostToo, doubled+doubledToo
	b.mu.Lock()
	defer b.mu.Unlock()
	r.LowOutS = b.last.Sub(due).Seconds()
	r.CPUSeconds, r.RSSBytes = (CPUTime() - cpu).Seconds(), peakRSS()
	return nil
}
