package node

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/waterclock/waterclock/engine"
	"github.com/waterclock/waterclock/gateway/peer"
	"github.com/waterclock/waterclock/internal/kafkarec"
	"github.com/waterclock/waterclock/internal/wait"
	"github.com/waterclock/waterclock/pipeline"
	"github.com/waterclock/waterclock/sinks"
	"github.com/waterclock/waterclock/topics"
	"github.com/waterclock/waterclock/trigger"
)

// startReconcile compares the partitions of this process every reconcile.interval. 0 means never.
func (n *node) startReconcile(life *roles) {
	if n.cfg.Reconcile.Interval > 0 {
		life.start("reconcile", n.reconcileOften)
	}
}

func (n *node) reconcileOften(ctx context.Context) error {
	wait.Every(ctx, n.cfg.Reconcile.Interval, func() {
		for _, s := range n.engine.Partitions() {
			start := time.Now()
			r, err := n.reconcileSlice(ctx, s.Partition, start)
			switch {
			case ctx.Err() != nil:
				return
			case errors.Is(err, pipeline.ErrNotOwner): // the next owner does it
			case err != nil:
				n.log.Warn("a partition was not reconciled", "partition", s.Partition, "error", err)
			default:
				n.log.Debug("reconciled a partition", "partition", s.Partition, "triggers", r.Triggers,
					"timers", r.Timers, "rows", r.Rows, "leaks", r.Found, "overdue", r.Overdue,
					"took", time.Since(start))
			}
		}
	})
	return nil
}

// reconcile compares timers with states. If this process has a history, it also compares states
// with the rows of the history.
func (n *node) reconcile(ctx context.Context, partition int32, dry bool) (peer.Reconciled, error) {
	return n.compare(ctx, partition, dry, func(int64) slice { return slice{of: 1} })
}

// reconcileSlice compares what is due in the current interval: all timers, and one slice of the
// rows.
func (n *node) reconcileSlice(ctx context.Context, partition int32, now time.Time) (peer.Reconciled, error) {
	return n.compare(ctx, partition, false, func(triggers int64) slice {
		return sliceAt(now, n.cfg.Reconcile.Interval, triggers, int64(n.cfg.Reconcile.Rows))
	})
}

// slice selects a part of a partition's triggers by a hash of their keys. It depends only on the
// time, so a restart or another owner continues with the next slice.
type slice struct{ i, of uint64 }

// sliceAt returns the slice of the current interval. The number of slices is a power of two,
// large enough that a slice has at most rows triggers on average. Every slice comes once per
// round of intervals.
func sliceAt(now time.Time, interval time.Duration, triggers, rows int64) slice {
	s := slice{of: 1}
	for rows > 0 && s.of < 1<<32 && triggers > rows*int64(s.of) {
		s.of *= 2
	}
	s.i = uint64(now.UnixNano()/int64(interval)) % s.of
	return s
}

func (s slice) has(key trigger.Key) bool {
	if s.of == 1 {
		return true
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(key))
	x := h.Sum64()
	return (x^x>>32)%s.of == s.i
}

func (n *node) compare(ctx context.Context, partition int32, dry bool, sliceOf func(triggers int64) slice) (
	peer.Reconciled, error,
) {
	found, err := n.engine.Reconcile(ctx, partition, dry)
	out := reconciledOf(partition, &found)
	if err != nil {
		return out, err
	}
	if n.history == nil {
		out.RowsWhy = "the partition's owner has no history: give it the settings cassandra.*"
		return out, nil
	}
	c := &rowCheck{n: n, log: n.engine, partition: partition, dry: dry, out: &out, slice: sliceOf(out.Triggers)}
	c.notifications = &sinks.NotificationCheck{
		History: n.history, Retention: n.cfg.History.Retention, Now: time.Now, Mend: !dry, ReadDue: n.readDue,
		DueSince: trigger.At(time.Now().Add(dueMargin - topics.DueRetention)),
	}
	if err := c.run(ctx); err != nil {
		return out, err
	}
	if err := c.reportMissing(ctx); err != nil {
		return out, err
	}
	n.metrics.Leaked(c.leaks)
	return out, nil
}

func reconciledOf(partition int32, r *engine.Reconciled) peer.Reconciled {
	out := peer.Reconciled{
		Partition: partition, Triggers: r.Triggers, Timers: r.Timers, Overdue: r.Overdue, InFlight: r.InFlight,
		Found: int64(len(r.Leaks)) + r.More, Mended: int64(r.Mended), Leaks: []peer.Leak{},
	}
	for i := range r.Leaks {
		l := &r.Leaks[i]
		leak := peer.Leak{
			Kind: string(l.Kind), Occurrence: l.Timer.Occurrence, Detail: l.Error, Mended: r.Mended > 0,
		}
		if l.Timer.Due != 0 {
			leak.Due = l.Timer.Due.String()
		}
		name(&leak, l.Key)
		out.Leaks = append(out.Leaks, leak)
	}
	return out
}

