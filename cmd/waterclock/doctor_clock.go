package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// These limits bound the offset between our clock and the brokers'. The promise that nothing
// fires early holds for offsets of up to one second. Beyond one minute every occurrence is a
// misfire.
const (
	clockWarn = time.Second
	clockFail = time.Minute
)

// clock compares our clock with the clock of a broker.
func (d *doctor) clock(ctx context.Context) {
	if d.lacks(ctx, "clock", d.c.Topic("rejected")) {
		return
	}
	offset, within, err := d.readClock(ctx)
	if err != nil {
		d.warn("clock", "allow WRITE on the transactional id, or compare the clocks yourself (chronyc tracking)",
			"the brokers' clock cannot be read: %v", err)
		return
	}
	text := fmt.Sprintf("the broker's clock is %s ahead of ours, ± %s", offset.Round(time.Millisecond),
		within.Round(time.Millisecond))
	if offset < 0 {
		text = fmt.Sprintf("the broker's clock is %s behind ours, ± %s", (-offset).Round(time.Millisecond),
			within.Round(time.Millisecond))
	}
	const advice = "run chrony or systemd-timesyncd on this machine and the brokers"
	switch off := max(offset.Abs()-within, 0); {
	case off >= clockFail:
		d.fail("clock", advice, "%s: delays count from the broker's clock but fire by ours", text)
	case off >= clockWarn:
		d.warn("clock", advice, "%s: triggers fire early or late by this much", text)
	default:
		d.ok("clock", "%s", text)
	}
}

// readClock reads a broker's clock from the start time of a transaction. It begins a transaction,
// asks the coordinator when it began, and aborts it. Only a marker remains, which consumers never
// receive.
func (d *doctor) readClock(ctx context.Context) (offset, within time.Duration, err error) {
	// From version 4 on, AddPartitionsToTxn is a request between brokers.
	cl, err := d.app.kafka(ctx, d.c, kgo.MaxVersions(kversion.V3_0_0()))
	if err != nil {
		return 0, 0, err
	}
	defer cl.Close()
	t := &probeTxn{cl: cl, id: d.c.Group + "-doctor", topic: d.c.Topic("rejected")}
	if err := t.init(ctx); err != nil {
		return 0, 0, err
	}
	before := time.Now()
	if err := t.begin(ctx); err != nil {
		return 0, 0, err
	}
	after := time.Now()
	described, err := kadm.NewClient(cl).DescribeTransactions(ctx, t.id)
	if aborted := t.abort(ctx); err == nil {
		err = aborted
	}
	if err != nil {
		return 0, 0, err
	}
	at := described[t.id]
	if at.Err != nil || at.StartTimestamp <= 0 {
		return 0, 0, errors.Join(at.Err, errors.New("the broker does not say when the transaction began"))
	}
	within = after.Sub(before)/2 + time.Millisecond
	return time.UnixMilli(at.StartTimestamp).Sub(before.Add(within)), within, nil
}

// probeTxn is an empty transaction, made with plain protocol requests.
type probeTxn struct {
	cl        *kgo.Client
	id, topic string
	producer  int64
	epoch     int16
}

func (t *probeTxn) init(ctx context.Context) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionalID = &t.id
	req.TransactionTimeoutMillis = 10_000
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("open transactional id %s: %w", t.id, err)
	}
	t.producer, t.epoch = resp.ProducerID, resp.ProducerEpoch
	return nil
}

func (t *probeTxn) begin(ctx context.Context) error {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = t.id, t.producer, t.epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: t.topic, Partitions: []int32{0}}}
	resp, err := req.RequestWith(ctx, t.cl)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	for _, topic := range resp.Topics {
		for _, p := range topic.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return fmt.Errorf("begin a transaction on %s: %w", topic.Topic, err)
			}
		}
	}
	return nil
}

func (t *probeTxn) abort(ctx context.Context) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = t.id, t.producer, t.epoch, false
	resp, err := req.RequestWith(ctx, t.cl)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err != nil {
		return fmt.Errorf("abort the transaction: %w", err)
	}
	return nil
}
