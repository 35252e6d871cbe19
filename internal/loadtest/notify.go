package loadtest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waterclock/waterclock/clients/go/worker"
	"github.com/waterclock/waterclock/sinks/notify"
	"github.com/waterclock/waterclock/sinks/notify/providers"
)

// NotifyOptions set how many messages are sent.
type NotifyOptions struct {
	Pushes int // over HTTP/2, to a server in this process
	Mails  int // over SMTP, to a server in this process
	AtOnce int // messages in flight
	Body   int // bytes of text per message
}

// NotifyResult is the output of bench notify. It includes the work of the servers.
type NotifyResult struct {
	Machine
	Pushes     int     `json:"pushes"`
	Mails      int     `json:"mails"`
	AtOnce     int     `json:"at_once"`
	Body       int     `json:"body"`
	PushesPerS float64 `json:"pushes_per_s"`
	PushCPU    float64 `json:"cpu_us_per_push"`
	MailsPerS  float64 `json:"mails_per_s"`
	MailCPU    float64 `json:"cpu_us_per_mail"`
	Refused    int64   `json:"refused"` // pushes and mails that were refused; should be 0
}

// MeasureNotify sends messages with the providers APNs and SMTP, without a broker or an engine.
func MeasureNotify(ctx context.Context, s Setup, o NotifyOptions) (*NotifyResult, error) {
	r := &NotifyResult{Machine: s.machine(), Pushes: o.Pushes, Mails: o.Mails, AtOnce: o.AtOnce, Body: o.Body}
	p, err := startPhones(func(string, time.Time) {})
	if err != nil {
		return nil, err
	}
	defer p.close()
	apns, err := p.apns()
	if err != nil {
		return nil, err
	}
	defer apns.Close()
	sink, err := startMailSink()
	if err != nil {
		return nil, err
	}
	defer sink.ln.Close()
	mails, err := providers.NewSMTP(providers.SMTPOptions{
		Host: "127.0.0.1", Port: sink.port(), TLS: providers.TLSNone, From: "Waterclock <remind@example.com>",
		Connections: 8,
	})
	if err != nil {
		return nil, err
	}
	defer mails.Close()
	r.PushesPerS, r.PushCPU = o.send(ctx, apns, "push", phoneToken, o.Pushes, &r.Refused)
	r.MailsPerS, r.MailCPU = o.send(ctx, mails, "email", "ada@example.com", o.Mails, &r.Refused)
	if n := sink.mails.Load(); ctx.Err() == nil && n != int64(o.Mails) {
		return nil, fmt.Errorf("the mail server has %d mails, want %d", n, o.Mails)
	}
	return r, ctx.Err()
}

// send sends n messages. It returns messages per second, and the CPU time per message in µs.
func (o *NotifyOptions) send(ctx context.Context, p notify.Provider, channel, address string, n int,
	refused *int64,
) (perS, cpu float64) {
	text := strings.Repeat("take two pills ", o.Body/15+1)[:o.Body]
	var next, wrong atomic.Int64
	var all sync.WaitGroup
	used, start := CPUTime(), time.Now()
	for range o.AtOnce {
		all.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				id := "k" + strconv.FormatInt(i, 10) + "@2026-11-20T09:00:00#0"
				a := p.Send(ctx, &notify.Message{
					ID: id, Attempt: 1, Channel: channel, Tenant: "default", Trigger: "k", Address: address,
					Title: "Pills", Body: text, Data: map[string]string{"notification_id": id},
				})
				if a.Result.Outcome != worker.OutcomeAccepted {
					wrong.Add(1)
				}
			}
		})
	}
	all.Wait()
	took := max(time.Since(start), time.Microsecond)
	*refused += wrong.Load()
	return float64(n) / took.Seconds(), float64((CPUTime() - used).Microseconds()) / float64(max(n, 1))
}