func name(l *peer.Leak, key trigger.Key) {
	if key != "" {
		l.TriggerID, l.Tenant = key.ID(), key.Tenant()
	}
}

// logOffsets is what a check asks about topics. The engine implements it.
type logOffsets interface {
	OffsetAt(ctx context.Context, topic string, partition int32, at trigger.Instant) (int64, error)
	EndOf(ctx context.Context, topic string, partition int32) (int64, error)
}

// rowCheck compares the rows of one partition's triggers with the state that the owner has.
type rowCheck struct {
	n         *node
	log       logOffsets
	partition int32
	dry       bool
	out       *peer.Reconciled
	slice     slice
	leaks     int

	notifications *sinks.NotificationCheck
	missing       []sinks.Known   // triggers whose events the history lacks
	reach         trigger.Instant // oldest last event among triggers whose history is complete; 0 if there is none
}

// These bound a check: triggers in one batch, rows read in parallel, and rows listed.
const (
	rowChunk  = 1024
	rowsAside = 16
	maxRows   = 1000
)

// dueMargin is a margin before the retention of the due topics ends. Within it the content of a
// due event is no longer checked, because its record may be deleted meanwhile.
const dueMargin = time.Hour

// caughtUpWithin bounds how long a check waits for the history to catch up.
const caughtUpWithin = 10 * time.Second

func (c *rowCheck) run(ctx context.Context) error {
	for after := trigger.Key(""); ; {
		chunk := make([]sinks.Known, 0, rowChunk)
		err := c.n.engine.Scan(ctx, c.partition, true, after, func(s *trigger.State) bool {
			if !c.slice.has(s.Key) {
				return true
			}
			chunk = append(chunk, knownOf(s))
			return len(chunk) < rowChunk
		})
		if err != nil || len(chunk) == 0 {
			return left(err)
		}
		if why, err := c.caughtUp(ctx); err != nil || why != "" {
			c.out.RowsWhy = why
			return err
		}
		if err := c.check(ctx, chunk); err != nil {
			return err
		}
		after = chunk[len(chunk)-1].Key
	}
}

func knownOf(s *trigger.State) sinks.Known {
	k := sinks.Known{Key: s.Key, Status: s.Status, Seq: s.Seq, At: s.UpdatedAt, Born: s.CreatedAt}
	// A finished trigger may have had a user that is no longer stored.
	k.Nobody = s.Spec.UserID == "" && !s.Status.Finished()
	_, k.Speaks = topics.ContentOf(s.Spec.Payload)
	return k
}

// caughtUp waits until the history has read all current events. If it does not, caughtUp returns
// why.
func (c *rowCheck) caughtUp(ctx context.Context) (string, error) {
	end, err := c.n.engine.EndOf(ctx, c.n.names.Events(), c.partition)
	if err != nil {
		return "", fmt.Errorf("end of %s: %w", c.n.names.Events(), err)
	}
	for deadline := time.Now().Add(caughtUpWithin); ; wait.For(ctx, 50*time.Millisecond) {
		progress, err := c.n.history.Progress(ctx)
		if err != nil {
			return "the history does not answer: " + err.Error(), ctx.Err()
		}
		next := progress[c.partition].Next
		if next >= end {
			return "", nil
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return fmt.Sprintf("the history is %d events behind; run it again when it has caught up", end-next),
				ctx.Err()
		}
	}
}

func (c *rowCheck) check(ctx context.Context, chunk []sinks.Known) error {
	type result struct {
		fault  sinks.RowFault
		mended bool
		more   []sinks.NotificationFault
	}
	results := make([]result, len(chunk))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rowsAside)
	for i := range chunk {
		g.Go(func() (err error) {
			results[i].fault, results[i].mended, err = sinks.CheckRow(ctx, c.n.history, chunk[i],
				c.n.cfg.History.Retention, time.Now(), !c.dry)
			if err == nil && results[i].fault != sinks.EventsMissing {
				results[i].more, err = c.notifications.Check(ctx, chunk[i])
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("check rows of the history: %w", err)
	}
	c.out.Rows += int64(len(chunk))
	for i := range results {
		k, r := &chunk[i], &results[i]
		switch {
		case r.fault == sinks.EventsMissing:
			if len(c.missing) < maxRows {
				c.missing = append(c.missing, *k)
			}
		case r.fault != "":
			c.found(k, peer.Leak{Kind: string(r.fault), Mended: r.mended})
		case c.reach == 0 || k.At < c.reach:
			c.reach = k.At
		}
		for _, f := range r.more {
			c.found(k, peer.Leak{Kind: string(f.Fault), Occurrence: occurrenceOf(f.ID, k.Key), Mended: f.Mended})
		}
	}
	return nil
}

// occurrenceOf returns a notification's id without its trigger.
func occurrenceOf(id string, key trigger.Key) string { return strings.TrimPrefix(id, string(key)+"@") }

// reportMissing reports triggers whose events the history has lost. It leaves out triggers that
// last changed before the history begins: no row of the partition and no record of topic events
// is that old.
func (c *rowCheck) reportMissing(ctx context.Context) error {
	for i := range c.missing {
		k := &c.missing[i]
		if c.reach == 0 || k.At < c.reach {
			reaches, err := c.logReaches(ctx, k.At)
			if err != nil {
				return err
			}
			if !reaches {
				c.out.Earlier++
				continue
			}
		}
		c.found(k, peer.Leak{Kind: string(sinks.EventsMissing)})
	}
	return nil
}

// logReaches reports whether topic events still reaches back to an instant.
func (c *rowCheck) logReaches(ctx context.Context, at trigger.Instant) (bool, error) {
	topic := c.n.names.Events()
	first, err := c.log.OffsetAt(ctx, topic, c.partition, 0)
	if err != nil || first == 0 {
		return true, err
	}
	then, err := c.log.OffsetAt(ctx, topic, c.partition, at)
	if err != nil || then >= 0 {
		return then != first, err
	}
	// All records that the topic has are older, if it has any.
	end, err := c.log.EndOf(ctx, topic, c.partition)
	return first < end, err
}

// dueWithin bounds how far the timestamp of a due event may be from its firing, since the
// brokers' clocks differ.
const dueWithin = time.Minute

// readDue searches the due topic for a due event.
func (n *node) readDue(ctx context.Context, at sinks.DueAt) (r sinks.ContentRecord, ok bool, err error) {
	return readDue(ctx, n.engine, n.clients, at)
}

func readDue(ctx context.Context, log logOffsets, kafka []kgo.Opt, at sinks.DueAt) (
	r sinks.ContentRecord, ok bool, err error,
) {
	from, err := log.OffsetAt(ctx, at.Topic, at.Partition, at.Fired-trigger.Instant(dueWithin.Milliseconds()))
	if err == nil && from >= 0 {
		var end int64
		if end, err = log.EndOf(ctx, at.Topic, at.Partition); err == nil && from < end {
			return findDue(ctx, kafka, at, from, end)
		}
	}
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		err = nil
	}
	return r, false, err
}

func findDue(ctx context.Context, kafka []kgo.Opt, at sinks.DueAt, from, end int64) (
	r sinks.ContentRecord, ok bool, err error,
) {
	offset := map[string]map[int32]kgo.Offset{at.Topic: {at.Partition: kgo.NewOffset().At(from)}}
	opts := append([]kgo.Opt{}, kafka...)
	cl, err := kgo.NewClient(append(opts, kgo.ConsumePartitions(offset), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords())...)
	if err != nil {
		return r, false, err
	}
	defer cl.Close()
	last := at.Fired.Time().Add(dueWithin)
	for from < end {
		f := cl.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), f.Err()); err != nil {
			return r, false, fmt.Errorf("read %s: %w", at.Topic, err)
		}
		for _, rec := range f.Records() {
			from = rec.Offset + 1
			if rec.Attrs.IsControl() {
				continue
			}
			if one := sinks.ContentOf(kafkarec.Of(rec)); one.ID == at.ID {
				return one, true, nil
			}
			if rec.Timestamp.After(last) {
				return r, false, nil
			}
		}
	}
	return r, false, nil
}

// found records a leak of a trigger.
func (c *rowCheck) found(k *sinks.Known, l peer.Leak) {
	c.leaks++
	c.out.Found++
	if l.Mended {
		c.out.Mended++
	}
	if c.leaks > maxRows {
		return
	}
	switch {
	case l.Kind == string(sinks.EventsMissing):
		l.Detail = "the history lacks events of the trigger: run `waterclock history rebuild`"
	case l.Kind == string(sinks.ContentMissing) && !l.Mended && !c.dry:
		l.Detail = "the due topic no longer has it: it cannot be restored"
	case !l.Mended && !c.dry:
		l.Detail = "the row could not be rewritten: run `waterclock history rebuild`"
	}
	name(&l, k.Key)
	c.out.Leaks = append(c.out.Leaks, l)
	if c.leaks <= 10 {
		c.n.log.Error("the history has a leak: please report it", "kind", l.Kind, "trigger", k.Key, "partition",
			c.partition, "mended", l.Mended)
	}
}
